// How a matmul is cut so that each piece fits the chip: the options that govern cutting, the cut along K, and the
// accounting of the convolution buffer (CBUF), from which the cut along M follows.
//
// The CBUF has 12 banks of 32 KiB per core, divided by each task between features and weights. A task's features
// stay for the whole task, while weights stream through their banks one kernel group after another. Features are
// stored line by line, a line being padded to 64-byte entries. So the budget is byte accounting:
//   data banks   >= lines * entries per line * 64 / 32 KiB      weight banks >= one kernel group (G * K * b)
//
// K is cut by K and precision alone. If it depended on M, the sum of a row would depend on how many other rows are
// in the batch, and speculative decoding would not verify what plain decoding says.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/layout.h"
#include "rockchip/chip.h"

namespace npu::compile {

using rockchip::ChipProfile;

// Rows (M), output channels (N), input channels (K), unpadded; format of the operands and of the result.
struct MatmulShape {
    std::uint32_t m = 0;
    std::uint32_t n = 0;
    std::uint32_t k = 0;
    Precision input = Precision::int8;
    Precision output = Precision::int32;
    friend bool operator==(const MatmulShape&, const MatmulShape&) = default;
};

// What is dealt to the cores: output channels, or rows.
enum class Split : std::uint8_t { channels, rows };

// The order of a core's tasks, outermost first: K tile and channels, so that the next task may find its weights in the
// CBUF; or K tile and rows, so that it may find its features there.
enum class Order : std::uint8_t { rows_last, channels_last };

// Who adds the partial sums of the K tiles: the host, when it reads them; or the chip, so that the host reads one result
// instead of one per tile. See reduce.h.
enum class Reduction : std::uint8_t {
    host,
    flying_add,  // int32: tasks of their own behind the matmul's, which add two results in memory
    accumulate,  // fp16: each K tile's task adds the result of the tile before, rounded to fp16 each time
};

// The default is what every source agrees on. constraints.h lists the limits that may be switched off.
struct PlanOptions {
    std::uint32_t cores = 3;
    Split split = Split::channels;
    Order order = Order::rows_last;
    Arrangement feature = Arrangement::native;
    Arrangement output = Arrangement::native;

    // 3072 < K < 4096 timed out or was wrong with M > 4, fp16 and int8 (two projects, K = 3840): cut K in two.
    bool avoid_k_hazard = true;
    // One spare data bank for int8: a published sweep lost the last rows of some tiles in the one-pixel-wide
    // mapping. Padding lines to 64-byte entries predicts that sweep's failing shapes exactly, and the accounting
    // here already pads them, so this is a second belt.
    bool int8_slack_bank = true;
    // Weight banks hold a whole kernel group. Two published generators size their banks so, and nobody reports
    // success with less; without it, tiles of K > 2048 (int8) get more rows.
    bool group_in_weight_banks = true;
    // One weight bank with narrow N hung the NPU until power-cycle (fp16, K = 1024, M > 128).
    bool two_weight_banks = true;
    // More than 8192 input channels of a task: 11008 was garbage in one generator, 10240 fine in another.
    bool limit_k = true;
    // Rows in fours, but for a single one: two generators for the mainline driver keep to it, one of them says that
    // other M are wrong. The vendor's programs have any M.
    bool rows_in_fours = false;
    // Tasks that add are no larger than those of the one library that has them: 1024 channels of 128 pixels.
    bool small_adds = true;
    // A task that accumulates in fp16 has at least 12 rows: one project found smaller ones wrong, another runs them.
    bool twelve_rows_to_accumulate = true;

    // Largest K of a task; 0 means the chip's limit. Smaller tiles leave room for more rows, so weights are streamed
    // fewer times when M is large; but the host adds more partial results, and it must not depend on M.
    std::uint32_t max_k = 0;
    // Keep weights that fit their banks for the next M tile of the same core. Only valid inside one uninterrupted
    // hardware chain: published runs with one kick per task computed whole tiles from the wrong operand.
    bool weight_reuse = false;
    // Likewise the features of the same rows for the next output channels.
    bool data_reuse = false;

    Reduction reduction = Reduction::host;

    // How tasks are written; see task.h.
    bool vendor_preamble = true;
    bool emit_rdma = false;
    bool qd_en = true;
    friend bool operator==(const PlanOptions&, const PlanOptions&) = default;
};

// Input channels [k0, k0 + k) of the padded K; both multiples of KB.
struct KTile {
    std::uint32_t k0 = 0;
    std::uint32_t k = 0;
    friend bool operator==(const KTile&, const KTile&) = default;
};

// The cut along K: as few tiles as the limits allow, equal to within one channel block, in order, covering the
// padded K. Empty for k == 0. Depends on k, input, chip and options only.
std::vector<KTile> k_tiles(std::uint32_t k, Precision input, const ChipProfile& chip, const PlanOptions& options);

// 64-byte CBUF entries of one feature line of `width` pixels.
std::uint32_t line_entries(std::uint32_t width, std::uint32_t k, Precision input);

// Banks that `width` x `height` pixels of k channels occupy, the int8 spare bank of `options` included.
std::uint32_t data_banks(std::uint32_t width, std::uint32_t height, std::uint32_t k, Precision input,
                         const ChipProfile& chip, const PlanOptions& options);

// Fewest weight banks that the options allow for kernels of k channels.
std::uint32_t weight_banks(std::uint32_t k, Precision input, const ChipProfile& chip, const PlanOptions& options);

// Whether the options map rows to the height of a one-pixel-wide plane rather than to its width.
bool one_pixel_wide(const PlanOptions& options);

// Most rows that a task of k channels can take; 0 if not even one fits.
std::uint32_t max_rows(std::uint32_t k, Precision input, const ChipProfile& chip, const PlanOptions& options);

}  // namespace npu::compile
