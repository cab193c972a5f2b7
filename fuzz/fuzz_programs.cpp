// Command programs as data: the disassembler, the assembler and the checker over words and text that may be anything.
//
// Beyond not crashing: the text of a word assembles to that word, and what the assembler accepts it can print and read
// again.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/input.h"
#include "fuzz/programs.h"
#include "rockchip/assembler.h"
#include "rockchip/checker.h"
#include "rockchip/disassembler.h"

namespace npu::fuzz {
namespace {

constexpr Places places{.features = 0x00100000, .weights = 0x00200000, .outputs = 0x00300000, .operands = 0x00400000};

[[noreturn]] void fail(const char* what, const std::string& text) {
    std::fprintf(stderr, "broken promise: %s: %s\n", what, text.c_str());
    std::abort();
}

void read_text(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const auto words = rockchip::assemble_line(text.substr(0, end));
        if (words) {
            for (const std::uint64_t word : *words) {
                const std::string line = rockchip::assembly_text(word);
                const auto again = rockchip::assemble_line(line);
                if (!again || again->size() != 1 || again->front() != word) {
                    fail("what the assembler accepts it can print and read again", line);
                }
            }
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void read_words(const std::vector<std::uint64_t>& words) {
    (void)rockchip::disassemble(words, words.size() % 2 == 0);
    (void)rockchip::split_tasks(words);
    for (const std::uint64_t word : words) {
        const std::string line = rockchip::assembly_text(word);
        const auto again = rockchip::assemble_line(line);
        if (!again || again->size() != 1 || again->front() != word) {
            fail("the text of a word assembles to that word", line);
        }
    }
}

void check(Input& input, const std::vector<std::uint64_t>& words, std::uint32_t body_words) {
    const std::uint64_t bytes = words.size() * 8;
    const std::array<rockchip::CheckBuffer, 5> buffers{{{0x1000, bytes, false},
                                                        {places.features, place_bytes, false},
                                                        {places.weights, place_bytes, false},
                                                        {places.outputs, place_bytes, true},
                                                        {places.operands, place_bytes, false}}};
    rockchip::CheckInput job;
    job.words = words;
    job.words_iova = input.one_in(16) ? input.edge() : 0x1000;
    job.first_word = input.one_in(16) ? input.draw<std::uint16_t>() : 0;
    job.body_words = input.one_in(16) ? input.draw<std::uint32_t>() : body_words;
    job.task_number = 1 + input.index(4);
    job.interrupt_mask = input.one_in(16) ? input.draw<std::uint32_t>() : rockchip::interrupt_dpu;
    const std::uint32_t how = input.draw<std::uint8_t>();
    job.mainline_driver = (how & 1U) != 0;
    job.batched = (how & 2U) != 0;
    job.words_iova_known = (how & 12U) != 12;
    if ((how & 48U) != 48) {
        job.buffers = buffers;
    }
    (void)rockchip::check_program(job, rockchip::rk3588());
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace npu;
    fuzz::Input input(data, size);
    std::vector<std::uint64_t> words;
    switch (input.index(4)) {
        case 0: {
            const auto text = input.take_rest();
            fuzz::read_text({reinterpret_cast<const char*>(text.data()), text.size()});
            return 0;
        }
        case 1: {
            const auto image = input.take_rest();
            for (std::size_t at = 0; at + 8 <= image.size(); at += 8) {
                std::memcpy(&words.emplace_back(), image.data() + at, 8);
            }
            fuzz::read_words(words);
            fuzz::check(input, words, static_cast<std::uint32_t>(words.size()));
            return 0;
        }
        default: {
            const fuzz::List second = fuzz::draw_list(input, fuzz::places);
            const std::uint32_t first_words = input.index(2) == 0 ? 0 : 256;  // the second list lies behind the first
            fuzz::List list = fuzz::draw_list(input, fuzz::places, first_words == 0 ? 0 : 0x1000 + first_words * 8,
                                              static_cast<std::uint32_t>(second.words.size()));
            words = list.words;
            if (first_words != 0) {
                words.resize(first_words);
                words.insert(words.end(), second.words.begin(), second.words.end());
            }
            fuzz::check(input, words, list.body_words);
            return 0;
        }
    }
}
