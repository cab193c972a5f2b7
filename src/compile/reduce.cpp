#include "compile/reduce.h"

#include <algorithm>

#include "compile/stages.h"
#include "compile/writer.h"

namespace npu::compile {

namespace reg = rockchip::reg;
using rockchip::atom_bytes;
using rockchip::info;

namespace {

constexpr std::uint32_t channels_per_atom = atom_bytes / sizeof(std::int32_t);
constexpr std::uint32_t unit_channels = 32;  // results come in kernel groups: whole units of eight atoms
constexpr std::uint32_t unit_bytes = unit_channels * sizeof(std::int32_t);
constexpr std::uint32_t words = 69;

// Largest K whose sums of int8 products never saturate, in whatever order they are added.
constexpr std::uint32_t largest_k = 0x7fffffffU / (128U * 128U);

struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
};

// What a core's tasks write of one K tile's results. Tasks tile it, so its corners are theirs.
Piece piece_of(const OutputLayout& layout, const std::vector<TaskTile>& core) {
    std::uint64_t begin = layout.bytes();
    std::uint64_t elements = 0;
    for (const TaskTile& tile : core) {
        if (tile.k_tile == 0) {
            begin = std::min<std::uint64_t>(begin, layout.offset(tile.m0, tile.n0));
            elements += std::uint64_t{tile.m} * tile.n;
        }
    }
    return {begin, elements * sizeof(std::int32_t)};
}

void write_cube(CommandWriter& writer, const AddTask& task) {
    using namespace reg::DPU;
    writer.write(
        {{FEATURE_MODE_CFG::BURST_LEN, 15}, {FEATURE_MODE_CFG::OUTPUT_MODE, 2}, {FEATURE_MODE_CFG::FLYING_MODE, 1}});
    const std::uint32_t code = info(Precision::int32).dpu_code;
    writer.write(
        {{DATA_FORMAT::OUT_PRECISION, code}, {DATA_FORMAT::IN_PRECISION, code}, {DATA_FORMAT::PROC_PRECISION, code}});
    writer.zero(OFFSET_PEND::offset);
    writer.write({{DST_BASE_ADDR::DST_BASE_ADDR, static_cast<std::int64_t>(task.sum)}});
    writer.write({{DST_SURF_STRIDE::DST_SURF_STRIDE, task.pixels}});  // fields of strides count atoms
    writer.write({{DATA_CUBE_WIDTH::WIDTH, task.pixels - 1}});
    writer.zero(DATA_CUBE_HEIGHT::offset);
    writer.zero(DATA_CUBE_NOTCH_ADDR::offset);
    writer.write(
        {{DATA_CUBE_CHANNEL::ORIG_CHANNEL, task.channels - 1}, {DATA_CUBE_CHANNEL::CHANNEL, task.channels - 1}});
}

void write_dpu(CommandWriter& writer, const AddTask& task) {
    using namespace reg::DPU;
    write_cube(writer, task);
    write_bypassed_bs(writer);
    writer.write({{BS_OW_CFG::OD_BYPASS, 1}});
    writer.zero(BS_OW_OP::offset);
    writer.write({{WDMA_SIZE_0::CHANNEL_WDMA, task.channels - 1}});
    writer.write({{WDMA_SIZE_1::WIDTH_WDMA, task.pixels - 1}});
    write_bypassed_bn(writer);
    // A 32-bit integer that passed the operand's converter would be garbage.
    writer.write({{EW_CFG::EW_DATA_MODE, 1},
                  {EW_CFG::EDATA_SIZE, 3},
                  {EW_CFG::EW_ALU_ALGO, 2},
                  {EW_CFG::EW_RELU_BYPASS, 1},
                  {EW_CFG::EW_OP_CVT_BYPASS, 1},
                  {EW_CFG::EW_LUT_BYPASS, 1},
                  {EW_CFG::EW_OP_SRC, 1}});
    writer.zero(EW_CVT_OFFSET_VALUE::offset);
    writer.write({{EW_CVT_SCALE_VALUE::EW_OP_CVT_SCALE, 1}});
    writer.zero(EW_RELUX_CMP_VALUE::offset);
    writer.zero(OUT_CVT_OFFSET::offset);
    writer.write({{OUT_CVT_SCALE::OUT_CVT_SCALE, 1}});
    writer.zero(OUT_CVT_SHIFT::offset);
    write_end_of_dpu(writer, task.pixels);
}

// Both readers on, each with an operand of its own: COMB_USE is 0, since its lowest bit hangs a flying task.
void write_readers(CommandWriter& writer, const AddTask& task) {
    using namespace reg::DPU_RDMA;
    const std::uint32_t code = info(Precision::int32).dpu_code;
    writer.write({{DATA_CUBE_WIDTH::WIDTH, task.pixels - 1}});
    writer.zero(DATA_CUBE_HEIGHT::offset);
    writer.write({{DATA_CUBE_CHANNEL::CHANNEL, task.channels - 1}});
    writer.write({{SRC_BASE_ADDR::SRC_BASE_ADDR, static_cast<std::int64_t>(task.augend)}});
    writer.zero(BRDMA_CFG::offset);
    writer.zero(BS_BASE_ADDR::offset);
    writer.zero(NRDMA_CFG::offset);
    writer.zero(BN_BASE_ADDR::offset);
    writer.write({{ERDMA_CFG::ERDMA_DATA_MODE, 1}, {ERDMA_CFG::ERDMA_DATA_SIZE, 3}});
    writer.write({{EW_BASE_ADDR::EW_BASE_ADDR, static_cast<std::int64_t>(task.addend)}});
    writer.write({{EW_SURF_STRIDE::EW_SURF_STRIDE, task.pixels}});
    writer.write({{FEATURE_MODE_CFG::IN_PRECISION, code},
                  {FEATURE_MODE_CFG::BURST_LEN, 15},
                  {FEATURE_MODE_CFG::PROC_PRECISION, code},
                  {FEATURE_MODE_CFG::FLYING_MODE, 1}});
    writer.zero(SRC_DMA_CFG::offset);
    writer.zero(SURF_NOTCH::offset);
    writer.zero(PAD_CFG::offset);
    writer.write({{WEIGHT::E_WEIGHT, 1}, {WEIGHT::N_WEIGHT, 1}, {WEIGHT::B_WEIGHT, 1}, {WEIGHT::M_WEIGHT, 1}});
    writer.zero(EW_SURF_NOTCH::offset);
}

Result<void> check_accumulate(const Plan& plan) {
    for (const std::vector<TaskTile>& core : plan.cores) {
        for (const TaskTile& tile : core) {
            if (plan.options.twelve_rows_to_accumulate && tile.m < least_rows_to_accumulate) {
                return make_error(ErrorCode::unsupported,
                                  "task of %u rows that adds to an fp16 partial sum: at least %u "
                                  "(twelve-rows-to-accumulate); deal channels, or lower max_k",
                                  tile.m, least_rows_to_accumulate);
            }
        }
    }
    if (plan.options.output != Arrangement::native) {
        return make_error(ErrorCode::unsupported,
                          "fp16 partial sums are added in native order only: use native output");
    }
    return {};
}

Result<void> check_adds(const Plan& plan, const ChipProfile& chip) {
    if (plan.padded_k > largest_k) {
        return make_error(ErrorCode::unsupported,
                          "partial sums of K=%u added on the chip, where int32 saturates: at most %u; add them on the "
                          "host",
                          plan.shape.k, largest_k);
    }
    const bool by_rows = plan.options.split == Split::rows;
    const bool row_major = plan.options.output == Arrangement::row_major;
    if (plan.cores.size() > 1 && by_rows != row_major) {
        return make_error(ErrorCode::unsupported,
                          "partial sums of one core lie in pieces: deal %s to the cores with %s output, or add them on "
                          "the host",
                          row_major ? "rows" : "channels", row_major ? "row-major" : "native");
    }
    for (const std::vector<TaskTile>& core : plan.cores) {
        if (const std::size_t count = core.size() + add_tasks(plan, core).size(); count > chip.max_tasks_per_submit) {
            return make_error(ErrorCode::unsupported,
                              "%zu tasks on one core with those that add, a submission holds %u: split M", count,
                              chip.max_tasks_per_submit);
        }
    }
    return {};
}

bool apart(std::uint64_t a, std::uint64_t b, std::uint64_t bytes) { return (a < b ? b - a : a - b) >= bytes; }

}  // namespace

