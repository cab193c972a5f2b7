// The timing model: its arithmetic on small cases worked out by hand, and its agreement with published measurements.
#include "rockchip/timing.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "rockchip/timing_table.h"

namespace npu::rockchip {
namespace {

// Constants that make mental arithmetic easy: 1 us per 10 kB on one core, per 20 kB on all.
ChipProfile round_chip() {
    ChipProfile chip = rk3588();
    chip.timing.clock_hz = 1e9;
    chip.timing.memory_hz = 2e9;
    chip.timing.core_bytes_per_second = 10e9;
    chip.timing.port_bytes_per_cycle = 16;
    chip.timing.shared_bytes_per_second = 20e9;
    chip.timing.task_start_seconds = 1e-6;
    chip.timing.rknpu_submit_seconds = 50e-6;
    return chip;
}

constexpr TaskWork array_bound{.macs = 512'000 * 7,  // 7 us at 512 a cycle
                               .feature_bytes = 20'000,
                               .weight_bytes = 30'000,
                               .output_bytes = 40'000,
                               .command_words = 112,
                               .precision = Precision::fp16,
                               .operand_bytes = 50'000};

double microseconds(const TaskWork& work, const ChipProfile& chip, const Conditions& with) {
    return task_seconds(work, chip, with) * 1e6;
}

double submission_microseconds(const std::vector<std::vector<TaskWork>>& tasks, const ChipProfile& chip,
                               const Conditions& with) {
    const std::vector<CoreWork> cores(tasks.begin(), tasks.end());
    return submission_seconds(cores, chip, with) * 1e6;
}

TEST(TaskTime, features_then_the_longer_of_array_and_weights_then_operands_and_results) {
    const ChipProfile chip = round_chip();
    const Conditions nominal = conditions(chip);
    EXPECT_NEAR(microseconds(array_bound, chip, nominal), 1 + 2 + 7 + 5 + 4, 1e-9);
    TaskWork weight_bound = array_bound;
    weight_bound.weight_bytes = 90'000;
    EXPECT_NEAR(microseconds(weight_bound, chip, nominal), 1 + 2 + 9 + 5 + 4, 1e-9);
    EXPECT_NEAR(task_time(weight_bound, chip, nominal).array * 1e6, 7, 1e-9) << "hidden, but reported";
}

TEST(TaskTime, each_format_multiplies_at_its_own_rate) {
    const ChipProfile chip = round_chip();
    const std::array<std::pair<Precision, double>, 6> cycles{{{Precision::int4, 1},
                                                              {Precision::int8, 2},
                                                              {Precision::int16, 4},
                                                              {Precision::fp16, 4},
                                                              {Precision::bf16, 4},
                                                              {Precision::tf32, 8}}};
    for (const auto& [precision, count] : cycles) {
        const TaskWork work{.macs = 2048, .precision = precision};
        EXPECT_NEAR(task_time(work, chip, conditions(chip)).array * 1e9, count, 1e-9) << info(precision).name;
    }
    EXPECT_EQ(task_time({.macs = 2048, .precision = Precision::fp32}, chip, conditions(chip)).array, 0.0)
        << "no such multiplier: a task of the DPU alone";
}

TEST(TaskTime, a_slow_clock_slows_the_array_in_proportion_and_the_memory_port_below_its_bound) {
    const ChipProfile chip = round_chip();
    Conditions slow = conditions(chip);
    slow.clock_hz = 700e6;  // the port still moves 11.2 GB/s
    EXPECT_NEAR(microseconds(array_bound, chip, slow), 1 + 2 + 10 + 5 + 4, 1e-9);
    slow.clock_hz = 500e6;  // 8 GB/s
    EXPECT_NEAR(microseconds(array_bound, chip, slow), 1 + 2.5 + 14 + 6.25 + 5, 1e-9);
    slow.clock_hz = 1e9;
    slow.memory_hz = 0.5e9;  // all the memory gives is 5 GB/s
    EXPECT_NEAR(microseconds(array_bound, chip, slow), 1 + 4 + 7 + 10 + 8, 1e-9);
}

TEST(SubmissionTime, the_busiest_core_counts_unless_the_shared_memory_takes_longer) {
    const ChipProfile chip = round_chip();
    const Conditions nominal = conditions(chip);
    EXPECT_NEAR(submission_microseconds({}, chip, nominal), 50, 1e-9);
    EXPECT_NEAR(submission_microseconds({{array_bound, array_bound}, {array_bound}}, chip, nominal), 2 * 19 + 50, 1e-9);

    const TaskWork streaming{.weight_bytes = 1'000'000, .precision = Precision::fp16};  // 100 us on a core
    EXPECT_NEAR(submission_microseconds({{streaming}, {streaming}}, chip, nominal), 100 + 1 + 50, 1e-9);
    EXPECT_NEAR(submission_microseconds({{streaming}, {streaming}, {streaming}}, chip, nominal), 150 + 50, 1e-9);
    const std::vector<TaskWork> tasks{streaming};
    const std::array<CoreWork, 3> cores{tasks, tasks, tasks};
    const SubmissionTime time = submission_time(cores, chip, nominal);
    EXPECT_GT(time.total, time.tasks + time.kicks) << "the limit is the memory, and one can tell";
}

TEST(SubmissionTime, command_lists_are_traffic_but_take_no_time_of_their_own) {
    const ChipProfile chip = round_chip();
    TaskWork work = array_bound;
    const double before = microseconds(work, chip, conditions(chip));
    EXPECT_EQ(memory_bytes(work), 20'000U + 30'000 + 40'000 + 50'000 + 8 * 112);
    work.command_words = 100'000;
    EXPECT_EQ(microseconds(work, chip, conditions(chip)), before);
    EXPECT_GT(submission_microseconds({{work}}, chip, conditions(chip)), before + 50);
}

TEST(SubmissionTime, every_kick_costs) {
    const ChipProfile chip = round_chip();
    Conditions with = conditions(chip);
    const std::vector<std::vector<TaskWork>> tasks{std::vector<TaskWork>(130, array_bound)};
    for (const auto& [per_kick, kicks] : {std::pair{0U, 1.0}, {1U, 130.0}, {64U, 3.0}, {65U, 2.0}, {4095U, 1.0}}) {
        with.tasks_per_kick = per_kick;
        EXPECT_NEAR(submission_microseconds(tasks, chip, with), 130 * 19 + kicks * 50, 1e-6) << per_kick;
    }
}

TEST(KernelSetups, differ_as_the_drivers_do) {
    const Conditions vendor = conditions(rk3588());
    EXPECT_EQ(vendor.clock_hz, 1e9);
    EXPECT_EQ(vendor.tasks_per_kick, 0U) << "the vendor driver chains";
    const Conditions mainline = conditions(rk3588(), KernelSetup::rocket);
    EXPECT_EQ(mainline.clock_hz, 200e6);
    EXPECT_EQ(mainline.tasks_per_kick, 1U);
    EXPECT_GT(mainline.submit_seconds, conditions(rk3588(), KernelSetup::rocket_big_core).submit_seconds);
    EXPECT_GT(conditions(rk3588(), KernelSetup::rocket_big_core).submit_seconds,
              conditions(rk3588(), KernelSetup::rocket_same_core).submit_seconds);
    EXPECT_GT(conditions(rk3588(), KernelSetup::rknpu_unpinned).submit_seconds, vendor.submit_seconds);
}

TEST(CacheSync, is_proportional_to_the_buffer) {
    EXPECT_NEAR(cache_sync_seconds(10'600'000, rk3588()) - cache_sync_seconds(0, rk3588()), 1e-3, 1e-9);
    EXPECT_GT(cache_sync_seconds(0, rk3588()), 0.0);
}

TEST(TiledTasks, move_what_was_published_for_a_measured_call) {
    // Published for M=512, N=4096, K=3840 in fp16: 512 tasks, 133.5 MB; 121 MiB more if features are fetched anew.
    const MatmulWork matmul{512, 4096, 3840, Precision::fp16, Precision::fp16};
    Tiling tiling{.m = 256, .n = 128, .k = 512, .features_stay = true, .accumulates = true};
    const auto megabytes = [&] {
        double bytes = 0;
        const auto lists = tiled_tasks(matmul, tiling, 1);
        for (const TaskWork& work : lists[0]) {
            bytes += static_cast<double>(memory_bytes(work));
        }
        return bytes * 1e-6;
    };
    EXPECT_EQ(tiled_tasks(matmul, tiling, 1)[0].size(), 512U);
    const double reused = megabytes();
    EXPECT_NEAR(reused / 133.5, 1, 0.03);
    tiling.features_stay = false;
    EXPECT_NEAR((megabytes() - reused) / (121 * 1.048576), 1, 0.05);
}

TEST(TiledTasks, cover_the_padded_matmul_on_any_number_of_cores) {
    for (std::uint32_t cores = 1; cores <= 3; ++cores) {
        std::uint64_t macs = 0;
        std::uint64_t output = 0;
        const auto lists = tiled_tasks({100, 200, 1000, Precision::int8, Precision::int32}, {.m = 33, .k = 320}, cores);
        EXPECT_EQ(lists.size(), cores);
        for (const std::vector<TaskWork>& tasks : lists) {
            EXPECT_EQ(tasks.size(), 4U * 4);
            for (const TaskWork& work : tasks) {
                macs += work.macs;
                output += work.output_bytes;
            }
        }
        EXPECT_EQ(macs, 100U * 224 * 1024);
        EXPECT_EQ(output, 100U * 224 * 4 * 4) << "one partial result per K tile";
    }
    EXPECT_EQ(tiled_tasks({4, 16, 64, Precision::fp16, Precision::fp32}, {}, 3).size(), 1U) << "one kernel group";
    EXPECT_EQ(bytes_of(3, Precision::int4), 2U);
}

// What the published rows demand of the model and do not get.
std::vector<std::string> broken_promises(const ChipProfile& chip) {
    std::vector<std::string> broken;
    if (fit(chip).median > 0.15) {
        broken.push_back("median of all rows");
    }
    if (fit(chip, RowFilter::check).median > 0.15) {
        broken.push_back("median of the rows that no constant was set by");
    }
    for (const Measurement& row : measurements()) {
        const double error = std::abs(relative_error(row, chip));
        const std::string name = std::string(row.name) + ", M = " + std::to_string(row.m);
        if (row.star && error > 0.15) {
            broken.push_back("★ " + name);
        }
        if (error > 0.40 && *row.explanation == '\0') {
            broken.push_back("unexplained: " + name);
        }
    }
    return broken;
}

TEST(PublishedMeasurements, agree_with_the_model) {
    for (const std::string& promise : broken_promises(rk3588())) {
        ADD_FAILURE() << promise;
    }
}

TEST(PublishedMeasurements, would_not_agree_with_other_constants) {
    using Constant = double TimingConstants::*;
    const std::array<std::pair<Constant, double>, 10> changes{{{&TimingConstants::core_bytes_per_second, 2.0},
                                                               {&TimingConstants::core_bytes_per_second, 0.5},
                                                               {&TimingConstants::port_bytes_per_cycle, 0.5},
                                                               {&TimingConstants::shared_bytes_per_second, 0.5},
                                                               {&TimingConstants::task_start_seconds, 20.0},
                                                               {&TimingConstants::rknpu_submit_seconds, 0.0},
                                                               {&TimingConstants::rknpu_submit_seconds, 2.0},
                                                               {&TimingConstants::rknpu_unpinned_submit_seconds, 0.0},
                                                               {&TimingConstants::rocket_submit_seconds, 0.0},
                                                               {&TimingConstants::rocket_submit_seconds, 2.0}}};
    for (const auto& [constant, factor] : changes) {
        ChipProfile chip = rk3588();
        chip.timing.*constant *= factor;
        EXPECT_FALSE(broken_promises(chip).empty())
            << "change " << &constant - &changes[0].first << " times " << factor;
    }
}

TEST(PublishedMeasurements, of_the_closed_runtime_on_three_cores_agree_if_its_tiles_have_36_rows) {
    std::size_t rows = 0;
    for (Measurement row : measurements()) {
        if (row.cores == 3 && row.input == Precision::int8 && row.m >= 128) {
            ++rows;
            EXPECT_LT(relative_error(row, rk3588()), -0.5) << "with the rule of the open library, M = " << row.m;
            row.tiling.m = 36;
            EXPECT_NEAR(relative_error(row, rk3588()), 0, 0.07) << "this is the explanation it prints, M = " << row.m;
        }
    }
    EXPECT_EQ(rows, 3U);
}

TEST(PublishedMeasurements, span_formats_sizes_cores_and_drivers) {
    std::set<Precision> inputs;
    std::set<std::uint32_t> cores;
    std::set<bool> mainline;
    std::set<double> clocks;
    std::uint32_t smallest = 1000;
    std::uint32_t largest = 0;
    std::size_t stars = 0;
    for (const Measurement& row : measurements()) {
        EXPECT_LE(row.low_ms, row.high_ms) << row.name;
        EXPECT_GT(row.low_ms, 0.0) << row.name;
        inputs.insert(row.input);
        cores.insert(row.cores);
        mainline.insert(row.kernel == KernelSetup::rocket);
        clocks.insert(row.clock_mhz);
        smallest = std::min(smallest, row.m);
        largest = std::max(largest, row.m);
        stars += row.star ? 1 : 0;
    }
    EXPECT_GE(measurements().size(), 25U);
    EXPECT_GE(fit(rk3588(), RowFilter::check).rows, 25U) << "rows that no constant was set by";
    EXPECT_EQ(inputs, (std::set{Precision::int4, Precision::int8, Precision::fp16}));
    EXPECT_EQ(cores, (std::set{1U, 2U, 3U}));
    EXPECT_EQ(mainline.size(), 2U);
    EXPECT_GE(clocks.size(), 2U);
    EXPECT_EQ(smallest, 1U);
    EXPECT_GE(largest, 512U);
    EXPECT_EQ(stars, 9U);
    EXPECT_LE(constants_in_use * 5, measurements().size());
}

TEST(TimingDocument, holds_what_the_command_prints) {
    std::ifstream file(NPU_SOURCE_DIR "/docs/timing-model.md");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string first = "<!-- npu timing -->\n";
    const std::size_t begin = text.find(first);
    const std::size_t end = text.find("<!-- end of npu timing -->");
    ASSERT_NE(begin, std::string::npos);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(text.substr(begin + first.size(), end - begin - first.size()), timing_report(rk3588()))
        << "replace what stands between the two comments of docs/timing-model.md by what `npu timing` prints";
}

}  // namespace
}  // namespace npu::rockchip
