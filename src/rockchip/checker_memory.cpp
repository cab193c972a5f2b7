#include "rockchip/checker_memory.h"

#include <algorithm>

#include "base/integers.h"
#include "base/result.h"

namespace npu::rockchip::check {

namespace {

constexpr std::int64_t address_end = std::int64_t{1} << 32;  // registers hold 32 bits

std::int64_t groups_of(const Matmul& task) {
    return ceil_div<std::uint32_t>(task.kernels, info(task.input).kernels_per_group);
}

// One loop of the output writer: `count` steps of `stride` bytes, set by `field`.
struct Loop {
    std::int64_t stride;
    std::int64_t count;
    Field field;
    std::uint32_t register_value;
    const char* what;
};

// Results do not overlap when each loop's stride clears everything that the shorter strides cover. Every layout
// known is nested like this: row-major has surfaces innermost, native has lines innermost.
bool check_nesting(const Matmul& task, Findings& findings) {
    Loop loops[] = {
        {16LL * (task.width + task.output_notch), task.height, reg::DPU::DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_0,
         task.output_notch | task.output_notch << 16, "line pitch"},
        {task.output_surface_stride, task.surfaces_per_group, reg::DPU::DST_SURF_STRIDE::DST_SURF_STRIDE,
         task.output_surface_stride, "surface stride"},
        {task.output_group_stride, groups_of(task), reg::DPU::SURFACE_ADD::SURF_ADD, task.output_group_stride,
         "group stride"},
    };
    std::stable_sort(std::begin(loops), std::end(loops),
                     [](const Loop& a, const Loop& b) { return a.stride < b.stride; });
    std::int64_t covered = 16LL * task.width;
    for (const Loop& loop : loops) {
        if (loop.count <= 1) {
            continue;
        }
        if (loop.stride < covered) {
            findings.refuse(loop.field.offset, loop.register_value, consequence::corrupts,
                            format("overlapping output: %s of %lld bytes, but what it steps over takes %lld", loop.what,
                                   static_cast<long long>(loop.stride), static_cast<long long>(covered)));
            return false;
        }
        covered += loop.stride * (loop.count - 1);
    }
    return true;
}

// Calls `visit(begin)` for the start of every line of 16 * width bytes that the task writes.
template <typename Visit>
void for_each_line(const Matmul& task, Visit visit) {
    const std::int64_t groups = groups_of(task);
    for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t j = 0; j < task.surfaces_per_group; ++j) {
            const std::int64_t surface =
                task.output_address + g * task.output_group_stride + j * task.output_surface_stride;
            for (std::int64_t h = 0; h < task.height; ++h) {
                visit(surface + 16 * h * (task.width + task.output_notch));
            }
        }
    }
}

}  // namespace

Extent feature_extent(const Matmul& task) {
    const std::int64_t blocks = ceil_div<std::int64_t>(task.channels, channels_per_atom(task.input));
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

Extent weight_extent(const Matmul& task) {
    const std::int64_t base = task.weight_address;
    return {base, base + static_cast<std::int64_t>(task.weight_bytes)};
}

Extent output_extent(const Matmul& task) {
    const std::int64_t base = task.output_address;
    const std::int64_t lines = static_cast<std::int64_t>(task.height - 1) * (task.width + task.output_notch);
    return {base, base + (groups_of(task) - 1) * task.output_group_stride +
                      std::int64_t{task.surfaces_per_group - 1} * task.output_surface_stride +
                      16 * (lines + task.width)};
}

void check_inside(const Extent& extent, bool writes, std::uint16_t offset, std::uint32_t value, const char* what,
                  std::span<const CheckBuffer> buffers, Findings& findings) {
    if (extent.begin < 0 || extent.end > address_end) {
        findings.refuse(offset, value, consequence::dma_error,
                        format("%s reach from %lld to %lld, outside the 4 GiB that registers address", what,
                               static_cast<long long>(extent.begin), static_cast<long long>(extent.end)));
        return;
    }
    if (buffers.empty()) {
        return;
    }
    const auto begin = static_cast<std::uint64_t>(extent.begin);
    const auto end = static_cast<std::uint64_t>(extent.end);
    const auto found = std::find_if(buffers.begin(), buffers.end(), [&](const CheckBuffer& buffer) {
        return begin >= buffer.iova && end - buffer.iova <= buffer.bytes;
    });
    if (found == buffers.end()) {
        findings.refuse(offset, value, consequence::dma_error,
                        format("%s take 0x%llx to 0x%llx, which lies in no single buffer of the job", what,
                               static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end)));
    } else if (writes && !found->writable) {
        findings.refuse(offset, value, consequence::dma_error,
                        format("%s take 0x%llx to 0x%llx, in a buffer that the device may not write", what,
                               static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end)));
    }
}

