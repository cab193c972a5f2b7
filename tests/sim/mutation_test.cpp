// What the machine does not see. In the matmul program of each precision every field of every register is changed, one
// at a time, to several values; then the product must change or the machine must object. Where neither happens, either
// the field has no say in the result, or the machine is blind there. This list says which it is and why; a field that is
// missing in it fails the test, and so does one that does not belong in it any more.
#include <gtest/gtest.h>

#include <random>

#include <array>
#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rockchip/command.h"
#include "rockchip/registers.h"
#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

// Fields of which some values have no effect, in which programs, and the reason. Both are lists separated by blanks; a
// program is named by a part of its name.
struct Silent {
    const char* fields;
    const char* programs;  // "all", or parts of names
    const char* reason;
};

// clang-format off
const std::vector<Silent> silent_fields{
    {"CNA.CBUF_CON0.WEIGHT_BANK", "all", "fewer weight banks that still hold a group of kernels only cost time"},
    {"CNA.CBUF_CON1.DATA_ENTRIES", "int4-int16-wide", "entries of a line: more than it takes is as good"},
    {"CNA.CONV_CON2.FEATURE_GRAINS", "all", "a hint how far to fetch ahead"},
    {"CNA.CONV_CON3.CONV_X_STRIDE", "-rows", "a plane of one column (row) has no next stop"},
    {"CNA.CONV_CON3.CONV_Y_STRIDE", "-wide", "a plane of one column (row) has no next stop"},
    {"CNA.CVT_CON0.CVT_TRUNCATE_0 CNA.CVT_CON0.CVT_TRUNCATE_1 CNA.CVT_CON0.CVT_TRUNCATE_2 CNA.CVT_CON0.CVT_TRUNCATE_3 CNA.CVT_CON0.CVT_TYPE CNA.CVT_CON0.ROUND_TYPE CNA.CVT_CON1.CVT_OFFSET0 CNA.CVT_CON1.CVT_SCALE0 CNA.CVT_CON2.CVT_OFFSET1 CNA.CVT_CON2.CVT_SCALE1 CNA.CVT_CON3.CVT_OFFSET2 CNA.CVT_CON3.CVT_SCALE2 CNA.CVT_CON4.CVT_OFFSET3 CNA.CVT_CON4.CVT_SCALE3 CNA.CVT_CON5.PER_CHANNEL_CVT_EN", "all", "the input converter is bypassed"},
    {"CNA.CVT_CON0.DATA_SIGN", "bf16-fp32 fp16-fp16 fp16-fp32 tf32-fp32", "the input converter is bypassed"},
    {"CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL", "all", "captured programs hold its low six bits only; no effect is known"},
    {"CNA.DCOMP_AMOUNT0.DCOMP_AMOUNT0 CNA.DCOMP_AMOUNT1.DCOMP_AMOUNT1 CNA.DCOMP_AMOUNT10.DCOMP_AMOUNT10 CNA.DCOMP_AMOUNT11.DCOMP_AMOUNT11 CNA.DCOMP_AMOUNT12.DCOMP_AMOUNT12 CNA.DCOMP_AMOUNT13.DCOMP_AMOUNT13 CNA.DCOMP_AMOUNT14.DCOMP_AMOUNT14 CNA.DCOMP_AMOUNT15.DCOMP_AMOUNT15 CNA.DCOMP_AMOUNT2.DCOMP_AMOUNT2 CNA.DCOMP_AMOUNT3.DCOMP_AMOUNT3 CNA.DCOMP_AMOUNT4.DCOMP_AMOUNT4 CNA.DCOMP_AMOUNT5.DCOMP_AMOUNT5 CNA.DCOMP_AMOUNT6.DCOMP_AMOUNT6 CNA.DCOMP_AMOUNT7.DCOMP_AMOUNT7 CNA.DCOMP_AMOUNT8.DCOMP_AMOUNT8 CNA.DCOMP_AMOUNT9.DCOMP_AMOUNT9 CNA.DCOMP_REGNUM.DCOMP_REGNUM", "all", "used by compressed weights only"},
    {"CNA.DMA_CON0.DATA_BURST_LEN CNA.DMA_CON0.OV4K_BYPASS CNA.DMA_CON0.WEIGHT_BURST_LEN", "all", "burst lengths"},
    {"CNA.DMA_CON1.LINE_STRIDE", "-wide", "a plane of one line has no next line"},
    {"CNA.PAD_CON1.PAD_VALUE", "all", "there is no padding"},
    {"CORE.CLIP_TRUNCATE.ROUND_TYPE", "all", "nothing is shifted out"},
    {"CORE.MISC_CFG.QD_EN CORE.MISC_CFG.SOFT_GATING", "all", "used by the OW stage, which is bypassed; and power saving"},
    {"DPU.BN_CFG.BN_ALU_ALGO DPU.BN_CFG.BN_ALU_BYPASS DPU.BN_CFG.BN_ALU_SRC DPU.BN_CFG.BN_BYPASS DPU.BN_CFG.BN_MUL_BYPASS DPU.BN_CFG.BN_MUL_PRELU DPU.BN_CFG.BN_RELUX_EN DPU.BN_CFG.BN_RELU_BYPASS DPU.BS_CFG.BS_ALU_ALGO DPU.BS_CFG.BS_ALU_BYPASS DPU.BS_CFG.BS_ALU_SRC DPU.BS_CFG.BS_BYPASS DPU.BS_CFG.BS_MUL_BYPASS DPU.BS_CFG.BS_MUL_PRELU DPU.BS_CFG.BS_RELUX_EN DPU.BS_CFG.BS_RELU_BYPASS DPU.EW_CFG.EDATA_SIZE DPU.EW_CFG.EW_ALU_ALGO DPU.EW_CFG.EW_BINARY_EN DPU.EW_CFG.EW_BYPASS DPU.EW_CFG.EW_CVT_ROUND DPU.EW_CFG.EW_CVT_TYPE DPU.EW_CFG.EW_DATA_MODE DPU.EW_CFG.EW_EQUAL_EN DPU.EW_CFG.EW_LUT_BYPASS DPU.EW_CFG.EW_MUL_PRELU DPU.EW_CFG.EW_OP_BYPASS DPU.EW_CFG.EW_OP_CVT_BYPASS DPU.EW_CFG.EW_OP_SRC DPU.EW_CFG.EW_OP_TYPE DPU.EW_CFG.EW_RELUX_EN DPU.EW_CFG.EW_RELU_BYPASS", "all", "the stage is bypassed, by one bit or by the others"},
    {"DPU.BS_OW_CFG.OD_BYPASS DPU.BS_OW_CFG.OW_SRC DPU.BS_OW_OP.OW_OP", "all", "OW is bypassed or its operand is 0"},
    {"DPU.DATA_CUBE_NOTCH_ADDR.NOTCH_ADDR_0 DPU.DATA_CUBE_NOTCH_ADDR.NOTCH_ADDR_1", "-wide", "a cube of one line has no gap between lines"},
    {"DPU.DATA_FORMAT.BN_MUL_SHIFT_VALUE_NEG DPU.DATA_FORMAT.BS_MUL_SHIFT_VALUE_NEG DPU.DATA_FORMAT.EW_TRUNCATE_NEG", "all", "shifts of stages that are bypassed"},
    {"DPU.FEATURE_MODE_CFG.BURST_LEN", "all", "burst length"},
    {"DPU.OFFSET_PEND.OFFSET_PEND", "all", "there are no padded channels"},
    {"DPU.OUT_CVT_SCALE.FP32TOFP16_EN", "int4-int16", "for float results"},
    {"DPU.OUT_CVT_SCALE.OUT_CVT_SCALE", "bf16-fp32 fp16-fp32 tf32-fp32", "fp32 results are not scaled"},
    {"DPU.OUT_CVT_SHIFT.CVT_ROUND DPU.OUT_CVT_SHIFT.MINUS_EXP", "int4-int16 int8-int32 int8-int8", "nothing is shifted, or the value is for the other kind of results"},
    {"DPU.OUT_CVT_SHIFT.CVT_TYPE", "all", "nothing is shifted, or the value is for the other kind of results"},
    {"DPU.S_POINTER.EXECUTER DPU.S_POINTER.POINTER DPU.S_POINTER.POINTER_PP_MODE", "all", "only the alternate and clear bits are for software"},
    {"DPU_RDMA.BN_BASE_ADDR.BN_BASE_ADDR DPU_RDMA.BS_BASE_ADDR.BS_BASE_ADDR DPU_RDMA.DATA_CUBE_CHANNEL.CHANNEL DPU_RDMA.DATA_CUBE_HEIGHT.EW_LINE_NOTCH_ADDR DPU_RDMA.DATA_CUBE_HEIGHT.HEIGHT DPU_RDMA.DATA_CUBE_WIDTH.WIDTH DPU_RDMA.ERDMA_CFG.ERDMA_DATA_MODE DPU_RDMA.ERDMA_CFG.ERDMA_DATA_SIZE DPU_RDMA.ERDMA_CFG.ERDMA_NONALIGN DPU_RDMA.ERDMA_CFG.ERDMA_SURF_MODE DPU_RDMA.ERDMA_CFG.OV4K_BYPASS DPU_RDMA.EW_BASE_ADDR.EW_BASE_ADDR DPU_RDMA.EW_SURF_NOTCH.EW_SURF_NOTCH DPU_RDMA.EW_SURF_STRIDE.EW_SURF_STRIDE DPU_RDMA.FEATURE_MODE_CFG.BURST_LEN DPU_RDMA.FEATURE_MODE_CFG.COMB_USE DPU_RDMA.FEATURE_MODE_CFG.CONV_MODE DPU_RDMA.FEATURE_MODE_CFG.IN_PRECISION DPU_RDMA.FEATURE_MODE_CFG.MRDMA_FP16TOFP32_EN DPU_RDMA.FEATURE_MODE_CFG.PROC_PRECISION DPU_RDMA.PAD_CFG.PAD_LEFT DPU_RDMA.PAD_CFG.PAD_TOP DPU_RDMA.PAD_CFG.PAD_VALUE DPU_RDMA.SRC_BASE_ADDR.SRC_BASE_ADDR DPU_RDMA.SRC_DMA_CFG.KERNEL_HEIGHT DPU_RDMA.SRC_DMA_CFG.KERNEL_STRIDE_HEIGHT DPU_RDMA.SRC_DMA_CFG.KERNEL_STRIDE_WIDTH DPU_RDMA.SRC_DMA_CFG.KERNEL_WIDTH DPU_RDMA.SRC_DMA_CFG.LINE_NOTCH_ADDR DPU_RDMA.SRC_DMA_CFG.POOLING_METHOD DPU_RDMA.SRC_DMA_CFG.UNPOOLING_EN DPU_RDMA.SURF_NOTCH.SURF_NOTCH_ADDR DPU_RDMA.WEIGHT.B_WEIGHT DPU_RDMA.WEIGHT.E_WEIGHT DPU_RDMA.WEIGHT.M_WEIGHT DPU_RDMA.WEIGHT.N_WEIGHT", "-rdma-", "the block is started with its reads disabled"},
    {"DPU_RDMA.S_POINTER.EXECUTER DPU_RDMA.S_POINTER.POINTER DPU_RDMA.S_POINTER.POINTER_PP_MODE", "-rdma-", "only the alternate and clear bits are for software"},
};
// clang-format on

