// From a matmul to a list of tasks. A task computes m rows by n output channels over one K tile; a plan says which
// tasks run on which core, in which order, with how many CBUF banks. N is dealt to the cores in whole kernel groups, or
// M is; then N is cut to what a task may have (8192) and M to what fits the CBUF, into equal parts. Which deal and which
// order are best, the search finds out (search.h); here they are options.
//
// Memory: one buffer each for features, weights and output, for the whole matmul.
//   features  one FeatureLayout over all M rows and the padded K
//   weights   the WeightLayout of K tile 0, then of K tile 1, ...
//   output    slots of one OutputLayout each: of K tile 0, then of K tile 1, ...; the host adds the tiles, or the chip does
//             and the host finds one result in one of the slots (reduce.h)
// Every tile's base address is the layout's offset of its first element, so a plan holds no addresses.
//
// Planning is a pure function: equal arguments give equal plans, which may be cached by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compile/tiling.h"
#include "rockchip/timing.h"

namespace npu::compile {

struct TaskTile {
    std::uint32_t k_tile = 0;  // index into Plan::k_tiles
    std::uint32_t m0 = 0;      // rows [m0, m0 + m)
    std::uint32_t m = 0;
    std::uint32_t n0 = 0;  // output channels [n0, n0 + n) of the padded N; multiples of G
    std::uint32_t n = 0;
    std::uint32_t data_banks = 0;  // data_banks + weight_banks = all banks of the chip
    std::uint32_t weight_banks = 0;
    bool weight_reuse = false;  // the weights of the previous task on this core are still in the CBUF
    bool data_reuse = false;    // its features are
    friend bool operator==(const TaskTile&, const TaskTile&) = default;
};

struct Plan {
    MatmulShape shape;
    PlanOptions options;
    std::uint32_t padded_m = 0;
    std::uint32_t padded_n = 0;
    std::uint32_t padded_k = 0;
    std::vector<KTile> k_tiles;
    std::vector<std::vector<TaskTile>> cores;  // tasks per core in order; only cores that have work

    [[nodiscard]] FeatureLayout feature_layout() const;
    [[nodiscard]] WeightLayout weight_layout(std::size_t k_tile) const;
    [[nodiscard]] OutputLayout output_layout() const;  // of one K tile

    // Where a K tile's weights and results begin in their buffers.
    [[nodiscard]] std::size_t weight_offset(std::size_t k_tile) const;
    [[nodiscard]] std::size_t output_offset(std::size_t k_tile) const;

    // Whether the chip adds the partial sums, and where the sum of K tiles 0 to k_tile then begins.
    [[nodiscard]] bool reduces() const;
    [[nodiscard]] std::size_t sum_offset(std::size_t k_tile) const;

    // What the host reads and adds: one result, or one of every K tile.
    [[nodiscard]] std::size_t result_tiles() const;
    [[nodiscard]] std::size_t result_offset(std::size_t result) const;
    [[nodiscard]] std::size_t result_bytes() const;  // of all of them, which lie one after another

    // End of what the last task of a core writes: bytes from the start of the output buffer.
    [[nodiscard]] std::size_t end_of_core(std::size_t core) const;

    // Sizes of the buffers, all K tiles and slots.
    [[nodiscard]] std::size_t feature_bytes() const;
    [[nodiscard]] std::size_t weight_bytes() const;
    [[nodiscard]] std::size_t output_bytes() const;

    // Results of two bytes are the sums divided by 2 to this power: the smallest for which no sum of products of operands
    // within -127 and 127 overflows, in any K tile.
    [[nodiscard]] std::uint32_t result_shift() const;

    [[nodiscard]] std::size_t task_count() const;  // with those that add
    friend bool operator==(const Plan&, const Plan&) = default;
};

// Errors: invalid_argument for an empty shape or options outside the chip; unsupported for a pair of formats that
// is not built, for a K tile whose single row does not fit, and for more tasks per core than a submission holds.
Result<Plan> plan_matmul(const MatmulShape& shape, const ChipProfile& chip, const PlanOptions& options);

// What a task moves and computes, padding included. What is reused moves nothing.
rockchip::TaskWork tile_work(const Plan& plan, const TaskTile& tile);

// The work of all tasks, core by core, with those that add.
std::vector<std::vector<rockchip::TaskWork>> plan_work(const Plan& plan);

// Cost of one submission of the plan by the timing model.
double predicted_seconds(const Plan& plan, const ChipProfile& chip, const rockchip::Conditions& conditions);

// And what reading its results costs the host.
double read_back_seconds(const Plan& plan, const ChipProfile& chip);

}  // namespace npu::compile
