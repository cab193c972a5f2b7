// The host kernels of a multiplication beside memcpy, on one thread:
//   cmake --build build --target host_kernels && build/bin/host_kernels
//
// Names end in the sizes: M, K; M, N, K tiles; N, K; M, N (K is 4096). "Bytes" are bytes read plus bytes written, each once: for quantise-and-tile 4 MK + MK, for a memcpy of n bytes 2n. The
// memcpy beside each kernel moves as many bytes in that sense, between buffers of its own; beside the multiplications,
// which write next to nothing, stands a sweep that only reads the weights. `ratio` is the kernel's rate over the copy's.
// Kernel and copy take turns, and the best of each counts, because other work on the machine only ever slows them down;
// for the same reason the time is the thread's own. More turns: --benchmark_min_time=2
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/integers.h"
#include "compile/pack.h"
#include "gemm/kernels.h"

namespace npu::gemm {
namespace {

// Memory as a device's buffers are: starting on a page, and touched before it is measured.
template <typename T>
class Pages {
  public:
    explicit Pages(std::size_t count) : data_(static_cast<T*>(std::aligned_alloc(4096, round_up(count)))) {
        std::memset(static_cast<void*>(data_.get()), 1, round_up(count));
    }
    [[nodiscard]] T* get() const { return data_.get(); }

  private:
    static std::size_t round_up(std::size_t count) { return align_up<std::size_t>(count * sizeof(T), 4096); }

    struct Free {
        void operator()(T* data) const { std::free(data); }
    };
    std::unique_ptr<T, Free> data_;
};

// Of this thread only, so that what else runs on the machine counts as little as can be.
double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_of(const std::function<void()>& work) {
    const double start = processor_seconds();
    work();
    return processor_seconds() - start;
}

// Runs both in turn and reports the best of each.
void compare(benchmark::State& state, double bytes, const std::function<void()>& kernel,
             const std::function<void()>& yardstick) {
    double best_kernel = 1e9;
    double best_yardstick = 1e9;
    kernel();
    yardstick();
    for (auto _ : state) {
        const double seconds = seconds_of(kernel);
        best_kernel = std::min(best_kernel, seconds);
        best_yardstick = std::min(best_yardstick, seconds_of(yardstick));
        state.SetIterationTime(seconds);
    }
    state.counters["GB/s"] = bytes / best_kernel * 1e-9;
    state.counters["yardstick_GB/s"] = bytes / best_yardstick * 1e-9;
    state.counters["ratio"] = best_yardstick / best_kernel;
    state.SetLabel(kernel_instruction_set());
}

void beside_memcpy(benchmark::State& state, std::size_t bytes, const std::function<void()>& kernel) {
    const Pages<std::byte> from(bytes / 2);
    const Pages<std::byte> to(bytes / 2);
    compare(state, static_cast<double>(bytes), kernel, [&] {
        std::memcpy(to.get(), from.get(), bytes / 2);
        benchmark::ClobberMemory();
    });
}

void fill(float* values, std::size_t count) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    std::generate(values, values + count, [&] { return normal(random); });
}

void fill(std::int8_t* values, std::size_t count) {
    std::mt19937 random(2);
    std::generate(values, values + count, [&] { return static_cast<std::int8_t>(random()); });
}

void tile(benchmark::State& state, compile::Precision precision) {
    const auto tile_rows = precision == compile::Precision::int8 ? quantise_and_tile : tile_half;
    const auto m = static_cast<std::uint32_t>(state.range(0));
    const auto k = static_cast<std::uint32_t>(state.range(1));
    const compile::FeatureLayout layout{precision, compile::Arrangement::native, m,
                                        compile::padded_channels(precision, k)};
    const Pages<float> x(std::size_t{m} * k);
    fill(x.get(), std::size_t{m} * k);
    const Pages<std::byte> device(layout.bytes());
    std::vector<float> scales(m);
    beside_memcpy(state, std::size_t{m} * k * 4 + layout.bytes(), [&] {
        tile_rows(layout, {x.get(), k, m}, 0, k, device.get(), scales.data());
    });
}

void untile(benchmark::State& state, compile::Precision precision) {
    const auto m = static_cast<std::uint32_t>(state.range(0));
    const auto n = static_cast<std::uint32_t>(state.range(1));
    const auto tiles = static_cast<std::size_t>(state.range(2));
    const compile::OutputLayout layout{precision, compile::Arrangement::native, m, align_up(n, 32U)};
    const Pages<std::byte> device(layout.bytes() * tiles);
    std::vector<const std::byte*> starts;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
        starts.push_back(device.get() + tile * layout.bytes());
    }
    const Pages<float> y(std::size_t{m} * n);
    const std::vector<float> row_scales(m, 0.5F);
    const std::vector<float> kernel_scales(n, 0.25F);
    beside_memcpy(state, tiles * layout.bytes() + std::size_t{m} * n * 4, [&] {
        scale_and_untile({layout, starts, 2048}, 0, m, n, row_scales.data(), kernel_scales.data(), {y.get(), n});
    });
}