struct Case {
    std::string name;
    Matmul matmul;
    Range range = Range::full;
    bool rdma = false;  // as generators for the mainline driver: with the DPU_RDMA block, disabled
};

std::vector<Case> cases() {
    const auto matmul = [](Precision input, Precision output, std::uint32_t k, std::uint32_t n, Mapping mapping) {
        Matmul result;
        result.input = input;
        result.output = output;
        result.m = 16;
        result.k = k;
        result.n = n;
        result.mapping = mapping;
        return result;
    };
    std::vector<Case> all;
    for (const Mapping mapping : {Mapping::row_major, Mapping::native_wide}) {
        const char* suffix = mapping == Mapping::row_major ? "-rows" : "-wide";
        const auto add = [&](const std::string& name, Precision input, Precision output, std::uint32_t k,
                             std::uint32_t n, Range range, bool rdma = false) {
            all.push_back({name + suffix, matmul(input, output, k, n, mapping), range, rdma});
        };
        add("fp16-fp32", Precision::fp16, Precision::fp32, 64, 32, Range::full);
        add("fp16-fp16", Precision::fp16, Precision::fp16, 64, 32, Range::moderate);
        add("fp16-fp16-rdma", Precision::fp16, Precision::fp16, 64, 32, Range::moderate, true);
        add("int8-int32", Precision::int8, Precision::int32, 64, 64, Range::full);
        add("int8-int8", Precision::int8, Precision::int8, 64, 64, Range::full);
        add("int4-int16", Precision::int4, Precision::int16, 64, 128, Range::full);
        add("bf16-fp32", Precision::bf16, Precision::fp32, 64, 32, Range::moderate);
        add("tf32-fp32", Precision::tf32, Precision::fp32, 32, 32, Range::moderate);
    }
    return all;
}

