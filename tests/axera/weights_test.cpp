// Weights in compiled constants, against a writer of the test's own that follows the description byte by byte.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "axera/models.h"
#include "axera/weight_patch.h"

namespace npu::axera::test {
namespace {

// As the description is worded: append chunk by chunk and unit by unit. q has rows x columns codes, scales one a row.
Buffer reference_matrix(const WeightLayout& layout, unsigned rows, unsigned columns, const std::vector<int>& q,
                        const std::vector<float>& scales) {
    Buffer bytes;
    const auto number = [&](std::int32_t value) {
        for (int i = 0; i < 4; ++i) {
            bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint32_t>(value) >> (8 * i)));
        }
    };
    std::vector<std::pair<unsigned, unsigned>> parts;  // first column, width
    unsigned later = 0;
    while (columns - later * 544 > 576) {
        ++later;
    }
    parts.emplace_back(0, columns - later * 544);
    for (unsigned i = 0; i < later; ++i) {
        parts.emplace_back(columns - (later - i) * 544, 544);
    }
    const unsigned rb = layout.block_rows;
    for (unsigned block = 0; block < rows; block += rb) {
        for (const auto& [first, width] : parts) {
            const unsigned chunks = (width + 35) / 36;
            const auto at = [&, first = first, width = width](unsigned row, unsigned column) {
                return column < width ? q[(block + row) * columns + first + column] : 0;
            };
            const auto row_of_chunk = [&](unsigned row, unsigned chunk) {
                if (layout.format == WeightFormat::s4) {
                    for (unsigned j = 0; j < 18; ++j) {
                        const int even = at(row, chunk * 36 + 2 * j) + 8;
                        const int odd = at(row, chunk * 36 + 2 * j + 1) + 8;
                        bytes.push_back(static_cast<std::uint8_t>(odd << 4 | even));
                    }
                    return;
                }
                for (const bool high : {false, true}) {
                    for (unsigned j = 0; j < 18; ++j) {
                        const int even = at(row, chunk * 36 + 2 * j);
                        const int odd = at(row, chunk * 36 + 2 * j + 1);
                        bytes.push_back(static_cast<std::uint8_t>(high ? ((odd >> 4) + 8) << 4 | ((even >> 4) + 8)
                                                                       : (odd & 15) << 4 | (even & 15)));
                    }
                }
            };
            const auto unit = [&](unsigned k, unsigned chunk) {
                if (layout.format == WeightFormat::s8) {
                    row_of_chunk(k, chunk);
                    row_of_chunk(k + 16, chunk);
                    return;
                }
                for (unsigned half = 0; half < rb; half += 32) {
                    row_of_chunk(half + 2 * k, chunk);
                    row_of_chunk(half + 2 * k + 1, chunk);
                }
            };
            const bool chunks_outside = layout.order == UnitOrder::chunks_outside;
            for (unsigned outer = 0; outer < (chunks_outside ? chunks : 16U); ++outer) {
                for (unsigned inner = 0; inner < (chunks_outside ? 16U : chunks); ++inner) {
                    unit(chunks_outside ? inner : outer, chunks_outside ? outer : inner);
                }
            }
            for (unsigned row = 0; row < rb; ++row) {
                double sum = 0;
                for (unsigned column = 0; column < width; ++column) {
                    sum += at(row, column);
                }
                number(static_cast<std::int32_t>(-sum / 2 * 65536));
                if (layout.format == WeightFormat::s8) {
                    number(0);
                }
            }
            bytes.insert(bytes.end(), layout.format == WeightFormat::s8 ? 128 : std::size_t{4} * rb, 0);
            for (unsigned row = 0; row < rb; ++row) {
                std::int32_t word = 0;
                std::memcpy(&word, &scales[block + row], 4);
                number(word);
            }
        }
    }
    return bytes;
}

struct Sample {
    std::vector<int> q;
    std::vector<float> scales;
};

Sample random_sample(const WeightLayout& layout, unsigned rows, unsigned columns, unsigned seed) {
    std::mt19937 random(seed);
    const int limit = layout.format == WeightFormat::s4 ? 8 : 128;
    Sample sample{std::vector<int>(std::size_t{rows} * columns), std::vector<float>(rows)};
    for (int& value : sample.q) {
        value = random() % 12 == 0 ? (random() % 2 == 0 ? -limit : limit - 1)
                                   : static_cast<int>(random() % static_cast<unsigned>(2 * limit)) - limit;
    }
    for (float& scale : sample.scales) {
        scale = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 4096.0F;
    }
    return sample;
}

Buffer noise(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    Buffer bytes(count);
    for (std::uint8_t& byte : bytes) {
        byte = random() % 4 == 0 ? 0 : static_cast<std::uint8_t>(random());
    }
    return bytes;
}

