// Compressed weights. The encoder here is written from the published description of the format and shares nothing with
// the decoder; what it encodes must give the sums of the dense weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "sim/addressing.h"
#include "sim/cna_support.h"
#include "sim/weight_decompressor.h"

namespace npu::sim::test {
namespace {

struct Stream {
    std::array<std::uint32_t, 16> blocks{};
    std::vector<std::uint8_t> bytes;
    std::array<std::size_t, 16> start{};  // of each lane
};

int width_of(int residue) {
    const int magnitude = residue >= 128 ? 255 - residue : residue;
    int width = 0;
    while (magnitude >> width != 0) {
        ++width;
    }
    return width;
}

// Dense weights in the order of the stream, a multiple of 1024 bytes.
Stream encode(const std::vector<std::uint8_t>& dense) {
    static constexpr int prefix[8] = {0, 1, 7, 3, 6, 10, 18, 2};
    static constexpr int length[8] = {2, 2, 3, 3, 3, 4, 5, 5};
    Stream stream;
    for (std::size_t lane = 0; lane < 16; ++lane) {
        const std::size_t parity = lane / 8;
        const std::size_t quad = lane % 8;
        std::vector<std::uint8_t> values;
        for (std::size_t tile = 0; tile < dense.size() / 1024; ++tile) {
            for (std::size_t half = 0; half < 2; ++half) {
                for (std::size_t group = 0; group < 8; ++group) {
                    for (std::size_t i = 0; i < 4; ++i) {
                        values.push_back(dense[tile * 1024 + half * 512 + (2 * group + parity) * 32 + quad * 4 + i]);
                    }
                }
            }
        }
        std::array<int, 256> count{};
        for (const std::uint8_t value : values) {
            ++count[value];
        }
        const auto modal = static_cast<int>(std::ranges::max_element(count) - count.begin());
        std::array<int, 8> by_width{};
        for (const std::uint8_t value : values) {
            ++by_width[static_cast<std::size_t>(width_of((value - modal) & 255))];
        }
        std::array<int, 8> book = {0, 1, 2, 3, 4, 5, 6, 7};
        std::ranges::stable_sort(book, [&](int a, int b) {
            return by_width[static_cast<std::size_t>(a)] > by_width[static_cast<std::size_t>(b)];
        });
        std::vector<bool> bits(128);
        const auto put = [&](std::size_t at, int value, int n) {
            for (int i = 0; i < n; ++i) {
                bits[at + static_cast<std::size_t>(i)] = (value >> i & 1) != 0;
            }
        };
        put(8, modal, 8);
        for (std::size_t rank = 0; rank < 8; ++rank) {
            put(32 + 4 * rank, book[rank], 4);
        }
        const auto append = [&](int value, int n) {
            for (int i = 0; i < n; ++i) {
                bits.push_back((value >> i & 1) != 0);
            }
        };
        for (const std::uint8_t value : values) {
            const int residue = (value - modal) & 255;
            const int magnitude = residue >= 128 ? 255 - residue : residue;
            const int width = width_of(residue);
            const auto rank = std::ranges::find(book, width) - book.begin();
            append(prefix[rank], length[rank]);
            append(residue >= 128 ? 1 : 0, 1);
            append(magnitude, std::max(width - 1, 0));
        }
        const std::size_t lane_bytes = std::max<std::size_t>((bits.size() + 127) / 128, 8) * 16;
        stream.blocks[lane] = static_cast<std::uint32_t>(lane_bytes / 16);
        stream.start[lane] = stream.bytes.size();
        stream.bytes.resize(stream.bytes.size() + (lane_bytes + 63) / 64 * 64);
        for (std::size_t i = 0; i < bits.size(); ++i) {
            stream.bytes[stream.start[lane] + i / 8] |= static_cast<std::uint8_t>(bits[i] ? 1U << i % 8 : 0);
        }
    }
    return stream;
}

Program compressed_program(const ConvolutionCase& shape, const Stream& stream) {
    Program program = convolution_program(shape);
    program.set(0x1100, 1);
    program.set(0x1104, 0x55555555);
    for (std::uint16_t lane = 0; lane < 16; ++lane) {
        program.set(static_cast<std::uint16_t>(0x1140 + 4 * lane), stream.blocks[lane] - 1);
    }
    return program;
}

ConvolutionCase random_shape(std::mt19937& random) {
    ConvolutionCase shape = random_case(Precision::int8, false, random);
    shape.channels = 96;
    shape.kernels = shape.output_channels = 64;
    shape.lines = Lines::grouped;
    return shape;
}

// Random over the full range, or like a model's: small around one value that is not zero, with outliers.
std::vector<std::uint32_t> weight_codes(std::size_t count, bool skewed, std::mt19937& random) {
    std::normal_distribution<float> normal(-3, 9);
    std::vector<std::uint32_t> codes(count);
    for (std::uint32_t& code : codes) {
        const bool wild = !skewed || random() % 50 == 0;
        code = wild ? static_cast<std::uint32_t>(random()) & 255
                    : static_cast<std::uint8_t>(static_cast<std::int8_t>(normal(random)));
    }
    return codes;
}

struct Loaded {
    Stream stream;
    std::size_t dense_bytes;
};

// Puts dense tensors into memory, then the compressed weights over the dense ones.
Loaded load_compressed(SparseMemory& memory, const ConvolutionCase& shape, const Tensors& tensors) {
    load_tensors(memory, shape, tensors);
    std::vector<std::uint8_t> dense(shape.weight_bytes());
    std::memcpy(dense.data(), memory.at(shape.weights), dense.size());
    Loaded loaded{encode(dense), dense.size()};
    memory.fill(shape.weights, std::byte{0}, dense.size());
    memory.map(shape.weights, loaded.stream.bytes.size());
    std::memcpy(memory.at(shape.weights), loaded.stream.bytes.data(), loaded.stream.bytes.size());
    return loaded;
}

TEST(CompressedWeights, GiveTheSumsOfTheDenseOnes) {
    std::mt19937 random(1);
    SparseMemory memory;
    for (int round = 0; round < 8; ++round) {
        const bool skewed = round % 2 == 1;
        const ConvolutionCase shape = random_shape(random);
        Tensors tensors = random_tensors(shape, random, Range::full);
        tensors.weights = weight_codes(tensors.weights.size(), skewed, random);
        const Loaded loaded = load_compressed(memory, shape, tensors);
        EXPECT_EQ(loaded.stream.bytes.size() < loaded.dense_bytes, skewed) << "only skewed data shrinks";
        const ReadResult read = read_convolution(compressed_program(shape, loaded.stream), shape.input);
        ASSERT_FALSE(read.refused) << list_findings(read.findings);
        EXPECT_EQ(weight_extent(read.convolution).end - weight_extent(read.convolution).begin,
                  static_cast<std::int64_t>(loaded.stream.bytes.size()));
        EXPECT_FALSE(find_stream_error(read.convolution, memory.at(shape.weights)));
        Convolver convolver;
        const Sums expected = expected_sums(shape, tensors);
        EXPECT_EQ(run_convolver(convolver, read.convolution, memory).integers, expected.integers);
        const ReadResult dense = read_convolution(convolution_program(shape), shape.input);
        EXPECT_NE(run_convolver(convolver, dense.convolution, memory).integers, expected.integers)
            << "taken as dense they are something else";
    }
}

TEST(CompressedWeights, OfOneValueAndOfAllValuesComeBack) {
    SparseMemory memory;
    std::vector<std::uint8_t> dense(2048, 0x80);
    for (int all = 0; all < 2; ++all) {
        for (std::size_t i = 0; all == 1 && i < dense.size(); ++i) {
            dense[i] = static_cast<std::uint8_t>(i * 167 + i / 256);
        }
        const Stream stream = encode(dense);
        WeightDecompressor decompressor(reinterpret_cast<const std::byte*>(stream.bytes.data()), stream.blocks);
        std::vector<std::uint8_t> got(dense.size());
        decompressor.read_tile(reinterpret_cast<std::byte*>(got.data()));
        decompressor.read_tile(reinterpret_cast<std::byte*>(got.data()) + 1024);
        EXPECT_EQ(got, dense);
        EXPECT_FALSE(decompressor.error());
    }
}

TEST(CompressedWeights, ThatAreDamagedAreFoundAndReadAsZeros) {
    std::mt19937 random(2);
    SparseMemory memory;
    const ConvolutionCase shape = random_shape(random);
    Tensors tensors = random_tensors(shape, random, Range::full);
    const Loaded loaded = load_compressed(memory, shape, tensors);
    const auto error_after = [&](const std::function<void(std::byte*, Convolution&)>& damage) {
        load_compressed(memory, shape, tensors);
        Convolution convolution = read_convolution(compressed_program(shape, loaded.stream), shape.input).convolution;
        damage(memory.at(shape.weights), convolution);
        Convolver convolver;
        (void)run_convolver(convolver, convolution, memory);  // must be safe
        return find_stream_error(convolution, memory.at(shape.weights)).value_or("none");
    };
    EXPECT_EQ(error_after([](std::byte*, Convolution&) {}), "none");
    const auto at = [&](std::size_t lane, std::size_t offset) { return loaded.stream.start[lane] + offset; };
    EXPECT_NE(error_after([&](std::byte* bytes, Convolution&) { bytes[at(3, 0)] = std::byte{1}; }).find("lane 3"),
              std::string::npos);
    EXPECT_NE(error_after([&](std::byte* bytes, Convolution&) { bytes[at(5, 4)] = bytes[at(5, 5)]; }).find("code book"),
              std::string::npos);
    EXPECT_NE(error_after([&](std::byte* bytes, Convolution&) { bytes[at(5, 4)] |= std::byte{8}; }).find("lane 5"),
              std::string::npos);
    // The longest code and the longest magnitude for everything: the lane runs out.
    EXPECT_NE(error_after([&](std::byte* bytes, Convolution&) {
                  static constexpr std::uint8_t two_symbols[] = {0x02, 0x20, 0x00};
                  static constexpr std::uint8_t book[] = {0x10, 0x32, 0x54, 0x76};
                  std::memcpy(bytes + at(15, 4), book, sizeof book);
                  for (std::size_t i = 16; i < loaded.stream.blocks[15] * 16; ++i) {
                      bytes[at(15, i)] = static_cast<std::byte>(two_symbols[(i - 16) % 3]);
                  }
              }).find("lane 15 of the compressed weights ends"),
              std::string::npos);
    EXPECT_NE(
        error_after([](std::byte*, Convolution& convolution) { convolution.lane_blocks[15] = 2; }).find("lane 15"),
        std::string::npos);
    EXPECT_NE(error_after([](std::byte*, Convolution& convolution) { convolution.lane_blocks.fill(1); }), "none");
}

TEST(CompressedWeights, AreRefusedInShapesAndPlacesThatTheCodecDoesNotHave) {
    std::mt19937 random(3);
    const ConvolutionCase good = random_shape(random);
    Stream stream;
    stream.blocks.fill(40);
    const auto refused = [&](const ConvolutionCase& shape, std::vector<std::string> texts) {
        const ReadResult read = read_convolution(compressed_program(shape, stream), shape.input);
        EXPECT_TRUE(read.refused);
        EXPECT_TRUE(has_finding(read.findings, Severity::corrupt, std::move(texts))) << list_findings(read.findings);
    };
    EXPECT_FALSE(read_convolution(compressed_program(good, stream), good.input).refused);
    ConvolutionCase bad = good;
    bad.kernels = 40;
    refused(bad, {"CNA.DCOMP_CTRL", "40 x 96"});
    bad = good;
    bad.channels = 80;
    refused(bad, {"CNA.DCOMP_CTRL", "64 x 80"});
    bad = good;
    bad.weights += 16;
    refused(bad, {"CNA.DCOMP_ADDR0", "multiple of 64"});
    Program huge = compressed_program(good, stream);
    huge.set(0x1154, 0x7fffffff);
    const ReadResult read = read_convolution(huge, good.input, Mode::lenient);
    EXPECT_TRUE(read.refused) << "in both modes: there is no such memory";
    EXPECT_TRUE(has_finding(read.findings, Severity::hang, {"CNA.DCOMP_AMOUNT5", "address window"}));
}

}  // namespace
}  // namespace npu::sim::test