Reduction device_reduction(Precision input, Precision output) {
    if (input == Precision::int8 && output == Precision::int32) {
        return Reduction::flying_add;
    }
    return input == Precision::fp16 && output == Precision::fp16 ? Reduction::accumulate : Reduction::host;
}

bool agreed(Reduction reduction) { return reduction != Reduction::accumulate; }

Result<void> check_reduction(const Plan& plan, const ChipProfile& chip) {
    const Reduction reduction = plan.options.reduction;
    if (!plan.reduces()) {
        return {};
    }
    if (reduction != device_reduction(plan.shape.input, plan.shape.output)) {
        return make_error(ErrorCode::unsupported,
                          "partial sums of %s to %s are not added on the chip like this: known are int8 to int32 "
                          "(flying_add) and fp16 to fp16 (accumulate); add them on the host",
                          info(plan.shape.input).name, info(plan.shape.output).name);
    }
    return reduction == Reduction::accumulate ? check_accumulate(plan) : check_adds(plan, chip);
}

std::vector<AddTask> add_tasks(const Plan& plan, const std::vector<TaskTile>& core) {
    std::vector<AddTask> tasks;
    if (!plan.reduces() || plan.options.reduction != Reduction::flying_add) {
        return tasks;
    }
    // Largest cube; the field's last value is left out, since a width of it was measured to corrupt.
    const std::uint32_t most_pixels = plan.options.small_adds ? 128 : 4096;
    const std::uint32_t most_channels = plan.options.small_adds ? 1024 : 4096;
    const Piece piece = piece_of(plan.output_layout(), core);
    std::uint64_t augend = plan.output_offset(0);
    for (std::size_t tile = 1; tile < plan.k_tiles.size(); ++tile) {
        const std::uint64_t addend = plan.output_offset(tile);
        const std::uint64_t sum = plan.sum_offset(tile);
        // Whole rows of pixels as far as they go, then one narrower cube.
        std::uint64_t done = 0;
        while (done < piece.bytes) {
            const std::uint64_t units = (piece.bytes - done) / unit_bytes;
            const auto pixels = static_cast<std::uint32_t>(std::min<std::uint64_t>(units, most_pixels));
            const auto channels =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(units / pixels * unit_channels, most_channels));
            const std::uint64_t at = piece.begin + done;
            tasks.push_back({augend + at, addend + at, sum + at, pixels, channels});
            done += tasks.back().bytes();
        }
        augend = sum;
    }
    return tasks;
}

