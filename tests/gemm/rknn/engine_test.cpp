// The engine over librknnrt on a fake of each release: products against integers and double precision, bounds on what it
// keeps, and what it does when the library fails.
#include "gemm/rknn_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "device/rknpu_device.h"
#include "gemm/engine.h"
#include "sim/kernel_rknpu.h"
#include "support.h"

namespace npu::gemm {
namespace {

// Threads of its own for each piece of work: the fake notices contexts that two of them run.
void three_threads(const TeamWork& work) {
    std::vector<std::thread> threads;
    for (unsigned index = 0; index < 3; ++index) {
        threads.emplace_back([&work, index] { work(index, 3); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

class RknnEngineTest : public testing::TestWithParam<const char*> {
  protected:
    void TearDown() override {
        weights_.clear();
        engine_.reset();
        EXPECT_EQ(library_.contexts(), 0);
        EXPECT_EQ(library_.memories(), 0);
        EXPECT_EQ(library_.violation(), "");
    }

    // Small limits, so that small products are cut into many pieces.
    static RknnOptions small_pieces() {
        RknnOptions options;
        options.longest_k_fp16 = 96;
        options.longest_k_int8 = 160;
        options.longest_n = 64;
        options.smallest_slice = 32;
        options.largest_rows = 40;
        options.team = three_threads;
        return options;
    }

    void open(RknnOptions options = {}) {
        options.library = fake_path(GetParam());
        auto engine = RknnEngine::open(options);
        ASSERT_TRUE(engine) << engine.error().message;
        engine_ = std::move(*engine);
    }

    // Prepares, multiplies and frees.
    std::vector<float> product(const Matrix& x, const Matrix& w, Pipeline pipeline, bool rotated = false) {
        const auto weights = prepare(*engine_, w, pipeline, rotated);
        EXPECT_TRUE(weights) << (weights ? "" : weights.error().message);
        if (!weights) {
            return std::vector<float>(std::size_t{x.rows} * w.rows, NAN);
        }
        const auto y = multiply(*engine_, *weights, x);
        EXPECT_TRUE(y) << (y ? "" : y.error().message);
        return y ? *y : std::vector<float>(std::size_t{x.rows} * w.rows, NAN);
    }

    FakeLibrary library_{GetParam()};
    std::unique_ptr<RknnEngine> engine_;
    std::vector<RknnWeights> weights_;
};

INSTANTIATE_TEST_SUITE_P(Release, RknnEngineTest, testing::Values("1.6", "2.0", "2.3"), [](const auto& info) {
    std::string name = info.param;
    std::ranges::replace(name, '.', '_');
    return name;
});

TEST_P(RknnEngineTest, ProductsOfIntegersAreExactForRandomShapes) {
    open(small_pieces());
    std::mt19937 generator(1);
    for (int i = 0; i < 40; ++i) {
        const std::uint32_t m = 1 + generator() % (i % 4 == 0 ? 100 : 9);
        const std::uint32_t n = 1 + generator() % 300;
        const std::uint32_t k = 1 + generator() % 500;
        SCOPED_TRACE(format("M %u, N %u, K %u", m, n, k));
        const Matrix w = random_int8(n, k, generator());
        const Matrix x = random_int8(m, k, generator());
        ASSERT_EQ(product(x, w, Pipeline::int8), exact_products(x, w));
    }
}

TEST_P(RknnEngineTest, ProductsOfHalvesAreRightForRandomShapes) {
    open(small_pieces());
    std::mt19937 generator(2);
    for (int i = 0; i < 40; ++i) {
        const std::uint32_t m = 1 + generator() % (i % 4 == 0 ? 100 : 9);
        const std::uint32_t n = 1 + generator() % 300;
        const std::uint32_t k = 1 + generator() % 500;
        SCOPED_TRACE(format("M %u, N %u, K %u", m, n, k));
        const Matrix w = random_normal(n, k, generator());
        const Matrix x = random_normal(m, k, generator());
        std::vector<float> y = product(x, w, Pipeline::fp16);
        ASSERT_LT(largest_error(x, w, y, true), 1e-5);
        y.front() += 0.01F;  // the measure notices one result that is a little off
        ASSERT_GT(largest_error(x, w, y, true), 1e-5);
    }
}

TEST_P(RknnEngineTest, ProductsOnTheSimulatedMachineAreRight) {
    const FakeSetting scope("FAKE_RKNN_MACHINE", "1");
    RknnOptions options = small_pieces();
    options.longest_k_fp16 = 512;
    options.longest_k_int8 = 1024;
    options.longest_n = 160;
    open(options);
    const int before = library_.machine_runs();
    std::mt19937 generator(25);
    for (int i = 0; i < 6; ++i) {
        const std::uint32_t m = 1 + generator() % 50;
        const std::uint32_t n = 1 + generator() % 400;
        const std::uint32_t k = 1 + generator() % 2500;
        SCOPED_TRACE(format("M %u, N %u, K %u", m, n, k));
        const Matrix w = random_int8(n, k, generator());
        const Matrix x = random_int8(m, k, generator());
        ASSERT_EQ(product(x, w, Pipeline::int8), exact_products(x, w));
        const Matrix halves = random_normal(n, k, generator());
        const Matrix rows = random_normal(m, k, generator());
        std::vector<float> y = product(rows, halves, Pipeline::fp16);
        ASSERT_LT(largest_error(rows, halves, y, true), 1e-4);
        y.back() += 0.1F;
        ASSERT_GT(largest_error(rows, halves, y, true), 1e-4);
    }
    EXPECT_GT(library_.machine_runs(), before);
}

TEST_P(RknnEngineTest, LongSumsAreCutIntoTilesAndAddedExactly) {
    open();
    const Matrix w = random_int8(400, 9001, 3);
    const Matrix x = random_int8(3, 9001, 4);
    const auto weights = prepare(*engine_, w, Pipeline::int8);
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_EQ(weights->k_tiles.size(), 2U);
    EXPECT_EQ(weights->n_slices.size(), 3U);
    const auto y = multiply(*engine_, *weights, x);
    ASSERT_TRUE(y) << y.error().message;
    EXPECT_EQ(*y, exact_products(x, w));
}

TEST_P(RknnEngineTest, ExtremesOfBothSignsDoNotWrap) {
    open(small_pieces());
    Matrix w = random_int8(33, 320, 5);
    Matrix x = random_int8(2, 320, 6);
    std::ranges::fill(w.values, -127.0F);
    std::ranges::fill(x.values, 127.0F);
    EXPECT_EQ(product(x, w, Pipeline::int8), std::vector<float>(66, -127.0F * 127.0F * 320.0F));
}

TEST_P(RknnEngineTest, RotatedProductsAreRightWithinThePrecisionOfInt8) {
    open(small_pieces());
    const Matrix w = random_normal(70, 384, 7);
    const Matrix x = random_normal(5, 384, 8);
    std::vector<float> y = product(x, w, Pipeline::int8, true);
    EXPECT_LT(largest_error(x, w, y, false), 0.1);
    EXPECT_NE(y, product(x, w, Pipeline::int8, false));
    std::swap(y.front(), y.back());
    EXPECT_GT(largest_error(x, w, y, false), 0.1);
}

TEST_P(RknnEngineTest, ARowIsTheSameAloneAndInABatch) {
    open(small_pieces());
    const Matrix w = random_normal(100, 300, 9);
    const Matrix x = random_normal(90, 300, 10);
    const std::vector<float> all = product(x, w, Pipeline::int8);
    for (const std::uint32_t row : {0U, 39U, 40U, 89U}) {
        const Matrix alone{1, 300, {x.row(row), x.row(row) + 300}};
        const std::vector<float> y = product(alone, w, Pipeline::int8);
        EXPECT_TRUE(std::ranges::equal(y, std::span(all).subspan(row * 100, 100))) << row;
    }
}

TEST_P(RknnEngineTest, Int8ResultsAreThoseOfTheNativeEngineBitForBit) {
    open(small_pieces());
    const Matrix w = random_normal(100, 500, 11);
    const Matrix x = random_normal(7, 500, 12);
    const auto kernel = sim::make_simulated_kernel({});
    const auto device = device::open_rknpu(*kernel, *device::find_rknpu_node(*kernel),
                                           {.simulated = true, .chip = &rockchip::rk3588()});
    ASSERT_TRUE(device) << device.error().message;
    Engine native(**device, {});
    std::vector<float> expected(700);
    const auto done =
        native.with_transient({100, 500, Pipeline::int8}, reader(w), [&](const Engine::Multiply& multiply) {
            const auto report = multiply({x.values.data(), 500, 7}, {expected.data(), 100});
            return report ? Result<void>() : Result<void>(report.error());
        });
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(product(x, w, Pipeline::int8), expected);
}

TEST_P(RknnEngineTest, ContextsAreBoundedWhateverTheShapes) {
    for (const std::size_t most : {std::size_t{8}, std::size_t{1000}}) {
        RknnOptions options;
        options.cached_contexts = most;
        options.smallest_slice = 32;
        open(options);
        (void)library_.peak_contexts();
        for (std::uint32_t i = 0; i < 12; ++i) {
            const Matrix w = random_int8(96 + 32 * i, 64, i);
            for (const std::uint32_t rows : {1U, 2U, 4U, 8U, 16U}) {
                const Matrix x = random_int8(rows, 64, rows);
                ASSERT_EQ(product(x, w, Pipeline::int8), exact_products(x, w));
            }
        }
        const int peak = library_.peak_contexts();
        if (most == 8) {
            EXPECT_LE(peak, 9);  // and the one that owns memory
        } else {
            EXPECT_GT(peak, 50);  // so many would there be without the bound
        }
        engine_.reset();
    }
}

TEST_P(RknnEngineTest, WeightsOfOneShapeShareContextsAndScratchMemory) {
    open();
    const Matrix x = random_int8(4, 64, 1);
    for (std::uint32_t i = 0; i < 5; ++i) {
        const Matrix w = random_int8(64, 64, 20 + i);
        weights_.push_back(prepare(*engine_, w, Pipeline::int8).value());
        EXPECT_EQ(*multiply(*engine_, weights_.back(), x), exact_products(x, w));
    }
    EXPECT_EQ(library_.contexts(), 2);
    EXPECT_EQ(library_.memories(), 5 + 2);
}

TEST_P(RknnEngineTest, WeightsMayOutliveTheEngine) {
    open();
    weights_.push_back(prepare(*engine_, random_int8(64, 64, 1), Pipeline::int8).value());
    engine_.reset();
    EXPECT_EQ(library_.memories(), 1);
    EXPECT_EQ(library_.contexts(), 1);  // it owns the memory
    weights_.clear();
    EXPECT_EQ(library_.contexts(), 0);
}

TEST_P(RknnEngineTest, AFailureIsAnErrorAndTheNextCallWorks) {
    open(small_pieces());
    const Matrix w = random_int8(100, 400, 13);
    const auto weights = prepare(*engine_, w, Pipeline::int8);
    ASSERT_TRUE(weights) << weights.error().message;
    const std::string few = format("memory-after=%d", library_.memories() + 2);
    std::uint32_t rows = 1;  // others each time, so that contexts and memory of the time before are of no use
    for (const char* faults : {"create", "create-null", "run", "bind", "sync", few.c_str()}) {
        const Matrix x = random_int8(rows, 400, 14);
        rows *= 2;
        {
            const Faults scope(faults);
            const auto y = multiply(*engine_, *weights, x);
            ASSERT_FALSE(y) << faults;
            EXPECT_NE(y.error().message.find("librknnrt"), std::string::npos) << y.error().message;
        }
        const auto y = multiply(*engine_, *weights, x);
        ASSERT_TRUE(y) << faults << ": " << y.error().message;
        EXPECT_EQ(*y, exact_products(x, w));
    }
}

TEST_P(RknnEngineTest, WeightsThatDoNotFitAreAnErrorAndLeaveNothing) {
    open(small_pieces());
    const Matrix w = random_int8(100, 400, 15);
    const int before = library_.memories();
    {
        const Faults scope(format("memory-after=%d", before + 3));
        const auto weights = prepare(*engine_, w, Pipeline::int8);
        ASSERT_FALSE(weights);
        EXPECT_EQ(weights.error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(library_.memories(), before);
    }
    {
        const Faults scope("null-address");
        EXPECT_FALSE(prepare(*engine_, w, Pipeline::int8));
    }
    EXPECT_TRUE(prepare(*engine_, w, Pipeline::int8));
}

TEST_P(RknnEngineTest, WeightsGoToTheNextDomainWhenOneIsFull) {
    RknnOptions options = small_pieces();
    options.domains = 3;
    options.domain_bytes = 128 * 416;
    open(options);
    const Matrix x = random_int8(5, 400, 16);
    const bool domains = std::string(GetParam()) != "1.6";
    for (std::uint32_t i = 0; i < 3; ++i) {
        const Matrix w = random_int8(100, 400, 17 + i);
        auto weights = prepare(*engine_, w, Pipeline::int8);
        if (i > 0 && !domains) {
            ASSERT_FALSE(weights);
            EXPECT_EQ(weights.error().code, ErrorCode::out_of_memory);
            continue;
        }
        ASSERT_TRUE(weights) << weights.error().message;
        EXPECT_EQ(weights->domain, i);
        EXPECT_EQ(*multiply(*engine_, *weights, x), exact_products(x, w));
        weights_.push_back(std::move(*weights));
    }
    EXPECT_EQ(library_.domains(), domains ? 3 : 1);
    const Matrix w = random_int8(100, 400, 20);
    EXPECT_FALSE(prepare(*engine_, w, Pipeline::int8));
    weights_.erase(weights_.begin());
    EXPECT_TRUE(prepare(*engine_, w, Pipeline::int8));
}

TEST_P(RknnEngineTest, FewerCoresThanAskedForStillMultiply) {
    for (const int cores : {0, 1, 2}) {
        const Faults scope(format("cores=%d", cores));
        open(small_pieces());
        EXPECT_EQ(engine_->cores(), std::max(cores, 1));
        const Matrix w = random_int8(200, 400, 21);
        const Matrix x = random_int8(5, 400, 22);
        EXPECT_EQ(product(x, w, Pipeline::int8), exact_products(x, w));
    }
}

TEST_P(RknnEngineTest, ATypeThatIsRefusedOrWrongIsFoundAndTheOthersWork) {
    const Matrix w = random_int8(40, 70, 23);
    for (const char* faults : {"type=1", "zeros=1"}) {
        // The context that owns memory is of type 1.
        if (std::string(faults) == "type=1") {
            const Faults scope(faults);
            RknnOptions options;
            options.library = fake_path(GetParam());
            EXPECT_FALSE(RknnEngine::open(options));
            continue;
        }
        const Faults scope(faults);
        open();
        const auto halves = prepare(*engine_, w, Pipeline::fp16);
        ASSERT_FALSE(halves);
        EXPECT_EQ(halves.error().code, ErrorCode::unsupported);
        EXPECT_NE(halves.error().message.find("wrongly"), std::string::npos) << halves.error().message;
        const Matrix x = random_int8(2, 70, 24);
        EXPECT_EQ(product(x, w, Pipeline::int8), exact_products(x, w));
    }
    const Faults scope("type=2,type=10");
    open();
    EXPECT_FALSE(prepare(*engine_, w, Pipeline::int8));
    EXPECT_TRUE(prepare(*engine_, w, Pipeline::fp16));
    EXPECT_FALSE(prepare(*engine_, w, Pipeline::w4a8));
}

}  // namespace
}  // namespace npu::gemm
