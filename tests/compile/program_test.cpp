#include "compile/program.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "rockchip/registers.h"
#include "support.h"

namespace npu::compile {
namespace {

namespace reg = rockchip::reg;
using rockchip::decode;
using rockchip::rk3588;

constexpr Addresses somewhere{.features = 0x10000, .weights = 0x4000000, .output = 0x20000000, .program = 0x1000};
constexpr Addresses elsewhere{.features = 0xa0000010, .weights = 0x50, .output = 0x60000000, .program = 0xf0000040};

TaskSpec small_task() {
    return {.mapping = Mapping::native_wide,
            .input = Precision::fp16,
            .output = Precision::fp32,
            .m = 8,
            .n = 32,
            .k = 64,
            .full_m = 8,
            .data_banks = 1,
            .weight_banks = 11,
            .addresses = {0x1000, 0x2000, 0x3000, 0}};
}

std::map<std::uint16_t, std::uint32_t> registers(const TaskSpec& spec) {
    std::map<std::uint16_t, std::uint32_t> last;
    const Result<std::vector<Command>> body = emit_task(spec, rk3588());
    EXPECT_TRUE(body) << body.error().message;
    for (const Command& command : *body) {
        last[command.offset] = command.value;
    }
    return last;
}

std::string refusal(const TaskSpec& spec) {
    const Result<std::vector<Command>> body = emit_task(spec, rk3588());
    return body ? std::string{"emitted"} : body.error().message;
}

bool mentions(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* word : words) {
        if (text.find(word) == std::string::npos) {
            return false;
        }
    }
    return true;
}

TEST(Task, body_words_are_the_words_of_the_body) {
    for (const bool preamble : {false, true}) {
        for (const bool rdma : {false, true}) {
            TaskSpec spec = small_task();
            spec.vendor_preamble = preamble;
            spec.emit_rdma = rdma;
            EXPECT_EQ(emit_task(spec, rk3588())->size(), body_words(preamble, rdma));
            EXPECT_EQ(enable_bits(spec), rdma ? 0x1dU : 0x0dU);
        }
    }
}

TEST(Task, a_tile_of_native_features_steps_over_all_rows) {
    TaskSpec spec = small_task();
    spec.mapping = Mapping::native_tile;
    spec.m = 36;  // the numbers of a published capture of the vendor's LLM runtime: 36 rows of 96
    spec.full_m = 96;
    auto values = registers(spec);
    EXPECT_EQ(values[reg::CNA::DMA_CON1::offset], 0x60U);
    EXPECT_EQ(values[reg::CNA::DMA_CON2::offset], 60U);
    EXPECT_EQ(values[reg::DPU::DST_SURF_STRIDE::offset], 0x600U);
    spec.input = Precision::int8;
    spec.output = Precision::int32;
    spec.n = 64;
    values = registers(spec);
    EXPECT_EQ(values[reg::DPU::SURFACE_ADD::offset], 0x3000U);
    EXPECT_EQ(reg::CNA::CONV_CON1::GROUP_LINE_OFF.of(values[reg::CNA::CONV_CON1::offset]), 1U);
}

TEST(Task, the_tall_mapping_has_a_signed_surface_stride_below_four_rows) {
    TaskSpec spec = small_task();
    spec.mapping = Mapping::native_tall;
    spec.m = spec.full_m = 1;
    EXPECT_EQ(registers(spec)[reg::CNA::DMA_CON2::offset], 0x0ffffffdU);
    spec.m = spec.full_m = 9;
    EXPECT_EQ(registers(spec)[reg::CNA::DMA_CON2::offset], 5U);
}

TEST(Task, a_value_that_overflows_its_field_is_an_error_with_register_value_and_bound) {
    TaskSpec spec = small_task();
    spec.k = 32;
    spec.m = spec.full_m = 2048;
    spec.data_banks = 4;
    spec.weight_banks = 8;
    EXPECT_TRUE(mentions(refusal(spec), {"CNA.DATA_SIZE0.DATAIN_WIDTH", "0x1020", "2048", "2047"})) << refusal(spec);
    spec.m = spec.full_m = 2047;
    EXPECT_EQ(refusal(spec), "emitted");

    spec = small_task();
    spec.n = 8208;
    EXPECT_TRUE(mentions(refusal(spec), {"DPU.DATA_CUBE_CHANNEL", "8207", "8191"})) << refusal(spec);
    spec = small_task();
    spec.addresses.output = 0x100000000;
    EXPECT_TRUE(mentions(refusal(spec), {"DPU.DST_BASE_ADDR", "4294967296"})) << refusal(spec);
    spec = small_task();
    spec.feature_grains = 1024;
    EXPECT_TRUE(mentions(refusal(spec), {"CNA.CONV_CON2.FEATURE_GRAINS", "1024", "1023"})) << refusal(spec);
    spec = small_task();
    spec.mapping = Mapping::row_major;
    spec.output_arrangement = Arrangement::row_major;
    spec.full_k = 64;
    spec.full_n = 32784;
    EXPECT_TRUE(mentions(refusal(spec), {"DPU.DATA_CUBE_NOTCH_ADDR", "8195", "8191"})) << refusal(spec);
}

TEST(Task, a_meaningless_task_is_refused) {
    const auto changed = [](auto change) {
        TaskSpec spec = small_task();
        change(spec);
        return refusal(spec);
    };
    EXPECT_EQ(changed([](TaskSpec&) {}), "emitted");
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.n = 24; }), {"multiples of 16"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.k = 40; }), {"multiples of", "32"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.m = 0; }), {"M=0"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.k = 8224; }), {"8192", "split K"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.full_m = 9; }), {"native_tile"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.weight_banks = 12; }), {"12 banks in all"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.data_banks = 0; }), {"need 1 data banks"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.addresses.weights = 8; }), {"0x8", "16"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.output_arrangement = Arrangement::row_major; }), {"native_tall"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) { s.input = Precision::int16; }), {"int16"}));
    EXPECT_TRUE(mentions(changed([](TaskSpec& s) {
                             s.mapping = Mapping::plane;
                             s.plane_width = 3;
                         }),
                         {"lines of 3"}));
}

