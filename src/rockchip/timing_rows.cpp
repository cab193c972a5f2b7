// The published rows, as data. Tilings: where the source gives a number of tasks, the tile that makes this number by the
// program's published planner rule; else that rule alone (the open library on the vendor driver: as many rows as fit 8
// CBUF banks).
#include <array>

#include "rockchip/timing_measurements.h"

namespace npu::rockchip {

namespace {

// Milliseconds of a matmul that runs at so many GFLOP/s (two operations per multiply-accumulate).
constexpr double at_rate(double m, double n, double k, double giga_per_second) {
    return 2 * m * n * k / giga_per_second * 1e-6;
}

// A mainline library, which also runs on the vendor driver. Its tile adds partial sums on the device and orders tasks
// so that features stay; its older square tile returned fp32 partial sums to the host.
constexpr Tiling accumulating{
    .m = 256, .n = 128, .k = 512, .features_stay = true, .accumulates = true, .command_words = 126};
constexpr Tiling square{.m = 256, .n = 256, .k = 384, .command_words = 126};
constexpr std::uint32_t chained = 64;  // tasks per kick
constexpr std::uint32_t each_a_kick = 1;

constexpr Measurement on_mainline(Measurement row) {
    row.source = "notes on a mainline stack";
    row.kernel = KernelSetup::rocket;
    row.clock_mhz = 600;
    row.tiling.command_words = 126;
    return row;
}

constexpr Measurement resident(std::uint32_t m, std::uint32_t n, std::uint32_t k, HostWork host, double low_ms,
                               double high_ms) {
    return {.name = host == HostWork::none         ? "resident weights, time on the device"
                    : host == HostWork::one_worker ? "resident weights, call of one worker"
                                                   : "resident weights, call of five workers",
            .source = "notes on a mainline stack, run on the vendor driver",
            .m = m,
            .n = n,
            .k = k,
            .output = Precision::fp16,
            .tasks_per_kick = chained,
            .tiling = accumulating,
            .host = host,
            .low_ms = low_ms,
            .high_ms = high_ms,
            .star = true,
            .fitted = true};
}

// The call of five workers under other circumstances.
constexpr Measurement five_workers(std::uint32_t cores, std::uint32_t tasks_per_kick, double low_ms, double high_ms) {
    Measurement row = resident(512, 4096, 3840, HostWork::five_workers, low_ms, high_ms);
    row.cores = cores;
    row.tasks_per_kick = tasks_per_kick;
    row.star = row.fitted = tasks_per_kick == chained;
    return row;
}

constexpr Measurement explained(Measurement row, const char* explanation) {
    row.explanation = explanation;
    return row;
}

constexpr Measurement older_five_workers() {
    Measurement row = five_workers(3, each_a_kick, at_rate(512, 4096, 3840, 461), at_rate(512, 4096, 3840, 461));
    row.tiling = square;
    row.tiling.accumulates = true;
    return explained(on_mainline(row), "square tile");
}

constexpr Measurement square_tasks(const char* name, std::uint32_t tasks_per_kick, double ms) {
    return on_mainline({.name = name,
                        .m = 512,
                        .n = 4096,
                        .k = 3840,
                        .tasks_per_kick = tasks_per_kick,
                        .tiling = square,
                        .low_ms = ms,
                        .high_ms = ms});
}

constexpr Measurement slower_clock() {
    constexpr double difference_ms = at_rate(512, 4096, 3840, 56.5) - at_rate(512, 4096, 3840, 75.3);
    Measurement row = square_tasks("how much longer a call takes at 200 MHz", each_a_kick, difference_ms);
    row.slower_clock_mhz = 200;
    return row;
}

constexpr Measurement small_kicks(const char* name, std::uint32_t m, std::uint32_t n, std::uint32_t k, Precision input,
                                  std::uint32_t calls, double low_ms, double high_ms) {
    return on_mainline({.name = name,
                        .m = m,
                        .n = n,
                        .k = k,
                        .input = input,
                        .output = input == Precision::int8 ? Precision::int32 : Precision::fp32,
                        .tasks_per_kick = each_a_kick,
                        .calls = calls,
                        .low_ms = low_ms,
                        .high_ms = high_ms});
}

constexpr Measurement smallest_job() {
    Measurement row = small_kicks("smallest job", 8, 16, 64, Precision::fp16, 1, 0.051, 0.053);
    row.fitted = true;
    return row;
}

// An open library on the vendor driver: one blocking task per row.
constexpr Measurement one_int8_task(std::uint32_t m, std::uint32_t k, double microseconds) {
    return {.name = "one blocking task",
            .source = "bench of an open library, vendor driver",
            .m = m,
            .n = 128,
            .k = k,
            .input = Precision::int8,
            .output = Precision::int32,
            .low_ms = microseconds * 1e-3,
            .high_ms = microseconds * 1e-3,
            .fitted = true};
}

// The same library: chain of short command lists, 8 rows by 64 kernels each.
constexpr Measurement int4_chain(std::uint32_t m, std::uint32_t n, double ms, bool fitted) {
    return {.name = "chain of short tasks",
            .source = "bench of an open library, vendor driver",
            .m = m,
            .n = n,
            .k = 2048,
            .input = Precision::int4,
            .output = Precision::int16,
            .tasks_per_kick = 4095,
            .tiling = {.m = 8, .n = 64, .command_words = 16},
            .low_ms = ms,
            .high_ms = ms,
            .fitted = fitted};
}

// The closed runtime's matmul calls, as benchmarked by several people.
constexpr Measurement runtime_call(std::uint32_t m, std::uint32_t n, Precision input, std::uint32_t cores,
                                   KernelSetup kernel, double giga_per_second) {
    const double ms = at_rate(m, n, 2048, giga_per_second);
    return {.name = "call of the closed runtime",
            .source = "bench of the closed runtime",
            .m = m,
            .n = n,
            .k = 2048,
            .input = input,
            .output = input == Precision::int8 ? Precision::int32 : Precision::fp32,
            .cores = cores,
            .kernel = kernel,
            .tiling = {.m = input == Precision::int8 ? 128U : 64U},
            .low_ms = ms,
            .high_ms = ms};
}

constexpr Measurement wide_runtime_call(Precision input, Precision output, double giga_per_second) {
    Measurement row = runtime_call(128, 8192, input, 1, KernelSetup::rknpu, giga_per_second);
    row.k = 1024;
    row.output = output;
    row.tiling = {};
    row.low_ms = row.high_ms = at_rate(128, 8192, 1024, giga_per_second);
    return row;
}

constexpr Measurement attention(std::uint32_t cores, double clock_mhz, double memory_mhz, double ms, bool fitted) {
    return {.name = "attention, 8 heads of 4 rows, 4096 positions",
            .source = "bench of an open attention, vendor driver",
            .m = 4,
            .n = 4096,
            .k = 128,
            .output = Precision::fp16,
            .cores = cores,
            .clock_mhz = clock_mhz,
            .memory_mhz = memory_mhz,
            .workload = Workload::attention,
            .tiling = {.n = 512},
            .low_ms = ms,
            .high_ms = ms,
            .fitted = fitted};
}

constexpr Measurement int4_pairs() {
    return {.name = "int8 rows as pairs of int4 rows (M = 128), whole call",
            .source = "API notes of an open library, vendor driver",
            .m = 256,
            .n = 4096,
            .k = 11008,
            .input = Precision::int4,
            .output = Precision::int16,
            .cores = 3,
            .tiling = {.m = 128, .k = 480},
            .low_ms = 4.0,
            .high_ms = 4.0};
}

constexpr const char* runtime_tile =
    "the closed runtime's tile is not published; the 36 rows of captured vendor programs would give -4 to +6 %";
constexpr const char* hidden_output =
    "one shape is named for three formats; so near the peak the results must be written during the multiplications";

constexpr KernelSetup warm = KernelSetup::rknpu;
constexpr KernelSetup unpinned = KernelSetup::rknpu_unpinned;

constexpr std::array rows{
    resident(512, 2048, 2048, HostWork::none, 5.74, 5.74),
    resident(512, 4096, 3840, HostWork::none, 21.45, 21.45),
    resident(1024, 4096, 3840, HostWork::none, 42.91, 42.91),
    resident(512, 2048, 2048, HostWork::one_worker, 8.24, 8.24),
    resident(512, 4096, 3840, HostWork::one_worker, 27.76, 27.76),
    resident(1024, 4096, 3840, HostWork::one_worker, 55.42, 55.42),
    five_workers(1, chained, 36.8, 39.3),
    five_workers(3, chained, 26.1, 27.7),
    on_mainline(five_workers(3, chained, 23.5, 24.4)),
    five_workers(1, each_a_kick, 68, 77),
    explained(five_workers(3, each_a_kick, 47.5, 48.3),
              "kicks of three cores wait for each other in the driver; in the model they overlap"),
    older_five_workers(),
    square_tasks("320 tasks, time waited", each_a_kick, 62),
    square_tasks("320 tasks, time waited", chained, 48),
    explained(square_tasks("320 tasks, time waited", each_a_kick, 84), "an earlier version of the same program"),
    slower_clock(),
    smallest_job(),
    small_kicks("one blocking task", 64, 512, 256, Precision::fp16, 1, 0.096, 0.109),
    small_kicks("four tasks", 64, 64, 256, Precision::int8, 4, 0.277, 0.277),
    small_kicks("four tasks", 128, 128, 1024, Precision::int8, 4, 0.48, 0.48),
    one_int8_task(1, 2048, 80),
    one_int8_task(16, 2048, 80),
    one_int8_task(32, 2048, 88),
    one_int8_task(36, 2048, 93),
    one_int8_task(8, 3584, 98),
    one_int8_task(16, 3584, 105),
    int4_chain(128, 2048, 4.05, true),
    int4_chain(256, 2048, 8.21, false),
    int4_chain(128, 16384, 33, false),
    runtime_call(1, 2048, Precision::fp16, 1, unpinned, 8.1),
    runtime_call(1, 5504, Precision::fp16, 1, unpinned, 9.0),
    runtime_call(1, 32000, Precision::fp16, 1, unpinned, 10.9),
    runtime_call(256, 2048, Precision::fp16, 1, unpinned, 442),
    runtime_call(512, 2048, Precision::fp16, 1, unpinned, 548),
    runtime_call(1, 2048, Precision::int8, 1, unpinned, 12.6),
    runtime_call(512, 2048, Precision::int8, 1, unpinned, 1391),
    runtime_call(1, 768, Precision::int8, 3, warm, 19.3),
    explained(runtime_call(128, 768, Precision::int8, 3, warm, 1133), runtime_tile),
    explained(runtime_call(512, 768, Precision::int8, 3, warm, 1491), runtime_tile),
    explained(runtime_call(1024, 768, Precision::int8, 3, warm, 1563), runtime_tile),
    wide_runtime_call(Precision::fp16, Precision::fp32, 900),
    explained(wide_runtime_call(Precision::int8, Precision::int32, 1800), hidden_output),
    explained(wide_runtime_call(Precision::int4, Precision::int16, 4000), hidden_output),
    attention(1, 1000, 2112, 1.790, false),
    attention(2, 1000, 2112, 0.941, false),
    attention(3, 1000, 2112, 0.763, true),
    attention(3, 1000, 1068, 0.763 * 1.73, false),
    attention(3, 600, 2112, 0.763 * 1.09, false),
    int4_pairs(),
};

}  // namespace

std::span<const Measurement> measurements() { return rows; }

}  // namespace npu::rockchip
