#include "sim/output_addressing.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace npu::sim {

namespace {

constexpr std::int64_t atom = rockchip::atom_bytes;

std::int64_t output_line_bytes(const DpuTask& task) {
    return atom * static_cast<std::int64_t>(task.width + task.output_notch_atoms);
}

// Output atoms as four nested counters, each with a stride in bytes.
struct Counter {
    std::int64_t stride;
    std::int64_t count;
    [[nodiscard]] std::int64_t reach() const { return stride * (count - 1); }
};

std::array<Counter, 4> output_counters(const DpuTask& task) {
    return {{{atom, task.width},
             {output_line_bytes(task), task.height},
             {static_cast<std::int64_t>(task.output_surface_bytes), task.surfaces_per_group()},
             {static_cast<std::int64_t>(task.output_group_bytes), task.groups()}}};
}

}  // namespace

Extent output_extent(const DpuTask& task) {
    std::int64_t end = static_cast<std::int64_t>(task.output_address) + atom;
    for (const Counter& counter : output_counters(task)) {
        end += counter.reach();
    }
    return {static_cast<std::int64_t>(task.output_address), end};
}

void scatter_group(const DpuTask& task, std::uint32_t group, const std::byte* rows, std::byte* memory) {
    const std::uint32_t surfaces = task.surfaces_per_group();
    const std::uint64_t group_row_bytes = std::uint64_t{surfaces} * atom;
    std::byte* base = memory + group * task.output_group_bytes;
    const std::int64_t line = output_line_bytes(task);
    for (std::uint32_t h = 0; h < task.height; ++h) {
        for (std::uint32_t w = 0; w < task.width; ++w) {
            std::byte* pixel = base + h * line + atom * w;
            const std::byte* row = rows + group_row_bytes * (std::uint64_t{h} * task.width + w);
            for (std::uint32_t j = 0; j < surfaces; ++j) {
                std::memcpy(pixel + j * task.output_surface_bytes, row + std::uint64_t{j} * atom, atom);
            }
        }
    }
}

bool outputs_overlap(const DpuTask& task) {
    auto counters = output_counters(task);
    std::ranges::sort(counters, {}, &Counter::stride);
    // Disjoint for certain when each counter steps over everything that the smaller ones reach.
    std::int64_t reach = atom;
    bool nested = true;
    for (const Counter& counter : counters) {
        if (counter.count == 1) {
            continue;
        }
        nested = nested && counter.stride >= reach;
        reach += counter.reach();
    }
    if (nested) {
        return false;
    }
    std::vector<bool> taken(static_cast<std::size_t>(reach / atom));
    for (std::int64_t a = 0; a < counters[0].count; ++a) {
        for (std::int64_t b = 0; b < counters[1].count; ++b) {
            for (std::int64_t c = 0; c < counters[2].count; ++c) {
                for (std::int64_t d = 0; d < counters[3].count; ++d) {
                    const std::int64_t bytes = a * counters[0].stride + b * counters[1].stride +
                                               c * counters[2].stride + d * counters[3].stride;
                    const auto place = static_cast<std::size_t>(bytes / atom);
                    if (taken[place]) {
                        return true;
                    }
                    taken[place] = true;
                }
            }
        }
    }
    return false;
}

}  // namespace npu::sim
