// Programs for the tests of the disassembler and the checker: a matmul written down register by register from the
// published recipes, with no help from src/compile. A test takes a sound program, changes one thing and asks what
// the checker says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rockchip/checker.h"
#include "rockchip/command.h"
#include "rockchip/precision.h"

namespace npu::rockchip::test {

enum class SampleLayout {
    row_major,  // W=1, H=M, lines addressed one by one
    wide,       // native layout, all rows in one line: W=M, H=1
    tall,       // native layout, one row per line: W=1, H=M, lines in groups of four
};

struct SampleShape {
    Precision input = Precision::fp16;
    Precision output = Precision::fp32;
    std::uint32_t m = 8, n = 32, k = 64;
    SampleLayout layout = SampleLayout::wide;
    bool rdma = false;  // also program and fire DPU_RDMA
    std::uint32_t feature_address = 0x00100000;
    std::uint32_t weight_address = 0x00800000;
    std::uint32_t output_address = 0x01800000;
};

// The register writes of one task, in the order of the captured programs.
std::vector<Command> sample_body(const SampleShape& shape);

struct SampleTask {
    std::vector<Command> body;
    std::uint32_t enable = enable_convolution;
    std::vector<std::uint64_t> after;  // words between this task's enable word and the next task
};

// A chain of tasks in memory, tails included, and the buffers it may touch.
class SampleProgram {
  public:
    explicit SampleProgram(const std::vector<SampleShape>& shapes);
    // Tasks written down elsewhere; the job's buffers are the same.
    explicit SampleProgram(std::vector<SampleTask> tasks);

    SampleTask& task(std::size_t position = 0) { return tasks_[position]; }
    // Replaces the value at every write of the register; it must be written at least once.
    SampleProgram& set(std::uint16_t offset, std::uint32_t value, std::size_t position = 0);
    SampleProgram& erase(std::uint16_t offset, std::size_t position = 0);
    [[nodiscard]] std::uint32_t value(std::uint16_t offset, std::size_t position = 0) const;

    // Lays the tasks out, 64-byte aligned. Call after changes to tasks; changes to `words` come after it.
    SampleProgram& assemble();
    std::vector<Violation> check();

    std::vector<std::uint64_t> words;
    std::vector<std::size_t> starts;  // first word of each task
    std::vector<CheckBuffer> buffers;
    CheckInput input;  // spans are filled in by check()

  private:
    std::vector<SampleTask> tasks_;
};

// A program of one task.
inline SampleProgram sample(const SampleShape& shape) { return SampleProgram(std::vector<SampleShape>{shape}); }

inline constexpr std::uint64_t sample_iova = 0x02000000;

// All messages, one per line, for assertions to print.
std::string messages(std::span<const Violation> violations);

}  // namespace npu::rockchip::test
