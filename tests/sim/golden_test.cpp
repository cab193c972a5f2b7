// The published command streams, executed: hardware captures and output of hardware-tested generators. Operand and
// result layouts come from the text in each file, not from the registers.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/float_bits.h"
#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

struct Golden {
    std::string file;
    Matmul shape;
    std::vector<std::vector<std::uint64_t>> tasks;
    std::uint64_t c_surface_bytes = 0;  // 0: dense
};

Precision precision_named(const std::string& name) {
    for (const Precision p : {Precision::int8, Precision::int4, Precision::int16, Precision::fp16, Precision::bf16,
                              Precision::tf32, Precision::int32, Precision::fp32}) {
        if (name == rockchip::info(p).name) {
            return p;
        }
    }
    ADD_FAILURE() << "unknown format " << name;
    return Precision::fp16;
}

std::uint32_t first_value(const std::vector<std::uint64_t>& words, std::uint16_t offset) {
    for (const std::uint64_t word : words) {
        if ((word & 0xffff) == offset && word >> 48 != 0x0101) {
            return static_cast<std::uint32_t>(word >> 16);
        }
    }
    return 0;
}

std::string data_folder() {
    const char* folder = std::getenv("NPU_TEST_DATA");
    return folder == nullptr ? "" : std::string(folder) + "/golden/";
}

Golden load(const std::string& file) {
    const auto json = nlohmann::json::parse(std::ifstream(data_folder() + file));
    Golden golden{.file = file, .shape = {}, .tasks = {}};
    Matmul& shape = golden.shape;
    shape.input = precision_named(json["in"]);
    shape.output = precision_named(json["out"]);
    if (json.contains("OC")) {
        shape.m = json["H"].get<std::uint32_t>() * json["W"].get<std::uint32_t>();
        shape.n = json["OC"];
        shape.k = json["IC"];
    } else {
        shape.m = json["M"];
        shape.n = json["N"];
        shape.k = json["K"];
    }
    const std::string a = json["A_layout"];
    const std::string c = json["C_layout"];
    shape.mapping = a.starts_with("row-major") ? Mapping::row_major : Mapping::native_wide;
    EXPECT_EQ(a.starts_with("row-major"), c.starts_with("row-major")) << file;
    EXPECT_TRUE(a.starts_with("row-major") || a.starts_with("native") || a.starts_with("NC1HWC2")) << a;
    if (const auto stride = c.find("stride 0x"); stride != std::string::npos) {
        golden.c_surface_bytes = std::stoul(c.substr(stride + 7), nullptr, 16);
        EXPECT_EQ(golden.c_surface_bytes, shape.m * 16U) << "the test reads results densely";
    }
    for (const auto& task : json["tasks"]) {
        std::vector<std::uint64_t> words;
        for (const std::string word : task["words"]) {
            words.push_back(std::stoull(word, nullptr, 16));
        }
        golden.tasks.push_back(words);
    }
    shape.a = first_value(golden.tasks[0], 0x1070);
    shape.b = first_value(golden.tasks[0], 0x1110);
    shape.c = first_value(golden.tasks[0], 0x4020);
    return golden;
}

// Where task i of the chain lies: the first one anywhere, the others where the tails say.
std::uint32_t place(const Golden& golden, std::size_t task) {
    const auto& words = task == 0 ? golden.tasks[0] : golden.tasks[task - 1];
    if (task == 0) {
        return 0x0c000000;
    }
    for (const std::uint64_t word : words) {
        if (word >> 48 == 0x0101 && (word & 0xffff) == 0x0010) {
            return static_cast<std::uint32_t>(word >> 16);
        }
    }
    return 0;
}

KickResult run(const Golden& golden, SparseMemory& memory, std::uint32_t first, std::uint32_t count) {
    for (std::size_t task = 0; task < golden.tasks.size(); ++task) {
        memory.map(place(golden, task), golden.tasks[task].size() * 8);
        write_words(memory, place(golden, task), golden.tasks[task]);
    }
    Core core({});
    return core.run(kick_at(place(golden, first), golden.tasks[first].size(), count), memory);
}

const std::vector<std::string>& programs() {
    static const std::vector<std::string> files = [] {
        std::vector<std::string> found;
        if (!data_folder().empty()) {
            for (const auto& entry : std::filesystem::directory_iterator(data_folder())) {
                const std::string name = entry.path().filename();
                if (name.ends_with(".json") && name.find("ewaccum") == std::string::npos) {
                    found.push_back(name);
                }
            }
        }
        std::ranges::sort(found);
        return found;
    }();
    return files;
}

#define NEED_TEST_DATA()                                                                          \
    if (data_folder().empty()) {                                                                  \
        GTEST_SKIP() << "*** NPU_TEST_DATA is not set: the captured programs are NOT tested ***"; \
    }

TEST(GoldenPrograms, AreAllThere) {
    NEED_TEST_DATA();
    EXPECT_EQ(programs().size(), 14U);
}

