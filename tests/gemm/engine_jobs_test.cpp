// How the engine cuts work into jobs: matrices that share activations go together, long batches in parts, beside the host or not.
// Whatever it does, the bits are those of one matrix and one row at a time.
#include "gemm/engine_support.h"
#include "gemm/row_cut.h"

namespace npu::gemm {
namespace {

// Two tiles of K for 4 bits, whole groups and parts of one.
constexpr std::uint32_t inputs = 700;
constexpr std::uint32_t channels[] = {200, 33, 33};

class EngineJobs : public EngineTest {
  protected:
    void make_matrices(Pipeline pipeline, const std::vector<std::uint32_t>& spaces = {0, 0, 0}) {
        resident_.clear();
        for (std::size_t i = 0; i < std::size(channels); ++i) {
            auto weights = make_resident(Matrix::random(channels[i], inputs, 60 + static_cast<std::uint32_t>(i)),
                                         pipeline, false, spaces[i]);
            ASSERT_TRUE(weights) << weights.error().message;
            resident_.push_back(std::move(*weights));
        }
    }

    Result<MultiplyReport> multiply_all(const Matrix& x, std::vector<std::vector<float>>& results) {
        results.clear();
        std::vector<Product> products;
        for (const ResidentWeights& weights : resident_) {
            results.emplace_back(std::size_t{x.rows} * weights.shape.n, NAN);
            products.push_back({&weights, {results.back().data(), weights.shape.n}});
        }
        return engine_->multiply(products, {x.values.data(), x.columns, x.rows});
    }

    std::vector<std::vector<float>> multiply_each(const Matrix& x) {
        std::vector<std::vector<float>> results;
        for (const ResidentWeights& weights : resident_) {
            results.push_back(multiply(weights, x));
        }
        return results;
    }

    std::vector<ResidentWeights> resident_;
};

TEST_F(EngineJobs, MatricesThatShareActivationsAreOneJobWithTheResultsOfEachByItself) {
    for (const sim::SimOptions& simulation : {sim::SimOptions{}, mainline(0, 0), mainline(1, 5)}) {
        for (const Pipeline pipeline : {Pipeline::fp16, Pipeline::int8, Pipeline::w4a8}) {
            open(EngineOptions(), simulation);
            make_matrices(pipeline);
            const Matrix x = Matrix::random(37, inputs, 61);
            std::vector<std::vector<float>> together;
            for (int round = 0; round < 2; ++round) {  // new, and from the cache
                const auto report = multiply_all(x, together);
                ASSERT_TRUE(report) << report.error().message;
                EXPECT_EQ(report->submissions, 1U);
            }
            const auto each = multiply_each(x);
            EXPECT_EQ(together, each) << pipeline_name(pipeline);
            EXPECT_NE(each[1], each[2]) << "matrices of one shape have results of their own";
        }
    }
}

TEST_F(EngineJobs, TheyTakeLessThanOneByOneByThePriceOfTheJobs) {
    open();
    make_matrices(Pipeline::int8);
    const Matrix x = Matrix::random(5, inputs, 62);
    std::vector<std::vector<float>> results;
    const auto together = multiply_all(x, results);
    ASSERT_TRUE(together);
    MultiplyReport each;
    for (const ResidentWeights& weights : resident_) {
        multiply(weights, x);
        each += last_report_;
    }
    EXPECT_EQ(together->tasks, each.tasks);
    const double kick = rockchip::rk3588().timing.rknpu_submit_seconds;
    EXPECT_LT(together->predicted_seconds, each.predicted_seconds - 1.9 * kick);
}

TEST_F(EngineJobs, MatricesOfSeveralAddressSpacesTakeAJobForEach) {
    open();
    make_matrices(Pipeline::int8, {2, 0, 2});
    const Matrix x = Matrix::random(9, inputs, 63);
    std::vector<std::vector<float>> together;
    const auto report = multiply_all(x, together);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->submissions, 2U);
    EXPECT_EQ(report->space_switches, 2U);
    EXPECT_EQ(together, multiply_each(x));
}

TEST_F(EngineJobs, MatricesThatCannotShareActivationsAreRefused) {
    open();
    make_matrices(Pipeline::int8);
    auto other = make_resident(Matrix::random(64, inputs, 64), Pipeline::fp16);
    ASSERT_TRUE(other);
    resident_.push_back(std::move(*other));
    std::vector<std::vector<float>> results;
    const auto refused = multiply_all(Matrix::random(2, inputs, 65), results);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().message.find("fp16"), std::string::npos) << refused.error().message;
}

TEST_F(EngineJobs, JobsBesideTheHostGiveTheSameResults) {
    for (const sim::SimOptions& simulation : {sim::SimOptions{}, mainline(0, 0), mainline(1, 5)}) {
        const Matrix x = Matrix::random(700, inputs, 66);
        EngineOptions options;
        options.largest_output = std::size_t{100} << 10;  // many jobs, the last one shorter
        open(options, simulation);
        make_matrices(Pipeline::int8);
        std::vector<std::vector<float>> after_each_other;
        ASSERT_TRUE(multiply_all(x, after_each_other));
        options.overlap = true;
        open(options, simulation);
        make_matrices(Pipeline::int8);
        std::vector<std::vector<float>> beside;
        for (int round = 0; round < 2; ++round) {
            const auto report = multiply_all(x, beside);
            ASSERT_TRUE(report) << report.error().message;
            EXPECT_GE(report->submissions, 7U);
            EXPECT_EQ(beside, after_each_other);
        }
        EXPECT_TRUE(kernel_->findings().empty());
    }
}