Result<std::vector<rockchip::Command>> emit_add(const AddTask& task) {
    for (const std::uint64_t address : {task.augend, task.addend, task.sum}) {
        if (address % atom_bytes != 0) {
            return make_error(ErrorCode::invalid_argument, "add at address 0x%llx, which is not a multiple of %u",
                              static_cast<unsigned long long>(address), atom_bytes);
        }
    }
    if (task.pixels == 0 || task.channels == 0 || task.channels % channels_per_atom != 0 ||
        !apart(task.sum, task.augend, task.bytes()) || !apart(task.sum, task.addend, task.bytes())) {
        return make_error(
            ErrorCode::invalid_argument,
            "add of %u pixels and %u channels at 0x%llx and 0x%llx to 0x%llx: it takes at least one pixel, "
            "whole atoms of %u channels, and a sum that overlaps neither operand",
            task.pixels, task.channels, static_cast<unsigned long long>(task.augend),
            static_cast<unsigned long long>(task.addend), static_cast<unsigned long long>(task.sum), channels_per_atom);
    }
    CommandWriter writer(words);
    write_pointers(writer, true);
    write_dpu(writer, task);
    write_readers(writer, task);
    return writer.take();
}

rockchip::TaskWork add_work(const AddTask& task) {
    return {.output_bytes = task.bytes(),
            .command_words = words + rockchip::tail_words,
            .precision = Precision::int8,
            .operand_bytes = 2 * task.bytes()};
}

}  // namespace npu::compile