void append(Buffer& to, const Buffer& bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

TEST(WeightLayout, sizes_are_those_of_a_published_file) {
    // v_proj of Qwen3-0.6B in s4: 32 blocks of 8448 + 9600 bytes.
    const WeightLayout s4{};
    EXPECT_EQ(part_widths(1024), (std::vector<unsigned>{480, 544}));
    EXPECT_EQ(part_bytes(s4, 480), 8448U);
    EXPECT_EQ(part_bytes(s4, 544), 9600U);
    EXPECT_EQ(matrix_bytes(s4, 1024, 1024), 577536U);
    EXPECT_EQ(part_widths(576), (std::vector<unsigned>{576}));
    EXPECT_EQ(part_widths(577), (std::vector<unsigned>{33, 544}));
    EXPECT_FALSE(matrix_bytes(s4, 33, 36).has_value());
}

TEST(WeightLayout, every_layout_is_the_one_described_and_reads_back) {
    for (const WeightLayout& layout : weight_layouts()) {
        SCOPED_TRACE(layout_name(layout));
        for (const unsigned width : {36U, 40U, 480U, 544U, 576U}) {
            const Sample sample = random_sample(layout, layout.block_rows, width, width);
            const Buffer expected = reference_matrix(layout, layout.block_rows, width, sample.q, sample.scales);
            WeightPart part{{sample.q.begin(), sample.q.end()}, sample.scales};
            EXPECT_EQ(must(write_part(layout, width, part)), expected);
            const WeightPart back = must(read_part(layout, width, expected));
            EXPECT_EQ(back.q, part.q);
            EXPECT_EQ(back.scales, part.scales);
            for (const WeightLayout& other : weight_layouts()) {
                EXPECT_EQ(is_part(other, width, expected),
                          other == layout ||
                              (width == 36 && other.format == layout.format && other.block_rows == layout.block_rows));
            }
        }
    }
}

TEST(WeightLayout, a_single_changed_byte_is_found_out_unless_it_is_a_scale) {
    const WeightLayout layout{WeightFormat::s8, 32, UnitOrder::chunks_outside};
    const Sample sample = random_sample(layout, 32, 50, 1);
    const Buffer good = reference_matrix(layout, 32, 50, sample.q, sample.scales);
    std::size_t unseen = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
        Buffer bad = good;
        bad[at] ^= 0x01;
        unseen += is_part(layout, 50, bad) ? 1 : 0;
    }
    EXPECT_EQ(unseen, 32U * 4U);
}

TEST(WeightLayout, a_sum_that_the_layout_cannot_hold_is_refused) {
    const WeightLayout layout{WeightFormat::s8, 32, UnitOrder::chunks_outside};
    WeightPart part{std::vector<std::int8_t>(32 * 544, -128), std::vector<float>(32, 1.0F)};
    EXPECT_NE(write_part(layout, 544, part).error().message.find("cannot hold"), std::string::npos);
    const WeightLayout s4{};
    EXPECT_NE(write_part(s4, 544, part).error().message.find("does not fit s4"), std::string::npos);
}

TEST(Quantiser, both_rules_give_the_nearest_code_and_use_the_whole_range) {
    std::mt19937 random(4);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    for (const WeightFormat kind : {WeightFormat::s4, WeightFormat::s8}) {
        for (const QuantiserRule rule : {QuantiserRule::a, QuantiserRule::b}) {
            std::vector<float> row(1000);
            for (float& value : row) {
                value = normal(random);
            }
            std::vector<std::int8_t> q(row.size());
            float scale = 0;
            quantise_row(row, kind, rule, q, scale);
            const int low = kind == WeightFormat::s4 ? -8 : -128;
            int extreme = 0;
            for (std::size_t i = 0; i < row.size(); ++i) {
                extreme = std::max(extreme, std::abs(int{q[i]}));
                const double exact = double{row[i]} / scale;
                if (exact < -low - 1) {
                    EXPECT_LE(std::fabs(exact - q[i]), 0.5 + 1e-4);
                }
            }
            EXPECT_EQ(extreme, rule == QuantiserRule::a ? -low : -low - 1);
        }
    }
    std::vector<float> zeros(5, 0.0F);
    std::vector<std::int8_t> q(5, 1);
    float scale = 1;
    quantise_row(zeros, WeightFormat::s4, QuantiserRule::b, q, scale);
    EXPECT_EQ(scale, 0.0F);
    EXPECT_EQ(q, std::vector<std::int8_t>(5, 0));
}

