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

// Output atoms as nested counters, each with a stride in bytes.
struct Counter {
    std::int64_t stride;
    std::int64_t count;
    [[nodiscard]] std::int64_t reach() const { return stride * (count - 1); }
};
using Counters = std::array<Counter, 4>;

Counters plane_counters(const DpuTask& task, std::int64_t surfaces, std::int64_t groups) {
    return {{{atom, task.width},
             {output_line_bytes(task), task.height},
             {static_cast<std::int64_t>(task.output_surface_bytes), surfaces},
             {static_cast<std::int64_t>(task.output_group_bytes), groups}}};
}

// Whole groups, then what is left of the last one; either may be empty.
struct SurfaceCount {
    std::int64_t groups;
    std::int64_t per_group;
    std::int64_t rest;
};
SurfaceCount count_surfaces(const DpuTask& task) {
    const std::uint32_t rest = task.surfaces() % task.group_surfaces;
    return {task.surfaces() / task.group_surfaces, task.written_surfaces, std::min(rest, task.written_surfaces)};
}

std::uint64_t transposed_slot(const DpuTask& task, std::uint32_t channel) {
    const std::uint64_t pixels = task.pixels();
    return channel / 4 % 4 + channel / 16 * 4 * pixels + channel % 4 * 16 * pixels;
}

void mark(const Counters& counters, std::int64_t from, std::vector<bool>& taken, bool& twice) {
    for (std::int64_t a = 0; a < counters[0].count; ++a) {
        for (std::int64_t b = 0; b < counters[1].count; ++b) {
            for (std::int64_t c = 0; c < counters[2].count; ++c) {
                for (std::int64_t d = 0; d < counters[3].count; ++d) {
                    const std::int64_t bytes = from + a * counters[0].stride + b * counters[1].stride +
                                               c * counters[2].stride + d * counters[3].stride;
                    const auto place = static_cast<std::size_t>(bytes / atom);
                    twice = twice || taken[place];
                    taken[place] = true;
                }
            }
        }
    }
}

}  // namespace

bool surface_written(const DpuTask& task, std::uint32_t surface) {
    return surface % task.group_surfaces < task.written_surfaces;
}

std::uint64_t surface_offset(const DpuTask& task, std::uint32_t surface) {
    return surface / task.group_surfaces * task.output_group_bytes +
           surface % task.group_surfaces * task.output_surface_bytes;
}

Extent output_extent(const DpuTask& task) {
    const auto begin = static_cast<std::int64_t>(task.output_address);
    if (task.transposed) {
        const std::uint32_t last = std::min(task.channels, 4U) - 1;  // n % 4 leads furthest
        std::uint64_t slots = 0;
        for (std::uint32_t channel = last; channel < task.channels; channel += 4) {
            slots = std::max(slots, transposed_slot(task, channel) + std::uint64_t{4} * (task.pixels() - 1) + 1);
        }
        return {begin, begin + static_cast<std::int64_t>(slots * sizeof(std::int16_t))};
    }
    const SurfaceCount surfaces = count_surfaces(task);
    std::int64_t furthest = 0;  // of any surface
    if (surfaces.groups > 0) {
        furthest = (surfaces.groups - 1) * static_cast<std::int64_t>(task.output_group_bytes) +
                   (surfaces.per_group - 1) * static_cast<std::int64_t>(task.output_surface_bytes);
    }
    if (surfaces.rest > 0) {
        furthest = std::max(furthest, surfaces.groups * static_cast<std::int64_t>(task.output_group_bytes) +
                                          (surfaces.rest - 1) * static_cast<std::int64_t>(task.output_surface_bytes));
    }
    return {begin, begin + furthest + (task.height - 1) * output_line_bytes(task) + atom * task.width};
}

void scatter_surfaces(const DpuTask& task, std::uint32_t first, std::uint32_t count, const std::byte* rows,
                      std::byte* memory) {
    const std::int64_t line = output_line_bytes(task);
    for (std::uint32_t j = 0; j < count; ++j) {
        if (!surface_written(task, first + j)) {
            continue;
        }
        std::uint32_t run = 1;  // surfaces that lie side by side are one copy per pixel
        while (j + run < count && surface_written(task, first + j + run) &&
               surface_offset(task, first + j + run) == surface_offset(task, first + j) + run * std::uint64_t{atom}) {
            ++run;
        }
        const std::size_t bytes = run * std::size_t{atom};
        const std::byte* row = rows + std::size_t{j} * atom;
        std::byte* surface = memory + surface_offset(task, first + j);
        for (std::uint32_t h = 0; h < task.height; ++h) {
            std::byte* pixel = surface + h * line;
            for (std::uint32_t w = 0; w < task.width; ++w, pixel += atom, row += std::size_t{count} * atom) {
                std::memcpy(pixel, row, bytes);
            }
        }
        j += run - 1;
    }
}

void scatter_transposed(const DpuTask& task, std::uint32_t first_channel, std::uint32_t channels,
                        const std::int16_t* values, std::byte* memory) {
    for (std::uint32_t c = 0; c < channels; ++c) {
        const std::uint64_t slot = transposed_slot(task, first_channel + c);
        for (std::uint32_t m = 0; m < task.pixels(); ++m) {
            const std::int16_t value = values[std::size_t{m} * channels + c];
            std::memcpy(memory + (slot + std::uint64_t{4} * m) * sizeof value, &value, sizeof value);
        }
    }
}

bool outputs_overlap(const DpuTask& task) {
    if (task.transposed || task.writes_nothing || task.goes_to_ppu) {
        return false;
    }
    const SurfaceCount surfaces = count_surfaces(task);
    // Disjoint for certain when each counter steps over everything that the smaller ones reach.
    Counters counters =
        plane_counters(task, surfaces.groups > 0 ? surfaces.per_group : std::max<std::int64_t>(surfaces.rest, 1),
                       surfaces.groups + (surfaces.rest > 0 ? 1 : 0));
    std::ranges::sort(counters, {}, &Counter::stride);
    std::int64_t reach = atom;
    bool nested = true;
    for (const Counter& counter : counters) {
        if (counter.count <= 1) {
            continue;
        }
        nested = nested && counter.stride >= reach;
        reach += counter.reach();
    }
    if (nested) {
        return false;
    }
    const Extent extent = output_extent(task);
    const std::int64_t places = (extent.end - extent.begin) / atom;
    const std::int64_t written = surfaces.groups * surfaces.per_group + surfaces.rest;
    if (written * task.pixels() > places) {
        return true;
    }
    std::vector<bool> taken(static_cast<std::size_t>(places));
    bool twice = false;
    mark(plane_counters(task, surfaces.per_group, surfaces.groups), 0, taken, twice);
    mark(plane_counters(task, surfaces.rest, 1), surfaces.groups * static_cast<std::int64_t>(task.output_group_bytes),
         taken, twice);
    return twice;
}

}  // namespace npu::sim
