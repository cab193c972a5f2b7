// The RV1106 machine against what a board wrote. The published files hold programs, constants, inputs and output bytes;
// only registers, constants and input reach the machine. The files also hold the quantisation as numbers, from which
// the reference of this test computes the same outputs another way.
#include "sim/rv1106.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "sim/rv1106_board.h"
#include "sim/test_support.h"

namespace npu::sim {
namespace {

using nlohmann::json;
using test::Board;
using test::dma_base;
using test::from_hex;
using test::Outcome;
using test::untouched;
using test::Words;

// How halves are rounded in the first of the two roundings.
enum class Ties { even, away, up };

std::int64_t rounded(std::int64_t value, unsigned shift, Ties ties) {
    // In long double everything here is exact: 64 bits of mantissa.
    const long double exact = static_cast<long double>(value) / static_cast<long double>(std::int64_t{1} << shift);
    switch (ties) {
        case Ties::even: return llrintl(exact);
        case Ties::away: return llroundl(exact);
        case Ties::up: return static_cast<std::int64_t>(floorl(exact + 0.5L));
    }
    return 0;
}

// One layer from the quantisation block of a file: inputs [pixel][3] to outputs [pixel][channels].
std::vector<int> layer(const json& quantisation, const std::vector<int>& inputs, int input_zero, bool relu, Ties ties) {
    const json& kernels = quantisation.at("weights");
    std::vector<int> outputs;
    for (std::size_t pixel = 0; pixel < inputs.size() / 3; ++pixel) {
        for (std::size_t n = 0; n < kernels.size(); ++n) {
            std::int64_t sum = quantisation.at("biases").at(n);
            for (std::size_t c = 0; c < 3; ++c) {
                sum += std::int64_t{inputs[pixel * 3 + c] - input_zero} *
                       (kernels.at(n).at(c).get<int>() - quantisation.at("weight_zero_points").at(n).get<int>());
            }
            sum = relu ? std::max<std::int64_t>(sum, 0) : sum;
            const std::int64_t scaled =
                rounded(sum * quantisation.at("channel_multipliers").at(n).get<std::int64_t>(), 14, ties);
            const std::int64_t out = rounded(scaled * quantisation.at("multiplier").get<std::int64_t>(),
                                             quantisation.at("shift"), Ties::even) +
                                     quantisation.at("output_zero_point").get<std::int64_t>();
            outputs.push_back(static_cast<int>(std::clamp<std::int64_t>(out, -128, 127)));
        }
    }
    return outputs;
}

std::vector<int> reference(const json& file, const std::vector<std::uint8_t>& image, Ties ties) {
    const std::vector<int> pixels(image.begin(), image.end());
    const json& quantisation = file.at("quantization");
    if (!quantisation.contains("first")) {
        return layer(quantisation, pixels, 128, false, ties);
    }
    // The second layer's bias already holds the zero point of what comes in.
    return layer(quantisation.at("second"), layer(quantisation.at("first"), pixels, 128, true, ties), 0, false, ties);
}

class Rv1106Test : public testing::Test {
  protected:
    void SetUp() override {
        const char* data = std::getenv("NPU_TEST_DATA");
        if (data == nullptr) {
            GTEST_SKIP() << "NPU_TEST_DATA is not set: the board's outputs in golden/rv1106 are NOT compared";
        }
        for (const char* name : {"ties_positive", "ties_negative", "heldout_6x5", "chain_heldout3"}) {
            const auto path = std::filesystem::path(data) / "golden/rv1106" / (std::string(name) + ".json");
            std::ifstream stream(path);
            ASSERT_TRUE(stream) << path;
            files_[name] = json::parse(stream);
        }
    }