Program program_of(const Case& made) {
    Program program = matmul_program(made.matmul);
    if (made.matmul.output == Precision::int8) {  // sums of 64 products to the range of an int8, with ties
        program.set(0x4080, 3);
        program.set(0x4084, 1);
        program.set(0x4088, 8);
    }
    if (made.rdma) {
        program.set(0x5004, 0xe);
        program.set(0x500c, program.get(0x4030));
        program.set(0x5010, program.get(0x4034));
        program.set(0x5014, made.matmul.n - 1);
        for (const std::uint16_t offset :
             {0x5018, 0x501c, 0x5020, 0x5028, 0x502c, 0x5038, 0x5040, 0x5048, 0x504c, 0x5064, 0x506c}) {
            program.set(offset, 0);
        }
        program.set(0x5034, 1);
        program.set(0x5044, 0x7818);
        program.set(0x5068, 0x01010101);
    }
    return program;
}

// Runs changed programs on the same operands. They run in the middle of a chain, between sound tasks with other addresses:
// a task alone cannot show which register group runs, nor whether something old was used again.
class Bench {
  public:
    explicit Bench(const Case& made) : tasks_{made, made, made} {
        std::mt19937 random(6);
        for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
            Matmul& matmul = tasks_[i].matmul;
            for (std::uint32_t* address : {&matmul.a, &matmul.b, &matmul.c}) {
                *address += i * 0x01000000;
            }
            load_operands(memory_, matmul, random_operands(matmul, random, made.range));
            memory_.map(list_of(i), 4096);
            inputs_.emplace_back(matmul.a, copy(matmul.a, matmul.a_bytes()));
            inputs_.emplace_back(matmul.b, copy(matmul.b, matmul.b_bytes()));
        }
    }

    // The register list in the middle.
    [[nodiscard]] Program program() const { return program_of(tasks_[1]); }

    struct Answer {
        std::vector<std::byte> output;  // of all tasks
        std::vector<Finding> findings;
    };
    Answer run(const Program& changed) {
        for (const auto& [iova, bytes] : inputs_) {
            std::memcpy(memory_.at(iova), bytes.data(), bytes.size());
        }
        const std::uint32_t enable = tasks_[0].rdma ? 0x1d : 0x0d;
        std::uint32_t next = 0;
        std::uint32_t next_words = 0;
        for (std::uint32_t i = static_cast<std::uint32_t>(tasks_.size()); i-- > 0;) {
            memory_.fill(tasks_[i].matmul.c, std::byte{0xee}, tasks_[i].matmul.c_bytes());
            const auto words = (i == 1 ? changed : program_of(tasks_[i])).words(enable, next, next_words);
            next = list_of(i);
            next_words = static_cast<std::uint32_t>(words.size());
            write_words(memory_, next, words);
        }
        Core core(CoreOptions{});
        Answer answer;
        answer.findings = core.run(kick_at(next, next_words, 3), memory_).findings;
        for (const Case& task : tasks_) {
            const std::vector<std::byte> one = copy(task.matmul.c, task.matmul.c_bytes());
            answer.output.insert(answer.output.end(), one.begin(), one.end());
        }
        return answer;
    }

  private:
    static std::uint32_t list_of(std::uint32_t task) { return 0x1000 * (task + 1); }
    [[nodiscard]] std::vector<std::byte> copy(std::uint32_t iova, std::uint64_t bytes) const {
        return {memory_.at(iova), memory_.at(iova) + bytes};
    }

    std::array<Case, 3> tasks_;
    SparseMemory memory_;
    std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> inputs_;
};

