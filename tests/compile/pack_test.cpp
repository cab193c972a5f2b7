#include "compile/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support.h"

namespace npu::compile {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::uint8_t stale = 0xa5;  // what memory holds before packing

struct Size {
    std::uint32_t rows;
    std::uint32_t channels;
};

constexpr Size odd_sizes[] = {{1, 1}, {1, 33}, {3, 31}, {31, 64}, {33, 65}, {64, 96}, {70, 100}, {129, 257}};

std::size_t bytes_of(Precision precision, std::uint32_t channels) {
    switch (precision) {
        case Precision::int4: return channels / 2 + channels % 2;
        case Precision::int8: return channels;
        case Precision::tf32:
        case Precision::int32:
        case Precision::fp32: return std::size_t{channels} * 4;
        default: return std::size_t{channels} * 2;
    }
}

// Rows of random elements; the unused half of the last byte of an odd row of int4 is zero, as packing asks.
Bytes random_rows(test::Random& random, Precision precision, Size size, std::size_t stride) {
    Bytes rows = random.bytes(size.rows * stride);
    for (std::uint32_t row = 0; row < size.rows && precision == Precision::int4 && size.channels % 2 != 0; ++row) {
        rows[row * stride + size.channels / 2] &= 0x0f;
    }
    return rows;
}

// Expected bytes of a layout: the source element at every index inside the matrix, zero in the padding.
template <typename Layout>
Bytes by_index(const Layout& layout, std::uint32_t padded_rows, const Bytes& source, std::size_t stride, Size size) {
    const std::size_t element = bytes_of(layout.precision, 1);
    Bytes expected(layout.bytes(), 0);
    for (std::uint32_t row = 0; row < std::min(padded_rows, size.rows); ++row) {
        for (std::uint32_t channel = 0; channel < size.channels; ++channel) {
            if (layout.precision == Precision::int4) {
                const unsigned shift = channel % 2 * 4;
                const unsigned half = source[row * stride + channel / 2] >> shift & 0xfU;
                expected[layout.offset(row, channel)] |= static_cast<std::uint8_t>(half << shift);
                continue;
            }
            std::memcpy(&expected[layout.offset(row, channel)], &source[row * stride + channel * element], element);
        }
    }
    return expected;
}

TEST(Pack, weights_agree_with_the_index_function_and_zero_the_padding) {
    test::Random random(1);
    for (const Precision precision : {Precision::int4, Precision::int8, Precision::fp16, Precision::tf32}) {
        for (const Size size : odd_sizes) {
            const WeightLayout layout{precision, padded_kernels(precision, size.rows),
                                      padded_channels(precision, size.channels)};
            const std::size_t stride = bytes_of(precision, size.channels) + random.between(0, 9);
            const Bytes source = random_rows(random, precision, size, stride);
            Bytes packed(layout.bytes(), stale);
            pack_weights(layout, {source.data(), stride}, 0, size.rows, size.channels, packed.data());
            EXPECT_EQ(packed, by_index(layout, layout.kernels, source, stride, size))
                << size.rows << " kernels of " << size.channels;
        }
    }
}

TEST(Pack, weights_packed_in_ranges_of_groups_equal_weights_packed_at_once) {
    test::Random random(2);
    const WeightLayout layout{Precision::int8, 160, 96};
    const Bytes source = random.bytes(std::size_t{150} * 90);
    Bytes whole(layout.bytes(), stale);
    pack_weights(layout, {source.data(), 90}, 0, 150, 90, whole.data());
    Bytes parts(layout.bytes(), stale);
    for (const auto& [first, count] : {std::pair{96U, 54U}, std::pair{0U, 32U}, std::pair{32U, 64U}}) {
        pack_weights(layout, {&source[first * 90], 90}, first, count, 90, parts.data());
    }
    EXPECT_EQ(parts, whole);
}

TEST(Pack, unpacked_weights_are_the_weights_that_were_packed) {
    test::Random random(3);
    for (const Precision precision : {Precision::int4, Precision::int8, Precision::fp16}) {
        for (const Size size : odd_sizes) {
            const WeightLayout layout{precision, padded_kernels(precision, size.rows),
                                      padded_channels(precision, size.channels)};
            const std::size_t row_bytes = bytes_of(precision, size.channels);
            const Bytes source = random_rows(random, precision, size, row_bytes);
            Bytes packed(layout.bytes(), stale);
            pack_weights(layout, {source.data(), row_bytes}, 0, size.rows, size.channels, packed.data());
            const std::uint32_t first = random.between(0, size.rows - 1);
            const std::uint32_t count = random.between(1, size.rows - first);
            const std::size_t stride = row_bytes + 5;
            Bytes back(count * stride, stale);
            unpack_weights(layout, packed.data(), first, count, size.channels, {back.data(), stride});
            for (std::uint32_t row = 0; row < count; ++row) {
                EXPECT_EQ(std::memcmp(&back[row * stride], &source[(first + row) * row_bytes], row_bytes), 0);
                EXPECT_EQ(back[row * stride + row_bytes], stale) << "wrote beyond the row";
            }
        }
    }
}

TEST(Pack, features_agree_with_the_index_function_and_zero_the_padding) {
    test::Random random(4);
    for (const Precision precision : {Precision::int4, Precision::int8, Precision::fp16}) {
        for (const Arrangement arrangement : {Arrangement::native, Arrangement::row_major}) {
            for (const Size size : odd_sizes) {
                const FeatureLayout layout{precision, arrangement, size.rows,
                                           padded_channels(precision, size.channels)};
                const std::size_t stride = bytes_of(precision, size.channels) + random.between(0, 9);
                const Bytes source = random_rows(random, precision, size, stride);
                Bytes packed(layout.bytes(), stale);
                pack_features(layout, {source.data(), stride}, 0, size.rows, size.channels, packed.data());
                EXPECT_EQ(packed, by_index(layout, layout.rows, source, stride, size));
            }
        }
    }
}

TEST(Pack, features_of_a_range_of_rows_leave_other_rows_alone) {
    test::Random random(5);
    for (const Arrangement arrangement : {Arrangement::native, Arrangement::row_major}) {
        const FeatureLayout layout{Precision::fp16, arrangement, 100, 64};
        const Bytes source = random.bytes(std::size_t{100} * 50 * 2);
        Bytes whole(layout.bytes(), stale);
        pack_features(layout, {source.data(), 100}, 0, 100, 50, whole.data());
        Bytes parts(layout.bytes(), stale);
        pack_features(layout, {&source[37 * 100], 100}, 37, 63, 50, parts.data());
        EXPECT_EQ(parts[layout.offset(36, 63)], stale);
        pack_features(layout, {source.data(), 100}, 0, 37, 50, parts.data());
        EXPECT_EQ(parts, whole);
    }
}

TEST(Pack, unpacked_outputs_agree_with_the_index_function) {
    test::Random random(6);
    for (const Precision precision : {Precision::int32, Precision::fp32, Precision::fp16}) {
        for (const Arrangement arrangement : {Arrangement::native, Arrangement::row_major}) {
            for (const Size size : odd_sizes) {
                const OutputLayout layout{precision, arrangement, size.rows,
                                          padded_kernels(Precision::int8, size.channels)};
                const std::size_t element = bytes_of(precision, 1);
                const Bytes device = random.bytes(layout.bytes());
                const std::uint32_t first = random.between(0, size.rows - 1);
                const std::uint32_t count = size.rows - first;
                const std::size_t stride = size.channels * element + 3;
                Bytes rows(count * stride, stale);
                unpack_output(layout, device.data(), first, count, size.channels, {rows.data(), stride});
                for (std::uint32_t row = 0; row < count; ++row) {
                    for (std::uint32_t channel = 0; channel < size.channels; ++channel) {
                        ASSERT_EQ(std::memcmp(&rows[row * stride + channel * element],
                                              &device[layout.offset(first + row, channel)], element),
                                  0);
                    }
                    EXPECT_EQ(rows[(row + 1) * stride - 1], stale) << "wrote beyond the row";
                }
            }
        }
    }
}

TEST(Pack, the_comparison_notices_a_layout_with_other_blocks) {  // positive control: K spans two blocks
    test::Random random(7);
    const Bytes source = random.bytes(std::size_t{64} * 64);
    const WeightLayout layout{Precision::int8, 64, 64};
    Bytes packed(layout.bytes(), stale);
    pack_weights(layout, {source.data(), 64}, 0, 64, 64, packed.data());
    EXPECT_EQ(packed, by_index(layout, 64, source, 64, {64, 64}));
    const FeatureLayout other{Precision::int8, Arrangement::row_major, 64, 64};
    EXPECT_NE(packed, by_index(other, 64, source, 64, {64, 64}));
}

}  // namespace
}  // namespace npu::compile