TEST(GoldenPrograms, ComputeTheProductBitForBitOnRandomFullRangeData) {
    NEED_TEST_DATA();
    std::mt19937 random(1);
    for (const std::string& file : programs()) {
        for (const Range range : {Range::full, Range::moderate}) {
            const Golden golden = load(file);
            SparseMemory memory;
            const Operands operands = random_operands(golden.shape, random, range);
            load_operands(memory, golden.shape, operands);
            const KickResult result = run(golden, memory, 0, static_cast<std::uint32_t>(golden.tasks.size()));
            ASSERT_TRUE(result.finished) << file << "\n" << list_findings(result.findings);
            EXPECT_EQ(result.tasks_finished, golden.tasks.size());
            EXPECT_EQ(read_product(memory, golden.shape), reference_product(golden.shape, operands)) << file;
        }
    }
}

// Without this the comparison above might be comparing nothing.
TEST(GoldenPrograms, GiveAnotherProductWhenOneAddressIsOff) {
    NEED_TEST_DATA();
    std::mt19937 random(2);
    for (const std::string& file : programs()) {
        Golden golden = load(file);
        SparseMemory memory;
        const Operands operands = random_operands(golden.shape, random, Range::moderate);
        load_operands(memory, golden.shape, operands);
        memory.map(golden.shape.b, golden.shape.b_bytes() + 16);
        for (auto& task : golden.tasks) {
            for (std::uint64_t& word : task) {
                if (word >> 48 == 0x0201 && (word & 0xffff) == 0x1110) {
                    word = command_word(0x1110, golden.shape.b + 16);
                }
            }
        }
        const KickResult result = run(golden, memory, 0, static_cast<std::uint32_t>(golden.tasks.size()));
        ASSERT_TRUE(result.finished) << file << "\n" << list_findings(result.findings);
        EXPECT_NE(read_product(memory, golden.shape), reference_product(golden.shape, operands)) << file;
    }
}

// The partial sums of an earlier slice of K are added in the DPU: rounded to fp32, then to the output's fp16.
TEST(GoldenPrograms, WithElementWiseAccumulationAddTheOperandBitForBit) {
    NEED_TEST_DATA();
    const Golden golden = load("rocketgen_f16_f16_M16_K64_N32_ewaccum.json");
    std::mt19937 random(3);
    for (const Range range : {Range::full, Range::moderate}) {
        SparseMemory memory;
        // Sums that a half can hold; addends of every size.
        const Operands operands = random_operands(golden.shape, random, Range::moderate);
        load_operands(memory, golden.shape, operands);
        Matmul partial = golden.shape;  // the same layout as the output
        partial.c = first_value(golden.tasks[0], 0x5018);
        const std::size_t count = std::size_t{partial.m} * partial.n;
        const auto addends = random_codes(Precision::fp16, count, random, range);
        memory.map(partial.c, partial.c_bytes());
        for (std::uint32_t i = 0; i < count; ++i) {
            write_element(memory.at(partial.c), partial.c_bit(i / partial.n, i % partial.n), 16, addends[i]);
        }
        Matmul wide = golden.shape;
        wide.output = Precision::fp32;
        const auto sums = reference_product(wide, operands);
        std::vector<std::uint32_t> wanted;
        std::size_t changed = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const float sum = std::bit_cast<float>(sums[i]);
            const auto total =
                static_cast<float>(static_cast<double>(sum) + half_to_float(static_cast<std::uint16_t>(addends[i])));
            wanted.push_back(float_to_half(total));
            changed += wanted.back() != float_to_half(sum) ? 1U : 0;
        }
        EXPECT_GT(changed, count / 10) << "the operand must matter";
        const KickResult result = run(golden, memory, 0, 1);
        ASSERT_TRUE(result.finished) << list_findings(result.findings);
        EXPECT_EQ(read_product(memory, golden.shape), wanted);
        ASSERT_EQ(result.work.size(), 1U);
        EXPECT_EQ(result.work[0].operand_bytes, count * 2);
    }
}

TEST(GoldenPrograms, ThatReuseWeightsAreRefusedWithoutTheTaskThatLoadsThem) {
    NEED_TEST_DATA();
    const Golden golden = load("conv1x1_f16_c64_h56w56_oc128_2tasks_weight_reuse.json");
    std::mt19937 random(4);
    SparseMemory memory;
    load_operands(memory, golden.shape, random_operands(golden.shape, random, Range::moderate));
    const KickResult result = run(golden, memory, 1, 1);
    EXPECT_FALSE(result.finished);
    EXPECT_TRUE(has_finding(result.findings, Severity::corrupt, {"CBUF_CON0", "WEIGHT_REUSE", "does not exist"}))
        << list_findings(result.findings);
}

TEST(GoldenPrograms, WarnAboutASingleWeightBank) {
    NEED_TEST_DATA();
    const Golden golden = load("conv1x1_f16_c64_h56w56_oc128_2tasks_weight_reuse.json");
    std::mt19937 random(5);
    SparseMemory memory;
    load_operands(memory, golden.shape, random_operands(golden.shape, random, Range::moderate));
    const KickResult result = run(golden, memory, 0, 2);
    EXPECT_TRUE(result.finished);
    EXPECT_TRUE(has_finding(result.findings, Severity::warning, {"weight_bank = 1"}));
    ASSERT_EQ(result.work.size(), 2U);
    EXPECT_EQ(result.work[0].weight_bytes, 16384U);
    EXPECT_EQ(result.work[1].weight_bytes, 0U) << "reused weights are not read again";
}

}  // namespace
}  // namespace npu::sim::test
