// Adding the partial sums of the K tiles on the chip, so that the host reads one result instead of one per K tile.
//
// int32: behind the matmul tasks of a core follow tasks that fire only the DPU and its operand readers (enable 0x18). In such
// a task, which the manual calls flying, the main reader takes the place of the array; the element-wise stage adds what the
// second reader brings. Who adds does not matter for the result: sums of integers are exact.
//
//   slot     0     1     2    ...  T-1        T          of the output buffer; slot t is written by K tile t
//   add 1    A  +  B                    ->    sum
//   add 2   sum          C             <-     A          the sums go to slots T and 0 in turn
//
// Not in place. The library that chains these tasks adds in place and finds its results exact, but where an operand is added
// beside the array that was measured to corrupt, and two slots in turn are right whichever reading of the hardware holds.
//
// What an add takes for pixels and channels is its own business, as long as operands and sum lie alike: a core adds the
// one piece of memory that its own tasks wrote, cut into cubes of 128 pixels. So that piece must have no gaps: channels
// dealt to the cores with native results, rows with row-major ones. A core never waits for another.
//
// fp16: see TaskSpec::partial_sums. A task adds the result of the K tile before, in slots 0 and 1 in turn; each sum is
// rounded to fp16, so the result is not what the host would compute.
//
// Sources: two projects, independently, for the words of the flying int32 add (one measured it on both drivers, where it
// saturates; the other publishes it as a chain, sums above 2^24 tested, at most 1024 channels and 128 rows per task). One family of
// projects for the fp16 form. Dequantisation on the chip has one source and one task per row: it reads 8 bytes and writes 4
// per result, and the host still reads 4, so it is not built.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compile/plan.h"
#include "rockchip/command.h"

namespace npu::compile {

// One add: `pixels` atoms of each of `channels` / 4 surfaces, without gaps.
struct AddTask {
    std::uint64_t augend = 0;  // offsets in the output buffer; in what emit_add takes, addresses
    std::uint64_t addend = 0;
    std::uint64_t sum = 0;
    std::uint32_t pixels = 0;
    std::uint32_t channels = 0;

    [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{pixels} * channels * sizeof(std::int32_t); }
    friend bool operator==(const AddTask&, const AddTask&) = default;
};

inline constexpr std::uint32_t least_rows_to_accumulate = 12;

// How partial sums of a format pair can be added on the chip; host if in no known way.
Reduction device_reduction(Precision input, Precision output);

// Whether two independent sources agree on the words.
bool agreed(Reduction reduction);

// Whether the plan's reduction can do what the plan asks of it. Errors: unsupported, with the bound and the remedy.
Result<void> check_reduction(const Plan& plan, const ChipProfile& chip);

// The adds of one core, in the order in which they run. Empty unless the plan reduces by flying_add.
std::vector<AddTask> add_tasks(const Plan& plan, const std::vector<TaskTile>& core);

// The body of an add at absolute addresses. Errors: invalid_argument for addresses that are not aligned or a sum that
// overlaps an operand, and for sizes that do not fit their fields.
Result<std::vector<rockchip::Command>> emit_add(const AddTask& task);

rockchip::TaskWork add_work(const AddTask& task);

}  // namespace npu::compile
