// Products on the mock card through the executor, against sums in 64-bit integers: the vendor's compiled models and
// models of our own builder, full-range random data with extremes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "axera/cards.h"
#include "axera/models.h"

namespace npu::axera::test {
namespace {

// Full-range values, every tenth an extreme.
template <typename T>
std::vector<T> random_values(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<T> values(count);
    for (T& value : values) {
        value = static_cast<T>(random());
        if (random() % 10 == 0) {
            value = random() % 2 == 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
        }
    }
    return values;
}

template <typename T>
Bytes raw(const std::vector<T>& values) {
    return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
void expect_exact_products(const std::string& path, std::size_t rows, std::size_t columns, std::size_t depth,
                           bool asynchronous) {
    const std::shared_ptr<Card> card = mock_card();
    const auto executor = must(Executor::load(card, path));
    ASSERT_EQ(executor->groups(), 1U);
    must(executor->prepare(0));
    const std::vector<T> x = random_values<T>(rows * depth, 1);
    const std::vector<T> y = random_values<T>(columns * depth, 2);
    must(executor->write(0, executor->inputs(0)[0].name, raw(x)));
    must(executor->write(0, executor->inputs(0)[1].name, raw(y)));
    std::vector<float> r(rows * columns, -1.0F);
    const std::span<std::uint8_t> bytes(reinterpret_cast<std::uint8_t*>(r.data()), r.size() * sizeof(float));
    if (asynchronous) {
        must(executor->start(0));
        must(executor->read(0, executor->outputs(0)[0].name, bytes));
        EXPECT_TRUE(std::all_of(r.begin(), r.end(), [](float value) { return value == 0.0F; }));  // not run yet
        must(executor->wait());
    } else {
        must(executor->run(0));
    }
    must(executor->read(0, executor->outputs(0)[0].name, bytes));
    std::size_t wrong = 0;
    std::size_t like_the_neighbour = 0;  // positive control: results that would pass with the next row of y
    for (std::size_t m = 0; m < rows; ++m) {
        for (std::size_t n = 0; n < columns; ++n) {
            std::int64_t sum = 0;
            std::int64_t neighbour = 0;
            const std::size_t next = (n + 1) % columns;
            for (std::size_t k = 0; k < depth; ++k) {
                sum += std::int64_t{x[m * depth + k]} * y[n * depth + k];
                neighbour += std::int64_t{x[m * depth + k]} * y[next * depth + k];
            }
            wrong += r[m * columns + n] != static_cast<float>(sum) ? 1 : 0;
            like_the_neighbour += r[m * columns + n] == static_cast<float>(neighbour) ? 1 : 0;
        }
    }
    EXPECT_EQ(wrong, 0U);
    EXPECT_LE(like_the_neighbour, rows * columns / 100);
    EXPECT_TRUE(mock::notes().empty());
}

TEST(Matmul, the_compiled_int8_model_for_a_third_of_the_npu_is_exact) {
    NPU_REQUIRE_MODELS(folder);
    expect_exact_products<std::int8_t>(*folder + "/v1_matmul_npu1_s8_256_64_10000_211241.axmodel", 64, 10000, 256,
                                       false);
}

TEST(Matmul, the_compiled_int8_model_for_the_whole_npu_is_exact) {
    NPU_REQUIRE_MODELS(folder);
    expect_exact_products<std::int8_t>(*folder + "/v1_matmul_npu3_s8_512_16_10000_493999.axmodel", 16, 10000, 512,
                                       true);
}

TEST(Matmul, the_compiled_int16_model_is_exact_beyond_32_bits) {
    NPU_REQUIRE_MODELS(folder);
    expect_exact_products<std::int16_t>(*folder + "/v1_matmul_npu3_s16_256_10000_16_987814.axmodel", 16, 10000, 256,
                                        false);
}

TEST(Matmul, models_of_our_builder_are_exact_in_odd_shapes) {
    using enum onnx::ElementType;
    expect_exact_products<std::int8_t>(built_model(matmul_recipe(int8, 3, 7, 131), "odd8.axmodel"), 3, 7, 131, false);
    expect_exact_products<std::int16_t>(built_model(matmul_recipe(int16, 5, 33, 517), "odd16.axmodel"), 5, 33, 517,
                                        true);
}

TEST(LayerModel, every_group_runs_and_other_inputs_give_other_outputs) {
    const std::string path = built_model(layer_recipe(true), "layer.axmodel");
    const auto executor = must(Executor::load(mock_card(), path));
    ASSERT_EQ(executor->groups(), 3U);
    for (std::size_t group = 0; group < 3; ++group) {
        must(executor->prepare(group));
        std::vector<Buffer> outputs;
        for (const std::uint64_t seed : {1U, 1U, 2U}) {
            for (const TensorInfo& tensor : executor->inputs(group)) {
                must(executor->write(group, tensor.name, make_pattern(tensor.type, tensor.bytes, seed)));
            }
            must(executor->run(group));
            Buffer& output = outputs.emplace_back(executor->outputs(group)[2].bytes);
            must(executor->read(group, "output", output));
        }
        EXPECT_EQ(outputs[0], outputs[1]);
        EXPECT_NE(outputs[0], outputs[2]);
        for (std::size_t at = 0; at < outputs[0].size(); at += 2) {
            EXPECT_NE(load<std::uint16_t>(outputs[0], at) & 0x7F80, 0x7F80);  // finite bf16
        }
    }
    EXPECT_TRUE(mock::notes().empty());
}

TEST(LayerModel, tensors_are_found_with_and_without_the_suffix_of_their_group) {
    const auto executor = must(Executor::load(mock_card(), built_model(layer_recipe(true), "suffix.axmodel")));
    must(executor->prepare(2));
    const Buffer mask(executor->inputs(2)[4].bytes);
    must(executor->write(2, "mask", mask));
    must(executor->write(2, executor->inputs(2)[4].name, mask));
    const Result<void> unknown = executor->write(2, "masks", mask);
    EXPECT_NE(unknown.error().message.find("there are: K_cache, V_cache, indices, input, mask"), std::string::npos);
    const Result<void> short_one = executor->write(2, "mask", Bytes(mask).first(10));
    EXPECT_NE(short_one.error().message.find("takes 2560 bytes, not 10"), std::string::npos);
    EXPECT_FALSE(executor->write(0, "mask", mask).ok());  // not prepared
    EXPECT_FALSE(executor->prepare(3).ok());
}

TEST(LayerModel, types_that_the_card_does_not_report_follow_from_the_size_of_an_element) {
    const std::string path = built_model(layer_recipe(true), "types.axmodel");
    {
        const auto executor = must(Executor::load(mock_card("types-unknown"), path));
        EXPECT_EQ(executor->inputs(0)[0].type, axcl::DataType::bf16);
        EXPECT_TRUE(executor->inputs(0)[0].type_derived);
        EXPECT_EQ(executor->inputs(0)[2].type, axcl::DataType::uint32);
    }
    const auto told = must(Executor::load(mock_card(), path));
    EXPECT_EQ(told->inputs(0)[2].type, axcl::DataType::uint32);
    EXPECT_FALSE(told->inputs(0)[2].type_derived);
}

TEST(Pattern, is_the_same_for_a_seed_and_stays_in_range) {
    using axcl::DataType;
    for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32, DataType::int8, DataType::uint32}) {
        EXPECT_EQ(make_pattern(type, 64, 1), make_pattern(type, 64, 1));
        EXPECT_NE(make_pattern(type, 64, 1), make_pattern(type, 64, 2));
    }
    const Buffer half = make_pattern(DataType::fp16, 4096, 3);
    const Buffer brain = make_pattern(DataType::bf16, 4096, 3);
    for (std::size_t at = 0; at < half.size(); at += 2) {
        const std::uint16_t bits = load<std::uint16_t>(half, at);
        const double value =
            bits == 0 ? 0.0
                      : ((bits & 0x8000) != 0 ? -1 : 1) * std::ldexp(1024 + (bits & 0x3FF), (bits >> 10 & 31) - 25);
        const std::uint32_t word = std::uint32_t{load<std::uint16_t>(brain, at)} << 16;
        float same = 0;
        std::memcpy(&same, &word, 4);
        EXPECT_EQ(value, same);
        EXPECT_GE(value, -1.0);
        EXPECT_LT(value, 1.0);
    }
}

}  // namespace
}  // namespace npu::axera::test
