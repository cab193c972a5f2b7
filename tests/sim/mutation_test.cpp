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

// A field of which some values have no effect, in which programs, and the reason.
struct Silent {
    const char* field;
    const char* programs;  // "all", or words separated by blanks: the programs whose name holds one of them
    const char* reason;
};

const std::vector<Silent> silent_fields{
    {"CNA.CBUF_CON0.WEIGHT_BANK", "all", "fewer weight banks that still hold a group of kernels only cost time"},
};

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
                listed = listed || (field == entry.field && names(entry.programs, name));
            }
            EXPECT_TRUE(listed) << field << " in " << name << ", first value 0x" << std::hex << *values.begin();
        }
    }
    for (const Silent& entry : silent_fields) {
        const auto found = tally.silent.find(entry.field);
        for (const std::string& name : programs) {
            if (names(entry.programs, name)) {
                EXPECT_TRUE(found != tally.silent.end() && found->second.contains(name))
                    << entry.field << " is listed for " << name << " without need";
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