TEST(Program, tails_chain_the_tasks_of_a_core_and_end_with_zeros) {
    for (const bool rdma : {false, true}) {
        const Result<Plan> plan =
            plan_matmul({500, 20000, 9000, Precision::int8, Precision::int32}, rk3588(), {.emit_rdma = rdma});
        const Result<Program> program = build_program(*plan, somewhere, rk3588());
        ASSERT_TRUE(program) << program.error().message;
        ASSERT_EQ(program->tasks.size(), plan->task_count());
        ASSERT_EQ(program->cores.size(), 3U);
        std::uint32_t next_task = 0;
        for (const CoreRange& core : program->cores) {
            EXPECT_EQ(core.first_task, next_task);
            next_task += core.task_count;
            for (std::uint32_t index = core.first_task; index < next_task; ++index) {
                const TaskEntry& task = program->tasks[index];
                EXPECT_EQ(task.word_offset % 8, 0U);
                EXPECT_EQ(task.enable, rdma ? 0x1dU : 0x0dU);
                const std::uint64_t* tail = &program->words[task.word_offset + task.body_words];
                if (index + 1 == next_task) {
                    EXPECT_EQ(tail[0], 0U);
                    EXPECT_EQ(tail[1], 0x0101000000000014U);
                } else {
                    const std::uint64_t next = 0x1000 + program->tasks[index + 1].word_offset * 8ULL;
                    EXPECT_EQ(tail[0], (0x0101ULL << 48) | (next << 16) | 0x10);
                    EXPECT_EQ(tail[1], (0x0101ULL << 48) | ((rdma ? 0x40ULL : 0x37ULL) << 16) | 0x14);
                }
                EXPECT_EQ(tail[2], 0x0041000000000000U);
                EXPECT_EQ(tail[3], rdma ? 0x00810000001d0008U : 0x00810000000d0008U);
            }
        }
    }
}