bool check_memory(const Matmul& task, const CheckInput& input, Findings& findings) {
    const std::size_t before = findings.refusals();
    const Extent features = feature_extent(task);
    const Extent weights = weight_extent(task);
    const Extent output = output_extent(task);
    const auto commands_begin = static_cast<std::int64_t>(input.words_iova);
    const Extent commands{commands_begin, commands_begin + static_cast<std::int64_t>(input.words.size_bytes())};

    check_inside(features, false, reg::CNA::FEATURE_DATA_ADDR::offset, task.feature_address, "features", input.buffers,
                 findings);
    check_inside(weights, false, reg::CNA::DCOMP_ADDR0::offset, task.weight_address, "weights", input.buffers,
                 findings);
    check_inside(output, true, reg::DPU::DST_BASE_ADDR::offset, task.output_address, "results", input.buffers,
                 findings);

    struct Operand {
        const Extent& extent;
        const char* name;
    };
    for (const Operand& operand : {Operand{features, "its own features"}, Operand{weights, "its own weights"},
                                   Operand{commands, "the command words"}}) {
        if (output.overlaps(operand.extent)) {
            findings.refuse(
                reg::DPU::DST_BASE_ADDR::offset, task.output_address, consequence::corrupts,
                format("results take 0x%llx to 0x%llx, over %s at 0x%llx",
                       static_cast<unsigned long long>(output.begin), static_cast<unsigned long long>(output.end),
                       operand.name, static_cast<unsigned long long>(operand.extent.begin)));
        }
    }
    return check_nesting(task, findings) && findings.refusals() == before;
}

void OutputMap::check(Findings& findings) {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.extent.begin < b.extent.begin; });
    for (std::size_t first = 0; first < entries_.size();) {  // regions of extents that touch each other
        std::int64_t end = entries_[first].extent.end;
        std::size_t last = first + 1;
        while (last < entries_.size() && entries_[last].extent.begin < end) {
            end = std::max(end, entries_[last].extent.end);
            ++last;
        }
        if (last - first > 1) {
            check_region(std::span(entries_).subspan(first, last - first), findings);
        }
        first = last;
    }
}

// Extents of tiles interleave, so atoms are painted one by one; the outputs were found inside 4 GiB before.
void OutputMap::check_region(std::span<Entry> region, Findings& findings) {
    std::int64_t begin = region.front().extent.begin;
    std::int64_t end = begin;
    for (const Entry& entry : region) {
        end = std::max(end, entry.extent.end);
    }
    std::sort(region.begin(), region.end(), [](const Entry& a, const Entry& b) { return a.position < b.position; });
    std::vector<bool> painted(static_cast<std::size_t>((end - begin) / 16 + 1), false);
    for (const Entry& entry : region) {
        std::int64_t hit = -1;
        for_each_line(entry.task, [&](std::int64_t line) {
            const auto atom = static_cast<std::size_t>((line - begin) / 16);
            for (std::size_t w = 0; w < entry.task.width; ++w) {
                if (painted[atom + w]) {
                    hit = hit < 0 ? line + 16 * static_cast<std::int64_t>(w) : hit;
                }
                painted[atom + w] = true;
            }
        });
        if (hit >= 0) {
            findings.set_task(entry.position);
            findings.refuse(
                reg::DPU::DST_BASE_ADDR::offset, entry.task.output_address, consequence::corrupts,
                format("overlapping output: the result at 0x%llx is written by an earlier task of the chain "
                       "already; published: reusing output addresses aborts a chain",
                       static_cast<unsigned long long>(hit)));
        }
    }
}

}  // namespace npu::rockchip::check