TEST_F(EngineJobs, AJobThatFailsBesideTheHostIsAnErrorAndTheNextMultiplicationWorks) {
    EngineOptions options;
    options.overlap = true;
    options.largest_output = std::size_t{100} << 10;
    sim::SimOptions simulation;
    simulation.faults = sim::Faults::parse("job-never-starts@at=3").value();
    simulation.real_time = false;
    open(options, simulation);
    make_matrices(Pipeline::int8);
    const Matrix x = Matrix::random(700, inputs, 67);
    std::vector<std::vector<float>> results;
    const auto failed = multiply_all(x, results);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::timeout) << failed.error().message;
    const auto report = multiply_all(x, results);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(results, multiply_each(x));
}

// --- the cut ------------------------------------------------------------------------------------------------------

class RowCuts : public EngineTest {
  protected:
    std::uint32_t per_job(std::uint32_t n, std::uint32_t k, std::uint32_t rows, const RowLimits& limits) {
        const WeightsShape shape{n, k, Pipeline::int8};
        const auto cut = RowCut().rows_per_job(*device_, std::span(&shape, 1), rows, {}, limits);
        EXPECT_TRUE(cut) << cut.error().message;
        return cut ? *cut : 0;
    }
    RowLimits wide_{.overlap = false, .largest_output = std::size_t{1} << 30, .longest_seconds = 10};
};

TEST_F(RowCuts, ABatchIsOneJobWhenNothingSpeaksAgainstIt) {
    open();
    EXPECT_EQ(per_job(1536, 1536, 512, wide_), 512U);
    EXPECT_EQ(per_job(1536, 1536, 1, wide_), 1U);
}

TEST_F(RowCuts, AJobIsKeptBelowTheTimeThatTheDriverAllows) {
    open(EngineOptions(), mainline(0, 0));
    const WeightsShape shape{8960, 1536, Pipeline::int8};
    const auto whole = plan_submission(*device_, std::span(&shape, 1), 2048, {});
    ASSERT_TRUE(whole);
    RowLimits limits = wide_;
    limits.longest_seconds = whole->seconds / 3;
    const std::uint32_t rows = per_job(8960, 1536, 2048, limits);
    const auto part = plan_submission(*device_, std::span(&shape, 1), rows, {});
    ASSERT_TRUE(part);
    EXPECT_LE(part->seconds, limits.longest_seconds);
    EXPECT_GE(rows, 256U) << "no shorter than needed";
    limits.longest_seconds = 1e-9;  // nobody can do that
    EXPECT_EQ(per_job(8960, 1536, 2048, limits), 1U);
}

TEST_F(RowCuts, AJobTakesNoMoreTasksThanTheDriverAllows) {
    open();
    constexpr std::uint32_t rows = 100000;
    const WeightsShape shape{16, 8100, Pipeline::fp16};
    const std::uint32_t most = engine_->chip().max_tasks_per_submit;
    const auto whole = plan_submission(*device_, std::span(&shape, 1), rows, {});
    ASSERT_TRUE(!whole || whole->tasks > most) << "the control";
    const auto cut = RowCut().rows_per_job(*device_, std::span(&shape, 1), rows, {}, wide_);
    ASSERT_TRUE(cut) << cut.error().message;
    EXPECT_LE(plan_submission(*device_, std::span(&shape, 1), *cut, {})->tasks, most);
}

TEST_F(RowCuts, AnOverlappedBatchIsCutWhereTheSumOfHostAndDeviceIsSmallest) {
    open();
    RowLimits limits = wide_;
    limits.overlap = true;
    const WeightsShape shape{8960, 1536, Pipeline::int8};
    const std::uint32_t rows = per_job(8960, 1536, 512, limits);
    ASSERT_LT(rows, 512U);
    // An independent count: every cut, its jobs laid side by side.
    const auto seconds = [&](std::uint32_t part) {
        const double device = plan_submission(*device_, std::span(&shape, 1), part, {})->seconds;
        const HostSeconds host = host_seconds(std::span(&shape, 1), part, engine_->chip());
        double device_free = 0;
        double host_free = 0;
        double ready = 0;  // results of the job before
        for (std::uint32_t first = 0; first < 512; first += part) {
            host_free += host.activations;
            device_free = std::max(device_free, host_free) + device;
            if (first != 0) {
                host_free = std::max(host_free, ready) + host.results;
            }
            ready = device_free;
        }
        return std::max(host_free, ready) + host.results;
    };
    EXPECT_LT(seconds(rows), 0.8 * seconds(512));
    for (const std::uint32_t other : {512U, 256U, 192U, 160U, 128U, 96U, 64U}) {
        EXPECT_LE(seconds(rows), seconds(other) * 1.1) << rows << " rows against " << other;
    }
}

TEST_F(RowCuts, HostSecondsAreThoseOfTheBytesThatAreReadAndWritten) {
    const WeightsShape shapes[] = {{1000, 1024, Pipeline::int8}, {32, 1024, Pipeline::int8}};
    const HostSeconds host = host_seconds(shapes, 100, rockchip::rk3588());
    const double rate = 2 * rockchip::rk3588().timing.host_copy_bytes_per_second;
    EXPECT_DOUBLE_EQ(host.activations * rate, 100.0 * (1024 * 4 + 1024));
    EXPECT_DOUBLE_EQ(host.results * rate, 100.0 * (1024 * 4 + 1000 * 4 + 32 * 4 + 32 * 4));
}

}  // namespace
}  // namespace npu::gemm
