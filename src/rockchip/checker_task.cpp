#include "rockchip/checker_task.h"

#include <algorithm>

#include "base/result.h"
#include "rockchip/checker_elementwise.h"
#include "rockchip/checker_operands.h"
#include "rockchip/checker_output.h"
#include "rockchip/checker_stages.h"
#include "rockchip/checker_values.h"

namespace npu::rockchip::check {

namespace {

namespace cna = reg::CNA;
namespace dpu = reg::DPU;

void aligned(const Reader& reader, const Field& field) {
    if (reader.value(field.offset) % atom_bytes != 0) {
        reader.refuse(field, consequence::corrupts, source::manual,
                      format("%s is no multiple of 16 bytes", field.name));
    }
}

// Where the DPU takes its data from and sends it to.
bool check_direction(const Reader& reader, const Convolution* convolution) {
    namespace mode = dpu::FEATURE_MODE_CFG;
    const bool flying = convolution == nullptr;
    if (reader.is_set(mode::FLYING_MODE) != flying) {
        reader.refuse(mode::FLYING_MODE, consequence::hangs, source::manual,
                      flying
                          ? "FLYING_MODE 0 takes data from the array, which this task does not fire"
                          : "FLYING_MODE 1 takes data from memory, while the array waits for the DPU to take its own; "
                            "a convolution takes its data from the array (0)");
        return false;
    }
    if (reader.of(mode::OUTPUT_MODE) != 2) {
        reader.refuse(mode::OUTPUT_MODE, consequence::not_understood, source::programs,
                      format("OUTPUT_MODE is %u; every program writes to memory (2), none to the PPU",
                             reader.of(mode::OUTPUT_MODE)));
        return false;
    }
    const std::uint32_t kind = reader.of(mode::CONV_MODE);
    const bool depthwise = !flying && convolution->depthwise;
    if (kind != 0 && !(depthwise && kind == 3)) {
        reader.refuse(mode::CONV_MODE, consequence::not_understood, source::none,
                      format("CONV_MODE %u of the DPU; 0, or 3 in a depthwise convolution", kind));
    } else if (depthwise && kind == 0) {
        reader.warn(mode::CONV_MODE, consequence::not_understood, source::none,
                    "CONV_MODE of the DPU is 0 in a depthwise convolution; one open driver writes 3");
    }
    return true;
}

// Convolutions and element-wise tasks: both end in the DPU.
std::optional<Task> read_dpu_task(const Reader& reader, std::optional<Convolution> convolution) {
    Task task;
    task.convolution = std::move(convolution);
    const Convolution* front = task.convolution ? &*task.convolution : nullptr;
    if (!check_direction(reader, front)) {
        return std::nullopt;
    }
    const std::optional<Pipeline> pipeline = read_pipeline(reader, front);
    if (!pipeline) {
        return std::nullopt;
    }
    const bool padded = reader.of(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL) != reader.of(dpu::DATA_CUBE_CHANNEL::CHANNEL);
    if (!padded) {
        reader.unexplained(dpu::OFFSET_PEND::OFFSET_PEND, "the value of padded channels, of which this task has none");
    }
    task.writer = read_writer(reader, *pipeline);
    check_stages(reader, *pipeline, task.operands);
    const ElementWise element_wise = check_element_wise(reader, *pipeline);
    if (reader.fires(enable_bit::dpu_rdma)) {
        check_operand_readers(reader, *pipeline, element_wise, task.operands);
    }
    check_converter(reader, *pipeline);
    return task;
}

// Bytes of the feature plane, by the addressing of the CNA: lines one by one, or in groups of four.
//   GROUP_LINE_OFF 1:  base + 16 * (h * line + s * (W + surface) + w)
//   GROUP_LINE_OFF 0:  base + 16 * ((h / 4) * line + s * (4 * W + surface) + (h % 4) * W + w)
// with s counting blocks of 16 bytes of channels. Derived from and checked against every captured program.
Extent feature_extent(const Convolution& task) {
    const std::int64_t blocks = (task.channels + channels_per_atom(task.input) - 1) / channels_per_atom(task.input);
    const std::int64_t width = task.width;
    const std::int64_t height = task.height;
    std::int64_t last_line = 0;  // atom of the farthest line
    std::int64_t step = 0;       // atoms between channel blocks
    if (task.single_line) {
        last_line = (height - 1) * task.line_stride;
        step = width + task.surface_stride;
    } else {
        const std::int64_t last = height - 1;
        last_line = (last / 4) * task.line_stride + (last % 4) * width;
        if (last >= 4) {  // the last full group of four reaches farther when the stride is short
            last_line = std::max(last_line, (last / 4 - 1) * task.line_stride + 3 * width);
        }
        step = 4 * width + task.surface_stride;
    }
    const std::int64_t base = task.feature_address;
    const std::int64_t reach = (blocks - 1) * step;
    return {base + 16 * std::min<std::int64_t>(0, reach),
            base + 16 * (last_line + std::max<std::int64_t>(0, reach) + width)};
}

std::optional<Task> read_convolution_task(const Reader& reader) {
    std::optional<Convolution> convolution = read_convolution(reader);
    if (!convolution) {
        return std::nullopt;
    }
    aligned(reader, cna::FEATURE_DATA_ADDR::FEATURE_BASE_ADDR);
    aligned(reader, cna::DCOMP_ADDR0::DECOMPRESS_ADDR0);
    const Extent features = feature_extent(*convolution);
    const std::int64_t weights = convolution->weight_address;
    const auto weight_bytes = static_cast<std::int64_t>(convolution->stored_weight_bytes);
    std::optional<Task> task = read_dpu_task(reader, std::move(convolution));
    if (task) {
        task->operands.insert(task->operands.begin(),
                              {{features, cna::FEATURE_DATA_ADDR::FEATURE_BASE_ADDR, "features"},
                               {{weights, weights + weight_bytes}, cna::DCOMP_ADDR0::DECOMPRESS_ADDR0, "weights"}});
    }
    return task;
}

}  // namespace

std::optional<Task> read_task(const RegisterFile& file, std::uint32_t enable, const ChipProfile& chip,
                              Findings& findings) {
    const Reader reader(file, enable, chip, findings);
    if (!check_written(reader)) {
        return std::nullopt;
    }
    check_unexplained(reader);
    if (reader.fires(enable_bit::ppu)) {
        return read_pooling(reader);
    }
    return reader.fires(enable_bit::cna) ? read_convolution_task(reader) : read_dpu_task(reader, std::nullopt);
}

}  // namespace npu::rockchip::check
