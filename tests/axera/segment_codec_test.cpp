#include "axera/segment_codec.h"

#include <gtest/gtest.h>

#include <random>

#include "axera/models.h"

namespace npu::axera::test {
namespace {

TEST(SegmentCodec, literals_are_taken_as_they_are) {
    EXPECT_EQ(must(unpack_segment(Buffer{0x02, 7, 8, 9})), (Buffer{7, 8, 9}));
    EXPECT_EQ(must(unpack_segment(Buffer{})), Buffer{});
}

TEST(SegmentCodec, a_copy_takes_length_and_distance_from_its_bits_and_may_overlap_itself) {
    // distance 1 = (b << 2) | 1 with b = 0, length 3 + 4: bits 5 and 6 of the first byte hold the low bits of the
    // distance.
    EXPECT_EQ(must(unpack_segment(Buffer{0x00, 5, 0x80 | 1 << 5 | 4, 0})), (Buffer{5, 5, 5, 5, 5, 5, 5, 5}));
    // distance 3, length 5: the pattern goes on.
    EXPECT_EQ(must(unpack_segment(Buffer{0x02, 1, 2, 3, 0x80 | 3 << 5 | 2, 0})), (Buffer{1, 2, 3, 1, 2, 3, 1, 2}));
    // five bits set: one more byte, length 34 + 6.
    EXPECT_EQ(must(unpack_segment(Buffer{0x00, 9, 0x80 | 1 << 5 | 31, 0, 6})), Buffer(41, 9));
}

TEST(SegmentCodec, distance_zero_stands_for_1024) {
    std::mt19937 random(3);
    Buffer start(1024);
    for (auto& byte : start) {
        byte = static_cast<std::uint8_t>(random());
    }
    Buffer packed;
    for (std::size_t at = 0; at < 1024; at += 128) {
        packed.push_back(127);
        packed.insert(packed.end(), start.begin() + static_cast<std::ptrdiff_t>(at),
                      start.begin() + static_cast<std::ptrdiff_t>(at + 128));
    }
    packed.push_back(0x80 | 7);  // length 10, low bits of the distance 0
    packed.push_back(0);
    Buffer expected = start;
    expected.insert(expected.end(), start.begin(), start.begin() + 10);
    EXPECT_EQ(must(unpack_segment(packed)), expected);
}

TEST(SegmentCodec, damaged_bytes_are_refused_with_the_place) {
    const auto message = [](Buffer packed) { return unpack_segment(packed).error().message; };
    EXPECT_NE(message({0x03, 1, 2}).find("literal"), std::string::npos);
    EXPECT_NE(message({0x00, 1, 0x80}).find("byte 2 is cut off"), std::string::npos);
    EXPECT_NE(message({0x00, 1, 0x9F, 0}).find("cut off"), std::string::npos);
    EXPECT_NE(message({0x00, 1, 0xC0, 0}).find("goes back 2 bytes and 1 were written"), std::string::npos);
    EXPECT_NE(unpack_segment(Buffer{0x00, 9, 0xBF, 0, 255}, 100).error().message.find("more than 100"),
              std::string::npos);
}

// Data of all kinds: noise, constants, records that repeat with changes, and every length around the borders of the
// code.
TEST(SegmentCodec, what_was_packed_unpacks_to_itself) {
    std::mt19937 random(11);
    std::size_t smaller = 0;
    for (int round = 0; round < 400; ++round) {
        const std::size_t size = round < 300 ? static_cast<std::size_t>(round) : random() % 6000;
        const unsigned letters = 1U << (random() % 9);
        const std::size_t period = 1 + random() % 1400;
        Buffer bytes(size);
        for (std::size_t i = 0; i < size; ++i) {
            const bool repeat = i >= period && random() % 16 != 0 && round % 3 != 0;
            bytes[i] = repeat ? bytes[i - period] : static_cast<std::uint8_t>(random() % letters);
        }
        const Buffer packed = pack_segment(bytes);
        EXPECT_EQ(must(unpack_segment(packed)), bytes) << round;
        EXPECT_LE(packed.size(), bytes.size() + (bytes.size() + 127) / 128);
        smaller += packed.size() < bytes.size() / 2 ? 1 : 0;
    }
    EXPECT_GT(smaller, 50U);
}

}  // namespace
}  // namespace npu::axera::test