// Every bit flipped, one more, one less, nothing, everything.
std::set<std::uint32_t> other_values(std::uint32_t value, unsigned bits) {
    const std::uint32_t maximum = bits == 32 ? 0xffffffffU : (1U << bits) - 1;
    std::set<std::uint32_t> values{(value + 1) & maximum, (value - 1) & maximum, 0, maximum};
    for (unsigned bit = 0; bit < bits; ++bit) {
        values.insert(value ^ (1U << bit));
    }
    values.erase(value);
    return values;
}

// Registers that the body of a program writes.
std::set<std::uint16_t> offsets_of(const Program& program) {
    std::set<std::uint16_t> offsets;
    const auto words = program.words();
    for (std::size_t i = 0; i + rockchip::tail_words < words.size(); ++i) {
        offsets.insert(rockchip::decode(words[i]).offset);
    }
    return offsets;
}

std::string field_name(const rockchip::RegisterInfo& info, const rockchip::FieldInfo& field) {
    return std::string(rockchip::block_name(info.block)) + "." + info.name + "." + field.name;
}

struct Tally {
    std::size_t fields = 0;
    std::size_t values = 0;
    std::map<std::string, std::map<std::string, std::set<std::uint32_t>>> silent;  // field, program, values
};

void mutate(const Case& made, Tally& tally) {
    Bench bench(made);
    const Program program = bench.program();
    const Bench::Answer sound = bench.run(program);
    ASSERT_TRUE(sound.findings.empty()) << made.name << ": " << list_findings(sound.findings);
    for (const std::uint16_t offset : offsets_of(program)) {
        const rockchip::RegisterInfo& info = *rockchip::find_register(offset);
        for (const rockchip::FieldInfo& field : info.fields) {
            ++tally.fields;
            const rockchip::Field place = rockchip::field_of(info, field);
            const std::uint32_t original = program.get(info.offset);
            for (const std::uint32_t value : other_values(place.of(original), field.high - field.low + 1U)) {
                ++tally.values;
                Program changed = program;
                changed.set(info.offset, (original & ~(place.maximum() << place.low)) | value << place.low);
                const Bench::Answer answer = bench.run(changed);
                if (answer.findings.empty() && answer.output == sound.output) {
                    tally.silent[field_name(info, field)][made.name].insert(value);
                }
            }
        }
    }
}