TEST(Program, every_tile_writes_the_addresses_of_its_first_elements) {
    const Result<Plan> plan = plan_matmul({300, 9000, 10000, Precision::fp16, Precision::fp32}, rk3588(), {});
    const std::vector<std::vector<TaskSpec>> specs = task_specs(*plan, somewhere);
    const Result<Program> program = build_program(*plan, somewhere, rk3588());
    std::size_t index = 0;
    std::set<std::uint64_t> outputs;
    for (std::size_t core = 0; core < plan->cores.size(); ++core) {
        for (std::size_t task = 0; task < plan->cores[core].size(); ++task, ++index) {
            const TaskTile& tile = plan->cores[core][task];
            const KTile& k = plan->k_tiles[tile.k_tile];
            const Addresses& at = specs[core][task].addresses;
            EXPECT_EQ(at.features, 0x10000 + (std::uint64_t{k.k0} / 8 * 300 + tile.m0) * 16);
            EXPECT_EQ(at.weights, 0x4000000 + (std::uint64_t{k.k0} * 9008 + std::uint64_t{tile.n0} * k.k) * 2);
            EXPECT_EQ(at.output, 0x20000000 + tile.k_tile * 300ULL * 9008 * 4 + (tile.n0 / 4 * 300ULL + tile.m0) * 16);
            outputs.insert(at.output);
            std::map<std::uint16_t, std::uint32_t> last;
            const TaskEntry& entry = program->tasks[index];
            for (std::uint32_t word = 0; word < entry.body_words; ++word) {
                last[decode(program->words[entry.word_offset + word]).offset] =
                    decode(program->words[entry.word_offset + word]).value;
            }
            EXPECT_EQ(last[0x1070], at.features);
            EXPECT_EQ(last[0x1110], at.weights);
            EXPECT_EQ(last[0x4020], at.output);
        }
    }
    EXPECT_EQ(outputs.size(), plan->task_count());
}

TEST(Program, a_relocated_program_equals_a_program_built_there) {
    test::Random random(30);
    for (int round = 0; round < 60; ++round) {
        PlanOptions options;
        options.cores = random.between(1, 3);
        options.emit_rdma = random.coin();
        options.vendor_preamble = random.coin();
        options.feature = random.coin() ? Arrangement::native : Arrangement::row_major;
        options.output = random.coin() ? Arrangement::native : Arrangement::row_major;
        const MatmulShape shape{random.logarithmic(300), random.logarithmic(9000), random.logarithmic(9000),
                                Precision::fp16, random.coin() ? Precision::fp16 : Precision::fp32};
        const Result<Plan> plan = plan_matmul(shape, rk3588(), options);
        ASSERT_TRUE(plan) << plan.error().message;
        Result<Program> program = build_program(*plan, somewhere, rk3588());
        ASSERT_TRUE(program) << program.error().message;
        const Result<Program> wanted = build_program(*plan, elsewhere, rk3588());
        ASSERT_TRUE(wanted) << wanted.error().message;
        EXPECT_NE(program->words, wanted->words);
        ASSERT_TRUE(relocate(*program, elsewhere));
        EXPECT_EQ(*program, *wanted);
    }
}

TEST(Program, relocation_writes_address_words_and_no_others) {
    const Result<Plan> plan = plan_matmul({40, 300, 4096, Precision::int8, Precision::int32}, rk3588(), {});
    Result<Program> program = build_program(*plan, somewhere, rk3588());
    const std::vector<std::uint64_t> before = program->words;
    ASSERT_TRUE(relocate(*program, elsewhere));
    std::set<std::uint32_t> listed;
    for (const Relocation& relocation : program->relocations) {
        EXPECT_TRUE(listed.insert(relocation.word).second) << "listed twice";
    }
    for (std::uint32_t word = 0; word < before.size(); ++word) {
        EXPECT_EQ(before[word] != program->words[word], listed.contains(word)) << word;
        EXPECT_EQ(decode(before[word]).offset, decode(program->words[word]).offset);
        EXPECT_EQ(decode(before[word]).target, decode(program->words[word]).target);
    }
}

TEST(Program, bases_that_are_misaligned_or_too_high_are_refused_and_nothing_is_written) {
    const Result<Plan> plan =
        plan_matmul({40, 300, 4096, Precision::int8, Precision::int32}, rk3588(), {.split = Split::rows});
    Addresses wrong = somewhere;
    wrong.weights += 8;
    EXPECT_FALSE(build_program(*plan, wrong, rk3588()));
    wrong = somewhere;
    wrong.program += 16;
    EXPECT_FALSE(build_program(*plan, wrong, rk3588()));
    wrong = somewhere;
    wrong.output = 0x100000000 - plan->output_bytes() + 16;
    const Result<Program> high = build_program(*plan, wrong, rk3588());
    ASSERT_FALSE(high);
    EXPECT_NE(high.error().message.find("output of"), std::string::npos);
    wrong.output -= 16;  // ends exactly at 4 GiB
    EXPECT_TRUE(build_program(*plan, wrong, rk3588()));

    Result<Program> program = build_program(*plan, somewhere, rk3588());
    const std::vector<std::uint64_t> before = program->words;
    wrong = elsewhere;
    wrong.features = 0xfffffff0;
    EXPECT_FALSE(relocate(*program, wrong));
    EXPECT_EQ(program->words, before);
}

}  // namespace
}  // namespace npu::compile
