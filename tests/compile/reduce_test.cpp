// Partial sums added on the chip: the words of the adds against what is published, and which bytes they add.
#include "compile/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compile/program.h"
#include "compile/search.h"
#include "support.h"

namespace npu::compile {
namespace {

using rockchip::Command;
using rockchip::rk3588;

constexpr Precision int8 = Precision::int8;
constexpr Precision int32 = Precision::int32;
constexpr Precision fp16 = Precision::fp16;

std::map<std::uint16_t, std::uint32_t> registers_of(const std::vector<Command>& commands) {
    std::map<std::uint16_t, std::uint32_t> registers;
    for (const Command& command : commands) {
        EXPECT_TRUE(registers.emplace(command.offset, command.value).second) << "written twice: " << command.offset;
    }
    return registers;
}

// The values that the library which chains adds is published to write, for so many rows and channels.
std::map<std::uint16_t, std::uint32_t> published(std::uint32_t rows, std::uint32_t channels, std::uint32_t first,
                                                 std::uint32_t second, std::uint32_t to) {
    return {{0x400c, 0x1e5},
            {0x4010, 0x90000004},
            {0x4040, 0x53},
            {0x4050, 2},
            {0x4060, 0x53},
            {0x4070, 0x10c203c0},
            {0x4030, rows - 1},
            {0x405c, rows - 1},
            {0x4024, rows * 16},
            {0x40c0, rows * 16},
            {0x4020, to},
            {0x403c, (channels - 1) * 0x10001},
            {0x4058, channels - 1},
            {0x5014, channels - 1},
            {0x5018, first},
            {0x5034, 0x4000000c},
            {0x5038, second},
            {0x5040, rows * 16},
            {0x5044, 0x27881},
            {0x504c, 0},
            {0x5068, 0x01010101},
            {0x500c, rows - 1},
            {0x5010, 0},
            {0x4084, 1},
            {0x4088, 0},
            {0x4004, 0xe},
            {0x5004, 0xe}};
}

TEST(Add, has_the_published_words) {
    for (const std::uint32_t rows : {1U, 8U, 100U, 128U}) {
        for (const std::uint32_t channels : {32U, 96U, 1024U}) {
            const AddTask task{0x100000, 0x200000, 0x300000, rows, channels};
            const auto body = emit_add(task);
            ASSERT_TRUE(body) << body.error().message;
            auto ours = registers_of(*body);
            EXPECT_EQ(add_work(task).command_words, body->size() + rockchip::tail_words);
            for (const auto& [offset, value] : published(rows, channels, 0x100000, 0x200000, 0x300000)) {
                ASSERT_TRUE(ours.contains(offset)) << std::hex << offset;
                EXPECT_EQ(ours[offset], value) << std::hex << offset;
                ours.erase(offset);
            }
            EXPECT_EQ(ours.extract(0x4078).mapped(), 1U);  // of a converter that is bypassed
            for (const auto& [offset, value] : ours) {
                EXPECT_EQ(value, 0U) << std::hex << offset;
            }
            EXPECT_TRUE(std::ranges::none_of(*body, [](const Command& command) {
                return command.target == rockchip::target::cna || command.target == rockchip::target::core;
            }));
        }
    }
}

TEST(Add, in_place_or_unaligned_or_too_large_is_refused) {
    EXPECT_TRUE(emit_add({0, 0x1000, 0x2000, 32, 32}));
    for (const AddTask& task :
         {AddTask{0, 0x1000, 0, 32, 32}, AddTask{0, 0x1000, 0x1000, 32, 32}, AddTask{0, 0x1000, 0x1ff0, 32, 32},
          AddTask{8, 0x1000, 0x2000, 32, 32}, AddTask{0, 0x1000, 0x2000, 0, 32}, AddTask{0, 0x1000, 0x2000, 32, 6},
          AddTask{0, 1U << 30, 1U << 31, 8193, 32}}) {
        EXPECT_FALSE(emit_add(task)) << task.sum;
    }
}

// Which K tiles were summed in each 4-byte cell of the output buffer, by running tasks in order.
using Cells = std::vector<std::uint64_t>;

void check_sums(const Plan& plan) {
    const std::size_t slot = plan.output_layout().bytes() / 4;
    Cells cells(plan.output_bytes() / 4, 0);
    ASSERT_LE(plan.k_tiles.size(), 63U);
    ASSERT_EQ(cells.size(), slot * (plan.k_tiles.size() + (plan.k_tiles.size() > 1 ? 1 : 0)));
    std::size_t tasks = 0;
    for (std::size_t index = 0; index < plan.cores.size(); ++index) {
        const std::vector<TaskTile>& core = plan.cores[index];
        std::vector<bool> own(cells.size(), false);  // what this core wrote
        for (const TaskTile& tile : core) {
            for (std::uint32_t m = tile.m0; m < tile.m0 + tile.m; ++m) {
                for (std::uint32_t n = tile.n0; n < tile.n0 + tile.n; ++n) {
                    const std::size_t cell = (plan.output_offset(tile.k_tile) + plan.output_layout().offset(m, n)) / 4;
                    cells[cell] = std::uint64_t{1} << tile.k_tile;
                    own[cell] = true;
                }
            }
        }
        std::size_t end = 0;
        const std::vector<AddTask> adds = add_tasks(plan, core);
        for (const AddTask& add : adds) {
            EXPECT_LE(add.pixels, 128U);
            EXPECT_LE(add.channels, 1024U);
            EXPECT_EQ(add.channels % 32, 0U);
            ASSERT_LE(add.sum + add.bytes(), plan.output_bytes());
            for (std::size_t i = 0; i < add.bytes() / 4; ++i) {
                ASSERT_TRUE(own[add.augend / 4 + i] && own[add.addend / 4 + i]) << "another core's, or nobody's";
                const std::uint64_t a = cells[add.augend / 4 + i];
                const std::uint64_t b = cells[add.addend / 4 + i];
                ASSERT_EQ(a & b, 0U) << "a K tile would count twice";
                cells[add.sum / 4 + i] = a | b;
                own[add.sum / 4 + i] = true;
            }
            end = add.sum + add.bytes();
        }
        if (!adds.empty()) {
            EXPECT_EQ(plan.end_of_core(index), end);
        }
        tasks += core.size() + adds.size();
    }
    EXPECT_EQ(plan.task_count(), tasks);
    ASSERT_EQ(plan.result_tiles(), 1U);
    EXPECT_EQ(plan.result_bytes(), slot * 4);
    const std::uint64_t all = (std::uint64_t{1} << plan.k_tiles.size()) - 1;
    for (std::size_t i = 0; i < slot; ++i) {
        ASSERT_EQ(cells[plan.result_offset(0) / 4 + i], all) << i;
    }
}

TEST(Reduction, adds_every_k_tile_of_every_result_once_and_only_what_the_core_wrote) {
    test::Random random(50);
    for (int round = 0; round < 120; ++round) {
        PlanOptions options{.cores = random.between(1, 3)};
        const bool row_major = random.coin();
        options.output = row_major ? Arrangement::row_major : Arrangement::native;
        options.split = row_major ? Split::rows : Split::channels;
        options.order = random.coin() ? Order::rows_last : Order::channels_last;
        options.reduction = Reduction::flying_add;
        options.max_k = random.between(1, 4) * 64;
        const MatmulShape shape{random.logarithmic(400), random.logarithmic(1500), random.logarithmic(1500), int8,
                                int32};
        const auto plan = plan_matmul(shape, rk3588(), options);
        ASSERT_TRUE(plan) << plan.error().message;
        check_sums(*plan);
        if (HasFailure()) {
            FAIL() << "M=" << shape.m << " N=" << shape.n << " K=" << shape.k << " of " << options.max_k;
        }
    }
}

TEST(Reduction, larger_adds_are_an_experiment) {
    PlanOptions options{.cores = 1, .small_adds = false, .max_k = 64, .reduction = Reduction::flying_add};
    const auto plan = plan_matmul({384, 4096, 128, int8, int32}, rk3588(), options);
    ASSERT_TRUE(plan) << plan.error().message;
    const auto large = add_tasks(*plan, plan->cores[0]);
    EXPECT_EQ(large.size(), 1U);
    EXPECT_EQ(large[0].pixels, 4096U);
    options.small_adds = true;
    EXPECT_EQ(add_tasks(*plan_matmul({384, 4096, 128, int8, int32}, rk3588(), options), plan->cores[0]).size(), 12U);
}

TEST(Reduction, that_cannot_be_done_says_why) {
    const auto refusal = [](const MatmulShape& shape, PlanOptions options, Reduction reduction) {
        options.reduction = reduction;
        const auto plan = plan_matmul(shape, rk3588(), options);
        return plan ? std::string() : plan.error().message;
    };
    const auto says = [](const std::string& message, const char* part) {
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    using enum Reduction;
    const MatmulShape bytes{64, 256, 4096, int8, int32};
    const MatmulShape halves{64, 256, 4096, fp16, fp16};
    EXPECT_EQ(refusal(bytes, {.max_k = 1024}, flying_add), "");
    EXPECT_EQ(refusal(halves, {.max_k = 1024}, accumulate), "");
    says(refusal(bytes, {.max_k = 1024}, accumulate), "add them on the host");
    says(refusal(halves, {.max_k = 1024}, flying_add), "add them on the host");
    says(refusal({64, 256, 4096, int8, Precision::fp32}, {.max_k = 1024}, flying_add), "int8 to fp32");
    says(refusal(bytes, {.split = Split::rows, .max_k = 1024}, flying_add), "deal channels");
    says(refusal(bytes, {.output = Arrangement::row_major, .max_k = 1024}, flying_add), "deal rows");
    says(refusal({1, 32, 131072 + 64, int8, int32}, {}, flying_add), "at most 131071");
    EXPECT_EQ(refusal({1, 32, 131072 - 64, int8, int32}, {}, flying_add), "");
    says(refusal(halves, {.output = Arrangement::row_major, .max_k = 1024}, accumulate), "native order");
    says(refusal({30, 256, 4096, fp16, fp16}, {.split = Split::rows, .max_k = 1024}, accumulate), "at least 12");
    EXPECT_EQ(refusal({30, 256, 4096, fp16, fp16},
                      {.split = Split::rows, .twelve_rows_to_accumulate = false, .max_k = 1024}, accumulate),
              "");
    EXPECT_EQ(refusal({1, 256, 4096, fp16, fp16}, {.max_k = 1024}, accumulate), "") << "padded to twelve rows";
    EXPECT_EQ(refusal({64, 256, 64, int8, Precision::fp32}, {}, flying_add), "") << "there is nothing to add";
}

TEST(Reduction, in_fp16_reads_one_slot_and_writes_the_other) {
    const PlanOptions options{.cores = 2, .max_k = 256, .reduction = Reduction::accumulate};
    const auto plan = plan_matmul({5, 96, 1200, fp16, fp16}, rk3588(), options);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_EQ(plan->k_tiles.size(), 5U);
    EXPECT_EQ(plan->padded_m, 12U);
    const std::size_t slot = plan->output_layout().bytes();
    EXPECT_EQ(plan->output_bytes(), 2 * slot);
    EXPECT_EQ(plan->result_offset(0), 0U);  // of five tiles
    for (const std::vector<TaskSpec>& specs : task_specs(*plan, {.output = 0x10000})) {
        for (std::size_t i = 0; i < specs.size(); ++i) {
            EXPECT_TRUE(specs[i].emit_rdma);
            ASSERT_EQ(specs[i].partial_sums.has_value(), i != 0);
            if (i != 0) {
                EXPECT_EQ(*specs[i].partial_sums, specs[i - 1].addresses.output);
                EXPECT_EQ(specs[i].addresses.output + (i % 2 == 0 ? slot : 0),
                          *specs[i].partial_sums + (i % 2 == 0 ? 0 : slot));
            }
        }
    }
}

TEST(Reduction, is_priced_by_what_it_moves_and_what_the_host_need_not_read) {
    const MatmulShape shape{512, 2048, 8192, int8, int32};
    PlanOptions options{.max_k = 2048};
    const auto conditions = rockchip::conditions(rk3588());
    const auto host = best_plan(shape, rk3588(), options, conditions);
    const auto device = best_plan(shape, rk3588(), options, conditions, Reduce::device);
    ASSERT_TRUE(host && device);
    EXPECT_FALSE(host->plan.reduces());
    EXPECT_TRUE(device->plan.reduces());
    std::uint64_t moved = 0;
    for (std::size_t core = 0; core < device->plan.cores.size(); ++core) {
        const auto work = plan_work(device->plan)[core];
        for (std::size_t i = device->plan.cores[core].size(); i < work.size(); ++i) {
            EXPECT_EQ(work[i].macs, 0U);
            EXPECT_EQ(work[i].operand_bytes, 2 * work[i].output_bytes);
            moved += work[i].operand_bytes + work[i].output_bytes;
        }
    }
    EXPECT_EQ(moved, 3ULL * 12 * 512 * 2048);  // three adds, 12 bytes a result
    EXPECT_GT(device->seconds, host->seconds);
    const double per_byte = (host->read_back_seconds - device->read_back_seconds) / (3.0 * 4 * 512 * 2048);
    EXPECT_NEAR(per_byte, 1 / 10.6e9 + 1 / 13.4e9, 1e-15);
}

TEST(Reduction, is_chosen_where_it_is_cheaper_and_its_words_have_two_sources) {
    const auto conditions = rockchip::conditions(rk3588());
    const PlanOptions options{.max_k = 1024};
    const auto chosen = [&](const MatmulShape& shape, Reduce reduce, const PlanOptions& with) {
        const auto plans = search_plans(shape, rk3588(), with, conditions, reduce);
        EXPECT_TRUE(plans);
        EXPECT_TRUE(std::ranges::is_sorted(*plans, {}, &PricedPlan::total));
        return plans->front();
    };
    int on_device = 0;
    int on_host = 0;
    for (const std::uint32_t cores : {1U, 3U}) {
        for (const std::uint32_t m : {1U, 512U}) {
            const MatmulShape shape{m, 2048, 4096, int8, int32};
            PlanOptions with = options;
            with.cores = cores;
            const PricedPlan best = chosen(shape, Reduce::automatic, with);
            const double host = chosen(shape, Reduce::host, with).total();
            const double device = chosen(shape, Reduce::device, with).total();
            EXPECT_EQ(best.total(), std::min(host, device));
            EXPECT_EQ(best.plan.reduces(), device < host);
            on_device += best.plan.reduces() ? 1 : 0;
            on_host += best.plan.reduces() ? 0 : 1;
        }
    }
    EXPECT_GT(on_device, 0);
    EXPECT_GT(on_host, 0);
    const MatmulShape halves{512, 2048, 4096, fp16, fp16};
    EXPECT_FALSE(chosen(halves, Reduce::automatic, options).plan.reduces()) << "one source, and another result";
    EXPECT_TRUE(chosen(halves, Reduce::device, options).plan.reduces());
    const MatmulShape floats{512, 2048, 4096, fp16, Precision::fp32};
    EXPECT_FALSE(chosen(floats, Reduce::device, options).plan.reduces()) << "there is no way";
}

TEST(Reduction, names_are_those_of_the_option) {
    EXPECT_EQ(*reduce_named("host"), Reduce::host);
    EXPECT_EQ(*reduce_named("device"), Reduce::device);
    EXPECT_EQ(*reduce_named("auto"), Reduce::automatic);
    EXPECT_FALSE(reduce_named("chip"));
}

}  // namespace
}  // namespace npu::compile