bool holds(const std::string& list, const std::string& wanted) {
    std::istringstream words(list);
    for (std::string word; words >> word;) {
        if (word == wanted) {
            return true;
        }
    }
    return false;
}

bool names(const std::string& list, const std::string& name) {
    std::istringstream words(list);
    for (std::string word; words >> word;) {
        if (word == "all" || name.find(word) != std::string::npos) {
            return true;
        }
    }
    return false;
}

TEST(MutationTest, EveryFieldOfTheMatmulProgramsChangesTheResultOrIsObjectedToOrIsListed) {
    Tally tally;
    std::set<std::string> programs;
    for (const Case& made : cases()) {
        mutate(made, tally);
        programs.insert(made.name);
    }
    std::cout << tally.values << " changed values of " << tally.fields << " fields in " << cases().size()
              << " programs. Neither a changed result nor an objection:\n";
    for (const auto& [field, where] : tally.silent) {
        std::string text;
        for (const auto& [name, values] : where) {
            text += " " + name + " (" + std::to_string(values.size()) + ")";
        }
        std::cout << "  " << field << ":" << (where.size() == programs.size() ? " all" : text) << "\n";
        for (const auto& [name, values] : where) {
            bool listed = false;
            for (const Silent& entry : silent_fields) {
                listed = listed || (holds(entry.fields, field) && names(entry.programs, name));
            }
            EXPECT_TRUE(listed) << field << " in " << name << ", first value 0x" << std::hex << *values.begin();
        }
    }
    for (const Silent& entry : silent_fields) {
        std::istringstream fields(entry.fields);
        for (std::string field; fields >> field;) {
            const auto found = tally.silent.find(field);
            for (const std::string& name : programs) {
                if (names(entry.programs, name)) {
                    EXPECT_TRUE(found != tally.silent.end() && found->second.contains(name))
                        << field << " is listed for " << name << " without need";
                }
            }
        }
    }
}

// The test above can fail: a machine that ignores everything would be silent everywhere.
TEST(MutationTest, AnUnchangedProgramIsSilentAndAChangedAddressIsNot) {
    const Case made = cases().front();
    Bench bench(made);
    const Program program = bench.program();
    const Bench::Answer sound = bench.run(program);
    EXPECT_EQ(bench.run(program).output, sound.output);
    Program moved = program;
    moved.set(0x1070, program.get(0x1070) + 16);
    const Bench::Answer answer = bench.run(moved);
    EXPECT_TRUE(answer.output != sound.output || !answer.findings.empty());
    Program forgotten = program;
    forgotten.set(0x4050, 0);
    EXPECT_FALSE(bench.run(forgotten).findings.empty());
}

}  // namespace
}  // namespace npu::sim::test