void pack(benchmark::State& state) {
    const auto n = static_cast<std::uint32_t>(state.range(0));
    const auto k = static_cast<std::uint32_t>(state.range(1));
    const compile::WeightLayout layout{compile::Precision::int8, align_up(n, 32U), align_up(k, 32U)};
    const Pages<std::int8_t> rows(std::size_t{n} * k);
    const Pages<std::byte> device(layout.bytes());
    beside_memcpy(state, std::size_t{n} * k + layout.bytes(), [&] {
        compile::pack_weights(layout, {rows.get(), k}, 0, n, k, device.get());
    });
}

// Reads all bytes and does as little with them as can be: `lanes` sums, so that no addition waits for another.
std::uint64_t sweep(const std::int8_t* bytes, std::size_t count) {
    constexpr std::size_t lanes = 16;
    const auto* words = reinterpret_cast<const std::uint64_t*>(bytes);
    std::uint64_t sums[lanes] = {};
    for (std::size_t i = 0; i < count / sizeof(*words); i += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            sums[lane] += words[i + lane];
        }
    }
    return std::accumulate(sums, sums + lanes, std::uint64_t{0});
}

void multiply(benchmark::State& state, compile::Precision precision) {
    const auto m = static_cast<std::uint32_t>(state.range(0));
    const auto n = static_cast<std::uint32_t>(state.range(1));
    constexpr std::uint32_t k = 4096;
    constexpr std::uint32_t tile_channels = 2048;
    const std::size_t tile_bytes = std::size_t{n} * tile_channels * rockchip::info(precision).bits / 8;
    const Pages<std::int8_t> weights(2 * tile_bytes);
    fill(weights.get(), 2 * tile_bytes);
    const auto* start = reinterpret_cast<const std::byte*>(weights.get());
    const WeightTile tiles[] = {{start, 0, tile_channels}, {start + tile_bytes, tile_channels, tile_channels}};
    const std::vector<float> kernel_scales(n, 0.25F);
    const WeightTiles resident{precision, n, k, tiles, kernel_scales.data()};
    std::vector<std::int8_t> x(std::size_t{m} * k);
    fill(x.data(), x.size());
    const std::vector<float> row_scales(m, 0.5F);
    std::vector<float> y(std::size_t{m} * n);
    compare(
        state, static_cast<double>(2 * tile_bytes),
        [&] {
            multiply_on_cpu(resident, 0, n / kernels_per_group(resident), {x.data(), k, m, row_scales.data()},
                            {y.data(), n});
        },
        [&] { benchmark::DoNotOptimize(sweep(weights.get(), 2 * tile_bytes)); });
}

using compile::Precision;

BENCHMARK_CAPTURE(tile, f32_to_int8, Precision::int8)->Args({512, 4096})->UseManualTime();
BENCHMARK_CAPTURE(tile, f32_to_fp16, Precision::fp16)->Args({512, 4096})->UseManualTime();
BENCHMARK_CAPTURE(untile, int32_to_f32, Precision::int32)->ArgsProduct({{512}, {4096}, {1, 2}})->UseManualTime();
BENCHMARK_CAPTURE(untile, fp32_to_f32, Precision::fp32)->ArgsProduct({{512}, {4096}, {1, 2}})->UseManualTime();
BENCHMARK_CAPTURE(untile, fp16_to_f32, Precision::fp16)->ArgsProduct({{512}, {4096}, {1, 2}})->UseManualTime();
BENCHMARK(pack)->Args({4096, 4096})->UseManualTime();
// 64 MiB of weights each: more than the last cache holds.
BENCHMARK_CAPTURE(multiply, int8, Precision::int8)->ArgsProduct({{1, 2, 3, 4, 5, 6, 7, 8}, {16384}})->UseManualTime();
BENCHMARK_CAPTURE(multiply, int4, Precision::int4)->ArgsProduct({{1, 2, 3, 4, 5, 6, 7, 8}, {32768}})->UseManualTime();

}  // namespace
}  // namespace npu::gemm

BENCHMARK_MAIN();
