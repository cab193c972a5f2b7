// Our programs against captured and published ones, register by register and in write order. Every difference is
// listed with its reason; one that is not listed fails, and so does a listed one that does not occur.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "compile/program.h"
#include "compile/tiling.h"
#include "rockchip/registers.h"
#include "support.h"

namespace npu::compile {
namespace {

using rockchip::rk3588;

struct Difference {
    std::size_t task;
    std::uint16_t offset;
    std::uint32_t ours;
    std::uint32_t theirs;
    const char* reason;
};

constexpr const char* qd_off = "QD_EN: vendor fp16-to-fp16 programs and some generators write 0; unused in a matmul";
constexpr const char* spare_bank = "bank split: we keep a spare data bank for int8";
constexpr const char* od_bypass = "OD_BYPASS: this capture alone leaves it 0; generators set it and work";
constexpr const char* grains = "feature grains: the vendor prefetches 10 lines of an image, we allow all of them";
constexpr const char* channel_real = "CHANNEL_REAL: vendor convolutions write only the low six bits";

struct Golden {
    const char* file;
    Mapping mapping;
    Arrangement output;
    bool vendor_preamble;
    bool emit_rdma;
    std::vector<Difference> differences;
};

constexpr Arrangement native = Arrangement::native;
constexpr Arrangement row_major = Arrangement::row_major;

const std::vector<Golden>& built() {
    static const std::vector<Golden> table{
        {"matmul_f16_f16_M8_K32_N64_native",
         Mapping::native_wide,
         native,
         true,
         false,
         {{0, 0x3010, 0x201, 0x200, qd_off}}},
        {"matmul_f16_f32_M4_K32_N16_rowmajor", Mapping::row_major, row_major, true, false, {}},
        {"matmul_i8_i32_M4_K32_N32_rowmajor",
         Mapping::row_major,
         row_major,
         true,
         false,
         {{0, 0x1040, 0xa2, 0xb1, spare_bank}, {0, 0x4050, 0x7fe, 0x7fc, od_bypass}}},
        {"conv1x1_f16_c256_h14w14_oc512",
         Mapping::plane,
         native,
         true,
         false,
         {{0, 0x1010, 0xf0, 0xa0, grains},
          {0, 0x1024, 0x00ff0100, 0x003f0100, channel_real},
          {0, 0x3010, 0x201, 0x200, qd_off}}},
        {"conv1x1_f16_c64_h56w56_oc128_2tasks_weight_reuse",
         Mapping::plane,
         native,
         true,
         false,
         {{0, 0x1010, 0x330, 0xa0, grains}, {0, 0x3010, 0x201, 0x200, qd_off}, {1, 0x3010, 0x201, 0x200, qd_off}}},
        {"mtx512gen_f16_f16_M8_K64_N32", Mapping::native_tall, native, false, false, {}},
        {"mtx512gen_f16_f32_M4_K64_N16", Mapping::native_tall, native, false, false, {}},
        {"mtx512gen_i8_i32_M8_K64_N64",
         Mapping::native_tall,
         native,
         false,
         false,
         {{0, 0x1040, 0xa2, 0xb1, spare_bank}, {0, 0x3010, 0x001, 0x000, qd_off}}},
        {"rocketgen_f16_f16_M8_K64_N32", Mapping::native_tall, native, false, true, {}},
        {"rocketgen_f16_f32_M8_K64_N32", Mapping::native_tall, native, false, true, {}},
        {"matmul_i4_i16_M1_K64_N64_native_task0", Mapping::native_wide, native, true, false, {}},
        {"rocketgen_i4_i16_M8_K64_N128",
         Mapping::native_tall,
         native,
         false,
         true,
         {{0, 0x3010, 0x601, 0x600, qd_off}}},
        {"rocketgen_f16_f16_M16_K64_N32_ewaccum", Mapping::native_tall, native, false, true, {}},
        {"rocketgen_tf32_f32_M8_K32_N32", Mapping::native_tall, native, false, true, {}},
        {"rocketgen_i8_i32_M8_K64_N64", Mapping::native_tall, native, false, true, {{0, 0x3010, 0x001, 0x000, qd_off}}},
    };
    return table;
}

nlohmann::json load(const std::string& name) {
    std::ifstream file(test::golden_folder() / (name + ".json"));
    EXPECT_TRUE(file) << name;
    return nlohmann::json::parse(file);
}

std::uint32_t number(const nlohmann::json& text) {
    return static_cast<std::uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

std::vector<Command> commands_of(const nlohmann::json& task) {
    static const std::map<std::string, std::uint16_t> targets{{"CNA", rockchip::target::cna},
                                                              {"CORE", rockchip::target::core},
                                                              {"DPU", rockchip::target::dpu},
                                                              {"RDMA", rockchip::target::dpu_rdma}};
    std::vector<Command> commands;
    for (const nlohmann::json& write : task["regs"]) {
        commands.push_back({targets.at(write[0]), static_cast<std::uint16_t>(number(write[1])), number(write[2])});
    }
    return commands;
}

using Registers = std::map<std::uint16_t, std::uint32_t>;

Registers last_writes(const std::vector<Command>& commands) {
    Registers registers;
    for (const Command& command : commands) {
        registers[command.offset] = command.value;
    }
    return registers;
}

std::string difference_text(std::uint16_t offset, std::uint32_t ours, std::uint32_t theirs) {
    const rockchip::RegisterInfo* info = rockchip::find_register(offset);
    return format("%s 0x%04x: ours 0x%x, theirs 0x%x", info == nullptr ? "?" : info->name, offset, ours, theirs);
}

// Differences of the last write per register, and the first difference of the sequence of writes, as text.
std::set<std::string> compare(const std::vector<Command>& ours, const std::vector<Command>& theirs) {
    std::set<std::string> found;
    const Registers our_values = last_writes(ours);
    const Registers their_values = last_writes(theirs);
    for (const auto& [offset, value] : their_values) {
        const auto ours_at = our_values.find(offset);
        if (ours_at == our_values.end()) {
            found.insert(format("0x%04x: we do not write it", offset));
        } else if (ours_at->second != value) {
            found.insert(difference_text(offset, ours_at->second, value));
        }
    }
    for (const auto& [offset, value] : our_values) {
        if (!their_values.contains(offset)) {
            found.insert(format("0x%04x: they do not write it", offset));
        }
    }
    for (std::size_t index = 0; index < std::max(ours.size(), theirs.size()); ++index) {
        if (index >= ours.size() || index >= theirs.size() || ours[index].offset != theirs[index].offset ||
            ours[index].target != theirs[index].target) {
            found.insert(format("write order differs from word %zu", index));
            break;
        }
    }
    return found;
}

Precision precision_named(const std::string& name) {
    static const std::map<std::string, Precision> names{
        {"int4", Precision::int4}, {"int16", Precision::int16}, {"tf32", Precision::tf32}, {"int8", Precision::int8},
        {"fp16", Precision::fp16}, {"int32", Precision::int32}, {"fp32", Precision::fp32}};
    return names.at(name);
}

// What we would build for the shape that the file declares. Of the captured registers only the base addresses are
// used, the number of lines per tile of an image, and that its tiles share the first tile's bank split.
std::vector<TaskSpec> specs_for(const Golden& golden, const nlohmann::json& file) {
    const bool image = golden.mapping == Mapping::plane;
    const PlanOptions options;
    TaskSpec spec{.mapping = golden.mapping,
                  .output_arrangement = golden.output,
                  .input = precision_named(file["in"]),
                  .output = precision_named(file["out"]),
                  .n = file[image ? "OC" : "N"],
                  .k = file[image ? "IC" : "K"]};
    spec.plane_width = image ? file["W"].get<std::uint32_t>() : 0;
    spec.full_m = image ? spec.plane_width * file["H"].get<std::uint32_t>() : file["M"].get<std::uint32_t>();
    spec.full_n = spec.n;
    spec.full_k = spec.k;
    spec.vendor_preamble = golden.vendor_preamble;
    spec.emit_rdma = golden.emit_rdma;

    const Registers first = last_writes(commands_of(file["tasks"][0]));
    const FeatureLayout features{spec.input, Arrangement::native, spec.full_m, spec.k};
    const OutputLayout output{spec.output, Arrangement::native, spec.full_m, spec.n};
    std::vector<TaskSpec> specs;
    std::uint32_t m0 = 0;
    for (const nlohmann::json& task : file["tasks"]) {
        const std::uint32_t lines = last_writes(commands_of(task)).at(0x1020) & 0x7ff;
        spec.m = image ? lines * spec.plane_width : spec.full_m;
        const PlaneSize plane = plane_size(spec);
        if (m0 == 0) {
            spec.data_banks = data_banks(plane.width, plane.height, spec.k, spec.input, rk3588(), options);
            spec.weight_banks = 12 - spec.data_banks;
        }
        spec.weight_reuse = m0 != 0;
        spec.addresses = {.features = first.at(0x1070) + features.offset(m0, 0),
                          .weights = first.at(0x1110),
                          .output = first.at(0x4020) + output.offset(m0, 0)};
        if (first.contains(0x5018) && first.at(0x5018) != 0) {
            spec.partial_sums = first.at(0x5018) + output.offset(m0, 0);
        }
        specs.push_back(spec);
        m0 += spec.m;
    }
    return specs;
}

class GoldenPrograms : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!std::filesystem::is_directory(test::golden_folder())) {
            GTEST_SKIP() << "NOT COMPARED with captured programs: set NPU_TEST_DATA to the folder that holds golden/";
        }
    }
};

