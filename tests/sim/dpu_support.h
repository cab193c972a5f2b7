// What the tests of the DPU share: a DPU with memory and registers but without a core around it, so that it can be fed
// any sums; programs written out from the published recipes; cubes in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/convolution.h"
#include "sim/dpu.h"
#include "sim/test_support.h"

namespace npu::sim::test {

// FedSums of the array, [pixel][channel of the whole cube]; one of the two.
struct FedSums {
    std::vector<float> floats;
    std::vector<std::int64_t> integers;
    std::vector<std::int64_t> window_sums;  // [pixel], or [pixel][channel]
    bool window_sums_per_channel = false;
};

struct Outcome {
    bool ran = false;
    DpuTask task;
    std::vector<Finding> findings;
};

class DpuBench {
  public:
    SparseMemory memory;
    Dpu dpu;
    Mode mode = Mode::strict;
    const Memory* seen = nullptr;  // what the DPU reads and writes; nullptr: `memory`
    bool expects_mapped = true;    // a task that nothing speaks against and whose streams are not mapped fails the test

    // Applies the writes of a list in order, look-up table uploads included.
    void apply(const std::vector<std::uint64_t>& words);

    // Applies the program, reads the task, and runs it when nothing speaks against it. All streams must be mapped.
    Outcome run_flying(const Program& program);
    Outcome run_fed(const Program& program, const Convolution& feed, const FedSums& sums, std::uint32_t enable = 0x0d);

  private:
    Outcome read(const Program& program, std::uint32_t enable, const Convolution* feed);
    RegisterState registers_{7};
};

// An array that delivers `matmul`'s sums.
Convolution feed_of(const Matmul& matmul);

// The DPU alone on cubes of W x H pixels, dense surfaces.
struct FlyingShape {
    Precision input = Precision::fp16;
    Precision output = Precision::fp16;
    std::uint32_t width = 1;
    std::uint32_t height = 1;
    std::uint32_t channels = 8;
    std::uint32_t source = 0x10000000;
    std::uint32_t operand = 0x20000000;
    std::uint32_t destination = 0x30000000;
    [[nodiscard]] std::uint32_t pixels() const { return width * height; }
};

// All stages bypassed, no operand: a copy.
Program flying_program(const FlyingShape& shape);

// Makes it a two-operand program: EW_CFG, and ERDMA for operands per element of `operand_bytes`.
void add_operand(Program& program, const FlyingShape& shape, std::uint32_t element_wise, std::uint32_t operand_bytes);

// The operand beside the array: even surfaces by MRDMA, odd ones by ERDMA. `format` is the operand's DPU code.
void add_fused_operand(Program& program, const Matmul& matmul, std::uint32_t address, std::uint32_t element_wise,
                       std::uint32_t format, std::uint32_t operand_bytes);

// Registers of DPU_RDMA with every engine off.
void add_idle_rdma(Program& program, std::uint32_t width, std::uint32_t height, std::uint32_t channels);

// Elements of a dense cube [channel / c2][pixel][c2], row-major in `codes`: [pixel][channel].
void load_cube(SparseMemory& memory, std::uint32_t address, std::uint32_t pixels, std::uint32_t channels,
               std::uint32_t element_bytes, const std::vector<std::uint32_t>& codes);
std::vector<std::uint32_t> read_cube(const SparseMemory& memory, std::uint32_t address, std::uint32_t pixels,
                                     std::uint32_t channels, std::uint32_t element_bytes);

// Operations of the EW stage: the codes of its ALU, and 16 for a multiplication.
enum Operation : std::uint32_t { maximum = 0, minimum = 1, add = 2, divide = 3, subtract = 4, multiply = 16 };

// EW_CFG with an operand per element: of integers (converter bypassed) and of fp16 (live but for a multiplication).
std::uint32_t integer_word(Precision format, Operation operation);
std::uint32_t half_word(Operation operation);

// What it must give: exactly, and rounded once to fp32.
std::int64_t reference_integer(Operation operation, std::int64_t x, std::int64_t y);
float reference_float(Operation operation, double x, double y);

// Codes of an integer format, of all magnitudes, with both extremes among them.
std::vector<std::uint32_t> random_integers(Precision format, std::size_t count, std::mt19937& random);

unsigned bytes_of(Precision precision);
std::int64_t sign_extend(std::uint32_t code, unsigned bits);

// Random 32-bit integers of all magnitudes, with the extremes and powers of two among them.
std::vector<std::int64_t> random_sums(std::size_t count, std::mt19937& random);

// Random finite floats of moderate and of extreme size.
std::vector<float> random_floats(std::size_t count, std::mt19937& random);

// References, written without a look at the machine: value * 2^-shift rounded to nearest, by comparing both neighbours
// with the exact quotient; the range of a type.
std::int64_t reference_shift(__int128 value, unsigned shift, bool ties_away = false);
std::int64_t clamp_to(std::int64_t value, unsigned bits);

}  // namespace npu::sim::test
