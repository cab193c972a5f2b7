// What the tests of the machine share: memory at any NPU address, matmul programs written out from the published
// recipes (on purpose not the product's program builder), random operands and independent references.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rockchip/precision.h"
#include "sim/core.h"
#include "sim/memory.h"

namespace npu::sim::test {

using rockchip::Precision;

// The whole 4 GiB window, of which single pages can be made visible to the NPU.
class SparseMemory final : public Memory {
  public:
    SparseMemory();
    ~SparseMemory() override;
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;

    // Makes the pages that hold the range visible; contiguous pages are one object.
    void map(std::uint64_t iova, std::uint64_t bytes);
    [[nodiscard]] std::span<std::byte> from(std::uint64_t iova) const override;

    [[nodiscard]] std::byte* at(std::uint64_t iova) const { return base_ + iova; }
    void fill(std::uint64_t iova, std::byte value, std::uint64_t bytes) const;

  private:
    std::byte* base_;
    std::vector<bool> mapped_;
};

// A register list in the order it was made; setting a register again replaces its value.
class Program {
  public:
    void set(std::uint16_t offset, std::uint32_t value);
    void erase(std::uint16_t offset);
    [[nodiscard]] std::uint32_t get(std::uint16_t offset) const;
    [[nodiscard]] std::size_t size() const { return registers_.size(); }

    // Body and tail; `next` 0 ends the chain. `next_words` counts the words of the next list, tail included.
    [[nodiscard]] std::vector<std::uint64_t> words(std::uint32_t enable = 0x0d, std::uint32_t next = 0,
                                                   std::uint32_t next_words = 0) const;

  private:
    std::vector<std::pair<std::uint16_t, std::uint32_t>> registers_;
};

std::uint64_t command_word(std::uint16_t offset, std::uint32_t value);
void write_words(const SparseMemory& memory, std::uint32_t iova, const std::vector<std::uint64_t>& words);

// How the rows lie in the feature plane and in memory.
enum class Mapping {
    row_major,    // W = 1, H = M, lines one by one
    native_wide,  // W = M, H = 1, lines in groups of four
    native_tall,  // W = 1, H = M, lines in groups of four
    panel8,       // W = 8, H = M / 8
    plane,        // W = 5, H = M / 5, dense native, lines in groups of four
};

struct Matmul {
    Precision input = Precision::fp16;
    Precision output = Precision::fp32;
    std::uint32_t m = 0;
    std::uint32_t k = 0;
    std::uint32_t n = 0;
    Mapping mapping = Mapping::row_major;
    std::uint32_t a = 0x10000000;  // addresses
    std::uint32_t b = 0x20000000;
    std::uint32_t c = 0x30000000;

    [[nodiscard]] std::uint64_t a_bytes() const { return std::uint64_t{m} * k * rockchip::info(input).bits / 8; }
    [[nodiscard]] std::uint64_t b_bytes() const { return std::uint64_t{n} * k * rockchip::info(input).bits / 8; }
    [[nodiscard]] std::uint64_t c_bytes() const { return std::uint64_t{m} * n * rockchip::info(output).bits / 8; }
    // Bits from the start of the buffer to an element.
    [[nodiscard]] std::uint64_t a_bit(std::uint32_t row, std::uint32_t channel) const;
    [[nodiscard]] std::uint64_t b_bit(std::uint32_t kernel, std::uint32_t channel) const;
    [[nodiscard]] std::uint64_t c_bit(std::uint32_t row, std::uint32_t kernel) const;
};

// The full register list of the task.
Program matmul_program(const Matmul& matmul);

// Element codes: the bits of an element, in the low end of a word.
float as_float(Precision precision, std::uint32_t code);
std::uint32_t read_element(const std::byte* base, std::uint64_t bit, unsigned bits);
void write_element(std::byte* base, std::uint64_t bit, unsigned bits, std::uint32_t code);

enum class Range { full, moderate };  // all finite values; or around 1, so that narrow outputs stay finite

// `count` random codes with the extremes of the format among them.
std::vector<std::uint32_t> random_codes(Precision precision, std::size_t count, std::mt19937& random, Range range);

// Row-major operands.
struct Operands {
    std::vector<std::uint32_t> a;  // [m][k]
    std::vector<std::uint32_t> b;  // [n][k]
};
Operands random_operands(const Matmul& matmul, std::mt19937& random, Range range);

// Codes of a float result; NaN has one pattern.
std::uint32_t single_code(float value);
std::uint32_t half_code(float value);

// The product as codes of the output format, [m][n]: int64 for integers, 128-bit integers for the groups
// of fp16, 640-bit integers for those of bf16 and tf32.
std::vector<std::uint32_t> reference_product(const Matmul& matmul, const Operands& operands);

// Sum of a[i] * b[i] rounded once, by big integers; the reference for ExactSum and the kernels.
float reference_group_sum(const float* a, const float* b, std::size_t count);

// Puts operands into memory in the layout of the matmul, maps everything and clears the output to 0xee.
void load_operands(SparseMemory& memory, const Matmul& matmul, const Operands& operands);
std::vector<std::uint32_t> read_product(const SparseMemory& memory, const Matmul& matmul);

// One kick at `base`, whose first list has `words` words.
Kick kick_at(std::uint32_t base, std::size_t words, std::uint32_t tasks = 1);

// True when a finding of that severity mentions all texts.
bool has_finding(const std::vector<Finding>& findings, Severity severity, std::vector<std::string> texts);
std::string list_findings(const std::vector<Finding>& findings);

}  // namespace npu::sim::test
