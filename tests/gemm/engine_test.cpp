// The engine on the simulated NPU, through the real driver client: float in, float out, against double precision.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <tuple>

#include "base/float_bits.h"
#include "gemm/cpu_path.h"
#include "gemm/engine_support.h"

namespace npu::gemm {
namespace {

// Bounds: fp16 rounds each operand to 11 bits; int8 rounds each to 127 steps of a row's largest of ~3.5 sigma.
double bound(Pipeline pipeline) { return pipeline == Pipeline::fp16 ? 2e-7 : 3e-4; }

using Case = std::tuple<Pipeline, std::uint32_t, std::uint32_t, std::uint32_t>;  // M, N, K

class EngineShapes : public EngineTest, public testing::WithParamInterface<Case> {};

std::string case_name(const testing::TestParamInfo<Case>& info) {
    const auto [pipeline, m, n, k] = info.param;
    return format("%s_M%u_N%u_K%u", pipeline_name(pipeline), m, n, k);
}

TEST_P(EngineShapes, TheProductIsRightWithinThePrecisionOfThePipeline) {
    const auto [pipeline, m, n, k] = GetParam();
    open();
    const Matrix w = Matrix::random(n, k, 1);
    const Matrix x = Matrix::random(m, k, 2);
    const auto weights = make_resident(w, pipeline);
    ASSERT_TRUE(weights) << weights.error().message;
    const auto y = multiply(*weights, x);
    EXPECT_LT(normalised_error(x, w, y), bound(pipeline));
    auto wrong = y;
    std::swap(wrong.front(), wrong.back());  // the measure notices two exchanged results
    if (m * n > 1) {
        EXPECT_GT(normalised_error(x, w, wrong), normalised_error(x, w, y));
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineShapes,
                         testing::Combine(testing::Values(Pipeline::fp16, Pipeline::int8),
                                          testing::Values(1U, 2U, 3U, 37U), testing::Values(1U, 16U, 95U, 200U),
                                          testing::Values(1U, 33U, 64U, 300U)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(LongSums, EngineShapes,
                         testing::Combine(testing::Values(Pipeline::fp16, Pipeline::int8), testing::Values(1U, 5U),
                                          testing::Values(33U), testing::Values(3500U, 8192U, 9000U, 17000U)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ManyRows, EngineShapes,
                         testing::Combine(testing::Values(Pipeline::fp16, Pipeline::int8), testing::Values(600U),
                                          testing::Values(48U), testing::Values(1056U)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(ManyChannels, EngineShapes,
                         testing::Combine(testing::Values(Pipeline::fp16, Pipeline::int8), testing::Values(2U),
                                          testing::Values(30000U), testing::Values(64U)),
                         case_name);

TEST_F(EngineTest, ARowIsTheSameAloneAndInAnyBatch) {
    open();
    for (const Pipeline pipeline : {Pipeline::fp16, Pipeline::int8}) {
        const Matrix w = Matrix::random(70, 9000, 3);  // several K tiles
        const Matrix x = Matrix::random(41, 9000, 4);
        const auto weights = make_resident(w, pipeline);
        ASSERT_TRUE(weights);
        const auto all = multiply(*weights, x);
        for (const std::uint32_t first : {0U, 7U, 40U}) {
            for (const std::uint32_t rows : {1U, 2U, 5U}) {
                if (first + rows > x.rows) {
                    continue;
                }
                const Matrix part{rows, x.columns, {x.row(first), x.row(first) + std::size_t{rows} * x.columns}};
                const auto some = multiply(*weights, part);
                EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + std::size_t{first} * w.rows))
                    << pipeline_name(pipeline) << " rows " << first << "+" << rows;
            }
        }
    }
}

TEST_F(EngineTest, Int8SumsAreExactAcrossKTiles) {
    open();
    const std::uint32_t k = 20000;  // ten tiles; the largest possible sum needs more than 24 bits
    Matrix w = Matrix::random(40, k, 5);
    Matrix x = Matrix::random(3, k, 6);
    for (Matrix* matrix : {&w, &x}) {  // integers of the full int8 range, so that quantising changes nothing
        for (float& value : matrix->values) {
            value = std::clamp(std::nearbyint(value * 60.0F), -127.0F, 127.0F);
        }
        for (std::uint32_t row = 0; row < matrix->rows; ++row) {
            matrix->values[std::size_t{row} * k + row] = 127.0F;
        }
    }
    const auto weights = make_resident(w, Pipeline::int8);
    ASSERT_TRUE(weights);
    const auto y = multiply(*weights, x);
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        for (std::uint32_t n = 0; n < w.rows; ++n) {
            std::int64_t exact = 0;
            for (std::uint32_t i = 0; i < k; ++i) {
                exact += static_cast<std::int64_t>(x.row(m)[i]) * static_cast<std::int64_t>(w.row(n)[i]);
            }
            EXPECT_EQ(y[m * w.rows + n], static_cast<float>(exact));
        }
    }
}

TEST_F(EngineTest, Fp16WeightsCanBeReadBackBitForBit) {
    open();
    std::mt19937 random(7);
    Matrix w{50, 3333, std::vector<float>(50 * 3333)};  // two K tiles, padded N and K
    for (float& value : w.values) {
        std::uint16_t half = 0;
        do {
            half = static_cast<std::uint16_t>(random());
        } while ((half & 0x7c00U) == 0x7c00U);
        value = half_to_float(half);
    }
    for (std::uint32_t i = 0; i < w.columns; ++i) {  // a row of subnormals is scaled on its way
        w.values[i] = half_to_float(static_cast<std::uint16_t>(i % 1024));
    }
    const auto weights = make_resident(w, Pipeline::fp16);
    ASSERT_TRUE(weights);
    EXPECT_NE(weights->scales[0], 1.0F);
    const auto halves = read_back_fp16(*weights, engine_->chip());
    for (std::size_t i = 0; i < w.values.size(); ++i) {
        ASSERT_EQ(halves[i], float_to_half(w.values[i])) << i;
    }
}

TEST_F(EngineTest, WeightsOfExtremeMagnitudeKeepTheirPrecisionInFp16) {
    open();
    Matrix w = Matrix::random(34, 100, 8);
    Matrix x = Matrix::random(4, 100, 9);
    for (std::uint32_t i = 0; i < 100; ++i) {
        w.values[i] *= 1e20F;
        w.values[100 + i] *= 1e-20F;
        x.values[i] *= 1e10F;
        x.values[100 + i] *= 1e-10F;
    }
    const auto weights = make_resident(w, Pipeline::fp16);
    ASSERT_TRUE(weights);
    const auto y = multiply(*weights, x);
    for (std::uint32_t m = 0; m < x.rows; ++m) {
        for (std::uint32_t n = 0; n < w.rows; ++n) {
            double exact = 0;
            double magnitude = 0;
            for (std::uint32_t k = 0; k < 100; ++k) {
                const double product = static_cast<double>(x.row(m)[k]) * w.row(n)[k];
                exact += product;
                magnitude += std::abs(product);
            }
            EXPECT_NEAR(y[m * w.rows + n], exact, magnitude * 0x1p-10);
        }
    }
}

TEST_F(EngineTest, NansInOneRowStayInThatRow) {
    open();
    const Matrix w = Matrix::random(33, 64, 10);
    Matrix x = Matrix::random(3, 64, 11);
    x.values[64 + 5] = NAN;
    for (const Pipeline pipeline : {Pipeline::fp16, Pipeline::int8}) {
        const auto weights = make_resident(w, pipeline);
        ASSERT_TRUE(weights);
        const auto y = multiply(*weights, x);
        for (std::uint32_t n = 0; n < w.rows; ++n) {
            EXPECT_FALSE(std::isnan(y[n]));
            EXPECT_TRUE(std::isnan(y[w.rows + n]));
            EXPECT_FALSE(std::isnan(y[2 * w.rows + n]));
        }
    }
}

TEST_F(EngineTest, ProgramsAreReusedAndReaimedBetweenWeights) {
    EngineOptions options;
    options.cached_submissions = 2;
    open(options);
    const Matrix x = Matrix::random(2, 96, 12);
    std::vector<Matrix> matrices;
    std::vector<ResidentWeights> resident;
    for (std::uint32_t i = 0; i < 4; ++i) {
        matrices.push_back(Matrix::random(32 + 32 * (i / 2), 96, 20 + i));  // two shapes, two weights each
        auto weights = make_resident(matrices.back(), i % 2 == 0 ? Pipeline::fp16 : Pipeline::int8);
        ASSERT_TRUE(weights);
        resident.push_back(std::move(*weights));
    }
    for (int round = 0; round < 3; ++round) {  // more programs than the cache holds
        for (std::size_t i = 0; i < resident.size(); ++i) {
            EXPECT_LT(normalised_error(x, matrices[i], multiply(resident[i], x)), bound(resident[i].shape.pipeline));
        }
    }
}

TEST_F(EngineTest, LargeResultsAreSplitIntoSeveralSubmissions) {
    EngineOptions options;
    options.largest_output = std::size_t{64} * 1024;
    open(options);
    const Matrix w = Matrix::random(256, 64, 13);
    const Matrix x = Matrix::random(200, 64, 14);
    const auto weights = make_resident(w, Pipeline::int8);
    ASSERT_TRUE(weights);
    EXPECT_LT(normalised_error(x, w, multiply(*weights, x)), bound(Pipeline::int8));
    EXPECT_EQ(last_report_.submissions, 4U);  // 64 rows each
    EXPECT_GT(last_report_.predicted_seconds, 0.0);
}

TEST_F(EngineTest, ThousandsOfRowsAreRight) {
    open();
    const Matrix w = Matrix::random(16, 4100, 23);  // three K tiles
    const Matrix x = Matrix::random(5000, 4100, 24);
    const auto weights = make_resident(w, Pipeline::fp16);
    ASSERT_TRUE(weights);
    EXPECT_LT(normalised_error(x, w, multiply(*weights, x)), bound(Pipeline::fp16));
}

TEST_F(EngineTest, TransientWeightsGiveTheSameResultAsResidentOnes) {
    open();
    const Matrix w = Matrix::random(77, 500, 15);
    const Matrix x = Matrix::random(6, 500, 16);
    for (const Pipeline pipeline : {Pipeline::fp16, Pipeline::int8}) {
        const auto weights = make_resident(w, pipeline);
        ASSERT_TRUE(weights);
        std::vector<float> y(6 * 77);
        const auto done = engine_->with_transient(
            {77, 500, pipeline}, [&](std::uint32_t row, float* out) { std::copy_n(w.row(row), 500, out); },
            [&](const Engine::Multiply& multiply) -> Result<void> {
                NPU_TRY(multiply({x.values.data(), 500, 6}, {y.data(), 77}));
                return {};
            });
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(y, multiply(*weights, x));
    }
}

TEST_F(EngineTest, EachNumberOfCoresGivesTheSameResult) {
    const Matrix w = Matrix::random(300, 256, 17);
    const Matrix x = Matrix::random(20, 256, 18);
    std::vector<float> first;
    for (const std::uint32_t cores : {1U, 2U, 3U}) {
        EngineOptions options;
        options.programs.cores = cores;
        open(options);
        const auto weights = make_resident(w, Pipeline::fp16);
        ASSERT_TRUE(weights);
        const auto y = multiply(*weights, x);
        if (first.empty()) {
            first = y;
        }
        EXPECT_EQ(y, first) << cores;
    }
}

TEST_F(EngineTest, ATeamOfHostThreadsGivesTheSameResult) {
    const Matrix x = Matrix::random(150, 200, 31);  // five packs of rows, the last one not full
    const Matrix w = Matrix::random(48, 200, 32);
    for (const Pipeline pipeline : {Pipeline::int8, Pipeline::fp16}) {
        open();
        const auto alone = make_resident(w, pipeline);
        ASSERT_TRUE(alone);
        const std::vector<float> expected = multiply(*alone, x);
        std::atomic<int> regions = 0;
        const Team team = [&](const TeamWork& work) {
            ++regions;
            std::vector<std::thread> threads;
            for (unsigned index = 0; index < 3; ++index) {
                threads.emplace_back([&work, index] { work(index, 3); });
            }
            for (std::thread& thread : threads) {
                thread.join();
            }
        };
        sim::SimOptions simulation;
        simulation.team = team;
        EngineOptions options;
        options.team = team;
        open(options, simulation);
        const auto together = make_resident(w, pipeline);
        ASSERT_TRUE(together);
        EXPECT_EQ(multiply(*together, x), expected) << pipeline_name(pipeline);
        EXPECT_EQ(regions, 3) << "activations, the NPU, results";
    }
}

struct PipelineError {
    Pipeline pipeline;
    bool rotated;
    double bound;  // of the normalised error, for normally distributed operands
};

constexpr PipelineError pipeline_errors[] = {
    {Pipeline::fp16, false, 1e-6}, {Pipeline::bf16, false, 2e-5},  {Pipeline::int8, false, 3e-4},
    {Pipeline::int8, true, 3e-4},  {Pipeline::int8n, false, 3e-4}, {Pipeline::w4a8, false, 2e-2},
    {Pipeline::w4a8, true, 2e-2},  {Pipeline::int4, false, 4e-2},  {Pipeline::int4, true, 4e-2}};

TEST_F(EngineTest, EveryPipelineOnEveryDriverGivesTheSameResultAndARightOne) {
    const Matrix x = Matrix::random(7, 1344, 41);    // three K tiles of 4 bits
    const Matrix w = Matrix::random(200, 1344, 42);  // channels for three cores, the last group not full
    for (const PipelineError& one : pipeline_errors) {
        std::vector<float> first;
        for (const sim::SimOptions& simulation : {sim::SimOptions{}, mainline(0, 0), mainline(1, 5)}) {
            open(EngineOptions(), simulation);
            const auto weights = make_resident(w, one.pipeline, one.rotated);
            ASSERT_TRUE(weights) << weights.error().message;
            const std::vector<float> y = multiply(*weights, x);
            const double error = normalised_error(x, w, y);
            EXPECT_LT(error, one.bound) << pipeline_name(one.pipeline);
            EXPECT_GT(error, one.bound / 1000) << pipeline_name(one.pipeline) << ": the bound says something";
            if (first.empty()) {
                first = y;
            }
            EXPECT_EQ(y, first) << pipeline_name(one.pipeline);
        }
    }
}

TEST_F(EngineTest, ARowOfEveryPipelineIsTheSameAloneAndInAnyBatch) {
    const Matrix x = Matrix::random(70, 1344, 43);
    const Matrix w = Matrix::random(100, 1344, 44);
    for (const PipelineError& one : pipeline_errors) {
        open();
        const auto weights = make_resident(w, one.pipeline, one.rotated);
        ASSERT_TRUE(weights);
        const std::vector<float> together = multiply(*weights, x);
        for (const std::uint32_t row : {0U, 33U, 69U}) {
            Matrix alone{1, x.columns, {x.row(row), x.row(row) + x.columns}};
            const std::vector<float> y = multiply(*weights, alone);
            EXPECT_TRUE(std::equal(y.begin(), y.end(), together.begin() + row * 100)) << pipeline_name(one.pipeline);
        }
    }
}

TEST_F(EngineTest, TheCpuGivesTheNpusResultFromTheSameTiles) {
    const Matrix x = Matrix::random(5, 1344, 47);
    const Matrix w = Matrix::random(200, 1344, 48);
    for (const sim::SimOptions& simulation : {sim::SimOptions{}, mainline(0, 0)}) {
        for (const PipelineError& one : pipeline_errors) {
            open(EngineOptions(), simulation);
            const auto weights = make_resident(w, one.pipeline, one.rotated);
            ASSERT_TRUE(weights);
            std::vector<float> y(std::size_t{5} * 200, NAN);
            const Product product{&*weights, {y.data(), 200}};
            const auto done =
                multiply_resident_on_cpu(std::span(&product, 1), {x.values.data(), x.columns, x.rows}, work_alone);
            if (!runs_on_cpu(one.pipeline)) {
                ASSERT_FALSE(done);
                EXPECT_NE(done.error().message.find(pipeline_name(one.pipeline)), std::string::npos);
                continue;
            }
            ASSERT_TRUE(done) << done.error().message;
            std::vector<float> expected = multiply(*weights, x);
            EXPECT_EQ(y, expected) << pipeline_name(one.pipeline);
            expected[7] = std::nextafter(expected[7], 1000.0F);  // the control
            EXPECT_NE(y, expected);
        }
    }
}

TEST_F(EngineTest, WeightsInAnyAddressSpaceGiveTheSameResult) {
    const Matrix x = Matrix::random(5, 300, 51);
    const Matrix w = Matrix::random(70, 300, 52);
    open();
    std::vector<float> first;
    for (const std::uint32_t space : {0U, 1U, 15U, 1U}) {
        const auto weights = make_resident(w, Pipeline::int8, false, space);
        ASSERT_TRUE(weights) << weights.error().message;
        const std::vector<float> y = multiply(*weights, x);
        EXPECT_EQ(last_report_.space_switches, space == 0 ? 0U : 1U);
        EXPECT_EQ(multiply(*weights, x), y);
        EXPECT_EQ(last_report_.space_switches, 0U) << "it is live already";
        first = first.empty() ? y : first;
        EXPECT_EQ(y, first) << space;
    }
    EXPECT_FALSE(make_resident(w, Pipeline::int8, false, 16));
}

TEST_F(EngineTest, AConstraintThatTheDriverAsksForCanBeTakenAway) {
    const Matrix x = Matrix::random(5, 128, 53);
    const Matrix w = Matrix::random(64, 128, 54);
    const auto macs = [&](const EngineOptions& options, std::vector<float>& y) {
        open(options, mainline(0, 0));
        const auto weights = make_resident(w, Pipeline::int8);
        EXPECT_TRUE(weights);
        y = multiply(*weights, x);
        return kernel_->statistics().macs;
    };
    std::vector<float> padded;
    std::vector<float> plain;
    EXPECT_EQ(macs(EngineOptions(), padded), 8U * 64 * 128) << "five rows and three of padding";
    EngineOptions as_vendor;
    as_vendor.programs.without = "rows-in-fours";
    EXPECT_EQ(macs(as_vendor, plain), 5U * 64 * 128);
    EXPECT_EQ(padded, plain);
}

TEST_F(EngineTest, RotationHelpsRowsWithOutliers) {
    Matrix x = Matrix::random(5, 1024, 45);
    for (std::uint32_t row = 0; row < x.rows; ++row) {
        x.values[row * 1024 + 100] = 60;
    }
    const Matrix w = Matrix::random(64, 1024, 46);
    open();
    const auto plain = make_resident(w, Pipeline::int8);
    const auto rotated = make_resident(w, Pipeline::int8, true);
    ASSERT_TRUE(plain && rotated);
    EXPECT_LT(normalised_error(x, w, multiply(*rotated, x)) * 3, normalised_error(x, w, multiply(*plain, x)));
}

TEST_F(EngineTest, AnExhaustedDeviceIsAnErrorThatSaysWhatToDo) {
    sim::SimOptions small;
    small.memory_bytes = std::uint64_t{1} << 20;
    open(EngineOptions(), small);
    const Matrix w = Matrix::random(1024, 2048, 19);  // 4 MiB in fp16
    const auto weights = make_resident(w, Pipeline::fp16);
    ASSERT_FALSE(weights);
    EXPECT_EQ(weights.error().code, ErrorCode::out_of_memory);
    EXPECT_NE(weights.error().message.find("-ngl"), std::string::npos) << weights.error().message;
}

}  // namespace
}  // namespace npu::gemm