    std::map<std::string, json> files_;
};

// Lanes of the outputs that differ from the board's, of those that the program writes.
std::size_t mismatches(Board& board, const std::vector<std::byte>& expected) {
    std::size_t count = 0;
    const std::vector<std::byte> outputs = board.outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        count += i % 16 < board.lanes() && outputs[i] != expected[i] ? 1U : 0U;
    }
    return count;
}

TEST_F(Rv1106Test, EveryByteThatTheBoardWroteIsComputedFromRegistersConstantsAndInputAlone) {
    std::size_t compared = 0;
    std::size_t cases = 0;
    for (const auto& [name, file] : files_) {
        for (const auto& [input, values] : file.at("cases").items()) {
            Board board(file);
            board.load_image(values.at("input_u8_hwc"));
            const Outcome outcome = board.run(cases + 1);
            ASSERT_TRUE(outcome.finished) << name << " " << input << "\n" << test::list_findings(outcome.findings);
            EXPECT_TRUE(outcome.findings.empty()) << test::list_findings(outcome.findings);
            const std::vector<std::byte> expected = from_hex(values.at("board_output_hex_native16"));
            ASSERT_EQ(expected.size(), board.output_bytes());
            EXPECT_EQ(mismatches(board, expected), 0U) << name << " " << input;
            for (std::size_t i = 0; i < board.output_bytes(); ++i) {
                if (i % 16 >= board.lanes()) {
                    EXPECT_EQ(board.at(board.output())[i], untouched) << name << " " << input << " byte " << i;
                }
            }
            compared += std::size_t{board.pixels()} * board.lanes();
            ++cases;
        }
    }
    EXPECT_EQ(cases, 19U);
    EXPECT_EQ(compared, 4000U);  // what the files' own description counts as written by the NPU
}

TEST_F(Rv1106Test, ACoreOfThatChipRunsTheProgramsFromMemory) {
    for (const auto& [name, file] : files_) {
        for (const auto& [input, values] : file.at("cases").items()) {
            Board board(file);
            board.load_image(values.at("input_u8_hwc"));
            const KickResult result = board.run_on_core();
            ASSERT_TRUE(result.finished) << name << " " << input << "\n" << test::list_findings(result.findings);
            EXPECT_EQ(mismatches(board, from_hex(values.at("board_output_hex_native16"))), 0U) << name << " " << input;
            EXPECT_EQ(result.work.size(), file.at("programs").size());
            EXPECT_EQ(result.work.back().command_words, 130U);
        }
    }
}

TEST_F(Rv1106Test, TheBoardsBytesTellRoundingToEvenFromOtherRoundings) {
    for (const char* name : {"ties_positive", "ties_negative"}) {
        const json& file = files_.at(name);
        std::map<Ties, std::size_t> wrong;
        for (const auto& [input, values] : file.at("cases").items()) {
            const std::vector<std::byte> board = from_hex(values.at("board_output_hex_native16"));
            for (const Ties ties : {Ties::even, Ties::away, Ties::up}) {
                const std::vector<int> expected = reference(file, values.at("input_u8_hwc"), ties);
                for (std::size_t i = 0; i < expected.size(); ++i) {
                    wrong[ties] += static_cast<std::int8_t>(board[i / 3 * 16 + i % 3]) != expected[i] ? 1U : 0U;
                }
            }
        }
        EXPECT_EQ(wrong[Ties::even], 0U) << name;
        EXPECT_GT(wrong[Ties::away] + wrong[Ties::up], 40U) << name;
    }
    // The chain, too, is what its quantisation says.
    const json& chain = files_.at("chain_heldout3");
    for (const auto& [input, values] : chain.at("cases").items()) {
        const std::vector<std::byte> board = from_hex(values.at("board_output_hex_native16"));
        const std::vector<int> expected = reference(chain, values.at("input_u8_hwc"), Ties::even);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_EQ(static_cast<std::int8_t>(board[i / 3 * 16 + i % 3]), expected[i]) << input;
        }
    }
}

TEST_F(Rv1106Test, AWrongZeroPointOrBiasIsSeenInTheBytes) {
    const json& file = files_.at("ties_positive");
    const json& values = file.at("cases").at("random0");
    const std::vector<std::byte> expected = from_hex(values.at("board_output_hex_native16"));
    {
        Board board(file);
        board.load_image(values.at("input_u8_hwc"));
        ASSERT_TRUE(board
                        .run(1,
                             [](std::size_t, std::uint64_t word) {
                                 return (word & 0xffff) == 0x4080 ? word + (std::uint64_t{1} << 16) : word;
                             })
                        .finished);
        EXPECT_GT(mismatches(board, expected), 200U);
    }
    {
        Board board(file);
        board.load_image(values.at("input_u8_hwc"));
        *board.at(file.at("arena").at("channel_table").get<std::uint32_t>() + 1) ^= std::byte{0x40};
        ASSERT_TRUE(board.run().finished);
        EXPECT_EQ(mismatches(board, expected), 64U);  // one channel of three changes, in every pixel
    }
}