TEST(WeightPatch, a_matrix_is_found_by_its_structure_and_replaced_and_nothing_else_changes) {
    for (const WeightLayout& layout : weight_layouts()) {
        SCOPED_TRACE(layout_name(layout));
        constexpr unsigned rows = 64;
        constexpr unsigned columns = 700;  // two parts
        const Sample sample = random_sample(layout, rows, columns, 9);
        const Buffer matrix = reference_matrix(layout, rows, columns, sample.q, sample.scales);
        Buffer constants = noise(1237, 1);
        const std::size_t offset = constants.size();
        append(constants, matrix);
        append(constants, noise(3001, 2));
        const std::vector<WeightPlace> places = find_weights(constants, rows, columns);
        ASSERT_EQ(places.size(), 1U);
        EXPECT_EQ(places[0].offset, offset);
        EXPECT_EQ(places[0].layout, layout);
        const std::vector<float> before = must(read_weights(constants, places[0]));
        EXPECT_EQ(before[columns + 3], static_cast<float>(sample.q[columns + 3]) * sample.scales[1]);

        std::mt19937 random(3);
        std::normal_distribution<float> normal(0.0F, 0.05F);
        std::vector<float> weights(rows * columns);
        for (float& value : weights) {
            value = normal(random);
        }
        const Buffer original = constants;
        must(patch_weights(constants, places[0], weights, QuantiserRule::b));
        EXPECT_TRUE(
            std::equal(original.begin(), original.begin() + static_cast<std::ptrdiff_t>(offset), constants.begin()));
        const auto end = static_cast<std::ptrdiff_t>(offset + matrix.size());
        EXPECT_TRUE(std::equal(original.begin() + end, original.end(), constants.begin() + end));
        // What is there now is what the test's own writer makes of the same codes.
        std::vector<int> q;
        std::vector<float> scales(rows);
        for (unsigned row = 0; row < rows; ++row) {
            std::vector<std::int8_t> codes(columns);
            quantise_row(std::span(weights).subspan(row * columns, columns), layout.format, QuantiserRule::b, codes,
                         scales[row]);
            q.insert(q.end(), codes.begin(), codes.end());
        }
        const Buffer expected = reference_matrix(layout, rows, columns, q, scales);
        EXPECT_TRUE(
            std::equal(expected.begin(), expected.end(), constants.begin() + static_cast<std::ptrdiff_t>(offset)));
        const std::vector<float> after = must(read_weights(constants, places[0]));
        const float step = 0.3F / (layout.format == WeightFormat::s4 ? 7.0F : 127.0F);
        for (std::size_t i = 0; i < after.size(); ++i) {
            EXPECT_NEAR(after[i], weights[i], step);
        }
    }
}

TEST(WeightPatch, what_does_not_fit_is_refused_and_nothing_changes) {
    const WeightLayout layout{};
    const Sample sample = random_sample(layout, 32, 100, 5);
    Buffer constants = reference_matrix(layout, 32, 100, sample.q, sample.scales);
    const Buffer original = constants;
    const WeightPlace place{layout, 0, 32, 100};
    const std::vector<float> weights(3200, 0.5F);
    EXPECT_FALSE(patch_weights(constants, {layout, 1, 32, 100}, weights, QuantiserRule::a).ok());
    EXPECT_FALSE(patch_weights(constants, {{WeightFormat::s8, 32, UnitOrder::chunks_outside}, 0, 32, 100}, weights,
                               QuantiserRule::a)
                     .ok());
    EXPECT_FALSE(patch_weights(constants, place, std::span(weights).first(3199), QuantiserRule::a).ok());
    std::vector<float> broken = weights;
    broken[77] = std::nanf("");
    EXPECT_FALSE(patch_weights(constants, place, broken, QuantiserRule::a).ok());
    EXPECT_EQ(constants, original);
    constants[5] ^= 0x10;  // no longer the sums of these codes
    EXPECT_NE(patch_weights(constants, place, weights, QuantiserRule::a).error().message.find("sum of row"),
              std::string::npos);
    constants[5] ^= 0x10;
    EXPECT_TRUE(patch_weights(constants, place, weights, QuantiserRule::a).ok());
    EXPECT_NE(constants, original);
}

TEST(WeightPatch, a_narrower_matrix_is_not_taken_for_a_wider_one_of_as_many_chunks) {
    const WeightLayout layout{};
    const Sample sample = random_sample(layout, 32, 40, 6);
    const Buffer constants = reference_matrix(layout, 32, 40, sample.q, sample.scales);
    EXPECT_EQ(find_weights(constants, 32, 40).size(), 1U);
    EXPECT_TRUE(find_weights(constants, 32, 44).empty());
    EXPECT_TRUE(is_part(layout, 44, constants));  // the rules alone do not tell them apart
}

TEST(WeightPatch, several_matrices_of_one_shape_are_told_apart_by_their_order) {
    const WeightLayout layout{};
    Buffer constants = noise(50, 1);
    for (unsigned seed = 0; seed < 3; ++seed) {
        const Sample sample = random_sample(layout, 32, 72, seed);
        append(constants, reference_matrix(layout, 32, 72, sample.q, sample.scales));
        append(constants, noise(seed * 7, 2));
    }
    EXPECT_EQ(find_weights(constants, 32, 72).size(), 3U);
    EXPECT_TRUE(find_weights(constants, 32, 108).empty());
    EXPECT_TRUE(find_weights(constants, 32, 70).empty());  // as many chunks, but columns 70 and 71 are not padding
    EXPECT_TRUE(find_weights(noise(20000, 8), 32, 72).empty());
}

}  // namespace
}  // namespace npu::axera::test