TEST_F(GoldenPrograms, agree_with_ours_except_for_listed_differences) {
    for (const Golden& golden : built()) {
        const nlohmann::json file = load(golden.file);
        const std::vector<TaskSpec> specs = specs_for(golden, file);
        for (std::size_t task = 0; task < specs.size(); ++task) {
            const Result<std::vector<Command>> ours = emit_task(specs[task], rk3588());
            ASSERT_TRUE(ours) << golden.file << ": " << ours.error().message;
            std::set<std::string> expected;
            for (const Difference& difference : golden.differences) {
                if (difference.task == task) {
                    expected.insert(difference_text(difference.offset, difference.ours, difference.theirs));
                }
            }
            EXPECT_EQ(compare(*ours, commands_of(file["tasks"][task])), expected) << golden.file << " task " << task;
        }
    }
}

TEST_F(GoldenPrograms, are_all_compared) {
    std::set<std::string> listed;
    for (const Golden& golden : built()) {
        listed.insert(golden.file);
    }
    std::set<std::string> present;
    for (const auto& entry : std::filesystem::directory_iterator(test::golden_folder())) {
        if (entry.path().extension() == ".json") {
            present.insert(entry.path().stem());
        }
    }
    EXPECT_EQ(present, listed);
}

TEST_F(GoldenPrograms, of_two_tasks_are_chained_with_the_same_tails) {
    const Golden& golden = built()[4];
    const nlohmann::json file = load(golden.file);
    const std::vector<std::vector<TaskSpec>> cores{specs_for(golden, file)};
    Addresses bases = cores[0][0].addresses;
    bases.program = 0xfff9c800;  // the captured program follows itself at 0xfff9cb80, 0x380 bytes on
    const Result<Program> program = link_program(cores, bases, rk3588());
    ASSERT_TRUE(program) << program.error().message;
    ASSERT_EQ(program->tasks.size(), 2U);
    for (std::size_t task = 0; task < 2; ++task) {
        for (std::size_t word = 0; word < 4; ++word) {
            const std::string theirs = file["tasks"][task]["tail"][word];
            const TaskEntry& entry = program->tasks[task];
            EXPECT_EQ(program->words[entry.word_offset + entry.body_words + word], std::stoull(theirs, nullptr, 16));
        }
    }
}

TEST_F(GoldenPrograms, comparison_notices_a_changed_value_a_missing_write_and_another_order) {  // positive control
    const Golden& golden = built()[1];
    const nlohmann::json file = load(golden.file);
    const std::vector<Command> theirs = commands_of(file["tasks"][0]);
    const std::vector<Command> ours = *emit_task(specs_for(golden, file)[0], rk3588());
    EXPECT_TRUE(compare(ours, theirs).empty());
    std::vector<Command> changed = ours;
    changed[40].value ^= 1;
    EXPECT_EQ(compare(changed, theirs).size(), 1U);
    changed = ours;
    changed.pop_back();
    EXPECT_EQ(compare(changed, theirs).size(), 2U);  // the register, and the sequence
    changed = ours;
    std::swap(changed[60], changed[70]);
    EXPECT_EQ(compare(changed, theirs).size(), 1U);
}

}  // namespace
}  // namespace npu::compile