// Random constants and inputs under the register programs of the files, against the formula in 128 bits and long double.
TEST_F(Rv1106Test, RandomConstantsAndInputsAreComputedAsTheFormulaSays) {
    std::mt19937 random(20);
    const auto draw = [&random](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    struct Layer {
        std::array<std::array<int, 16>, 4> weights{};
        std::array<std::int32_t, 4> bias{};
        std::array<std::int16_t, 4> zero{};
        std::array<std::uint16_t, 4> multiplier{};
    };
    for (int round = 0; round < 20; ++round) {
        for (const char* name : {"ties_positive", "heldout_6x5"}) {
            const json& file = files_.at(name);
            Board board(file);
            Layer made;
            const std::uint32_t table = file.at("arena").at("channel_table");
            const std::uint32_t weights = file.at("arena").at("weights");
            for (std::uint32_t n = 0; n < 4; ++n) {
                made.zero[n] = static_cast<std::int16_t>(draw(-127, 128));
                for (std::uint32_t c = 0; c < 3; ++c) {
                    made.weights[n][c] = draw(0, 7) == 0 ? draw(0, 1) * 255 - 128 : draw(-128, 127);
                }
                made.weights[n][3] = -made.zero[n];
                made.bias[n] = draw(-40000, 40000);
                made.multiplier[n] = static_cast<std::uint16_t>(draw(0, 3) == 0 ? 0xffff : draw(0, 0xffff));
                for (std::uint32_t c = 0; c < 4; ++c) {
                    *board.at(weights + n * 4 + c) = static_cast<std::byte>(made.weights[n][c]);
                }
                std::memcpy(board.at(table + n * 4), &made.bias[n], 4);
                std::memcpy(board.at(table + 16 + n * 2), &made.zero[n], 2);
                std::memcpy(board.at(table + 24 + n * 2), &made.multiplier[n], 2);
            }
            std::vector<std::uint8_t> image(std::size_t{board.pixels()} * 3);
            for (std::uint8_t& value : image) {
                value = static_cast<std::uint8_t>(draw(0, 9) == 0 ? draw(0, 1) * 255 : draw(0, 255));
            }
            board.load_image(image);
            const Outcome outcome = board.run();
            ASSERT_TRUE(outcome.finished) << test::list_findings(outcome.findings);
            const int zero_point = static_cast<std::int8_t>(-128);
            for (std::size_t pixel = 0; pixel < board.pixels(); ++pixel) {
                for (std::size_t n = 0; n < 4; ++n) {
                    std::int64_t sum = made.bias[n];
                    for (std::size_t c = 0; c < 3; ++c) {
                        sum += std::int64_t{image[pixel * 3 + c] - 128} * (made.weights[n][c] + made.zero[n]);
                    }
                    const std::int64_t scaled = rounded(sum * made.multiplier[n], 14, Ties::even);
                    const std::int64_t out = rounded(scaled * 0x4040, 22, Ties::even) + zero_point;
                    ASSERT_EQ(static_cast<std::int8_t>(board.at(board.output())[pixel * 16 + n]),
                              std::clamp<std::int64_t>(out, -128, 127))
                        << name << " pixel " << pixel << " channel " << n;
                }
            }
        }
    }
}

TEST_F(Rv1106Test, ARegisterThatIsLeftOutIsNamedWhateverNoiseItHolds) {
    for (const auto& [name, file] : files_) {
        const std::size_t count = Board(file).bodies().size();
        for (std::size_t dropped = 0; dropped < count; ++dropped) {
            Board board(file);
            const std::uint64_t word = board.bodies()[dropped];
            const auto offset = static_cast<std::uint16_t>(word);
            const Outcome outcome = board.run(dropped + 7, [&](std::size_t place, std::uint64_t original) {
                return place == dropped ? 0 : original;
            });
            if (offset == 0x1040) {  // written twice
                EXPECT_TRUE(outcome.finished);
                continue;
            }
            EXPECT_FALSE(outcome.finished) << name << " without " << std::hex << offset;
            EXPECT_TRUE(
                test::has_finding(outcome.findings, Severity::hang, {"never written", format("0x%04x", offset)}))
                << name << " without " << std::hex << offset << "\n"
                << test::list_findings(outcome.findings);
        }
    }
}

TEST_F(Rv1106Test, EveryFlippedBitIsRefusedOrSeenInTheOutputs) {
    for (const auto& [name, file] : files_) {
        Board original(file);
        std::mt19937 random(3);
        std::vector<std::uint8_t> image(std::size_t{original.pixels()} * 3);
        for (std::uint8_t& value : image) {
            value = static_cast<std::uint8_t>(random());
        }
        original.load_image(image);
        ASSERT_TRUE(original.run().finished);
        const std::vector<std::byte> expected = original.outputs();
        const Words bodies = original.bodies();
        for (std::size_t place = 0; place < bodies.size(); ++place) {
            const auto offset = static_cast<std::uint16_t>(bodies[place]);
            if (offset == 0x1040 && place % 126 < 5) {
                continue;  // the second write of the register wins
            }
            for (unsigned bit = 0; bit < 32; ++bit) {
                if (offset == 0x4084 && bit < 9) {
                    continue;  // moves an 8-bit result by less than one
                }
                Board board(file);
                board.load_image(image);
                const Outcome outcome = board.run(1, [&](std::size_t at, std::uint64_t word) {
                    return at == place ? word ^ std::uint64_t{1} << (16 + bit) : word;
                });
                if (outcome.finished) {
                    EXPECT_NE(board.outputs(), expected)
                        << name << " " << std::hex << offset << " bit " << std::dec << bit;
                } else {
                    // Two registers that disagree: either may be the one that is named. A moved address finds other
                    // constants, whose sums may be too large.
                    EXPECT_TRUE(test::has_finding(outcome.findings, Severity::unmodelled, {"0x"}) ||
                                test::has_finding(outcome.findings, Severity::unmodelled, {"leaves 32 bits"}) ||
                                test::has_finding(outcome.findings, Severity::hang, {"DMA error"}))
                        << name << " " << std::hex << offset << " bit " << std::dec << bit << "\n"
                        << test::list_findings(outcome.findings);
                }
            }
        }
    }
}

TEST_F(Rv1106Test, WhatNoPublishedProgramDoesIsRefused) {
    const json& file = files_.at("ties_positive");
    {
        Board board(file);  // addresses count from the DMA base
        const Outcome outcome = board.run(1, {}, 0);
        EXPECT_FALSE(outcome.finished);
        EXPECT_TRUE(test::has_finding(outcome.findings, Severity::hang, {"DMA error: features at 0x2000"}));
    }
    {
        Board board(file);  // the fourth lane of an image
        *board.at(file.at("arena").at("weights").get<std::uint32_t>() + 3) ^= std::byte{1};
        const Outcome outcome = board.run();
        EXPECT_FALSE(outcome.finished);
        EXPECT_TRUE(test::has_finding(outcome.findings, Severity::unmodelled, {"weight 3 of kernel 0"}));
    }
    {
        Board board(file);  // a sum beyond 32 bits
        const std::int32_t bias = 0x7fffffff;
        std::memcpy(board.at(file.at("arena").at("channel_table").get<std::uint32_t>()), &bias, 4);
        board.load_image(std::vector<std::uint8_t>(192, 255));
        const Outcome outcome = board.run();
        EXPECT_FALSE(outcome.finished);
        EXPECT_TRUE(test::has_finding(outcome.findings, Severity::unmodelled, {"leaves 32 bits"}));
        EXPECT_EQ(board.outputs(), std::vector<std::byte>(board.output_bytes(), untouched));
    }
    Judge judge(0, 0);
    Rv1106Registers registers;
    registers.apply({0x0201, 0x4010, 0}, judge);  // target of CNA, register of DPU
    EXPECT_TRUE(test::has_finding(judge.findings(), Severity::unmodelled, {"target 0x0201, register 0x4010"}));
    EXPECT_FALSE(registers.written(0x4010));
    registers.apply({0x4001, 0x6024, 0}, judge);  // the PPU, which no published program uses
    EXPECT_TRUE(test::has_finding(judge.findings(), Severity::unmodelled, {"register 0x6024"}));
    Judge other(0, 0);
    EXPECT_FALSE(run_rv1106_task(registers, 0x0d, MappedMemory(), other));
    EXPECT_TRUE(test::has_finding(other.findings(), Severity::unmodelled, {"enable 0xd"}));
}

TEST_F(Rv1106Test, LenientModeRunsSoundProgramsAndRefusesTheSame) {
    const json& file = files_.at("chain_heldout3");
    const json& values = file.at("cases").at("random0");
    Board board(file);
    board.load_image(values.at("input_u8_hwc"));
    const Outcome outcome = board.run(1, {}, dma_base, Mode::lenient);
    ASSERT_TRUE(outcome.finished);
    EXPECT_EQ(mismatches(board, from_hex(values.at("board_output_hex_native16"))), 0U);
    ASSERT_EQ(outcome.work.size(), 2U);
    EXPECT_EQ(outcome.work[0].macs, 64U * 16U);
    EXPECT_EQ(outcome.work[1].macs, 64U * 48U);
    EXPECT_EQ(outcome.work[0].feature_bytes, 8U * 48U);
    EXPECT_EQ(outcome.work[1].feature_bytes, 64U * 16U);
    EXPECT_EQ(outcome.work[1].output_bytes, 64U * 3U);
    Board changed(file);
    EXPECT_FALSE(changed
                     .run(
                         1,
                         [](std::size_t, std::uint64_t word) {
                             return (word & 0xffff) == 0x1068 ? word | std::uint64_t{0x0101} << 16 : word;
                         },
                         dma_base, Mode::lenient)
                     .finished);
}

}  // namespace
}  // namespace npu::sim
