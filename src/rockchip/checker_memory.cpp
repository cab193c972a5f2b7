#include "rockchip/checker_memory.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "base/result.h"

namespace npu::rockchip::check {

namespace {

constexpr std::int64_t address_end = std::int64_t{1} << 32;  // registers hold 32 bits

constexpr std::int64_t most_atoms = std::int64_t{1} << 26;  // painted one by one: 1 GiB of results

std::uint32_t value_of(std::int64_t address) { return static_cast<std::uint32_t>(address); }

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
bool check_nesting(const Writer& writer, Findings& findings) {
    if (writer.dense) {
        return true;
    }
    const auto notch = static_cast<std::uint32_t>(writer.notch);
    Loop loops[] = {
        {16 * (writer.width + writer.notch), writer.height, writer.notch_field, notch | notch << 16, "line pitch"},
        {writer.surface_stride, std::min(writer.per_group, writer.surfaces), writer.surface_field,
         value_of(writer.surface_stride), "surface stride"},
        {writer.group_stride, writer.groups(), writer.group_field, value_of(writer.group_stride), "group stride"},
    };
    std::stable_sort(std::begin(loops), std::end(loops),
                     [](const Loop& a, const Loop& b) { return a.stride < b.stride; });
    std::int64_t covered = 16 * writer.width;
    for (const Loop& loop : loops) {
        if (loop.count <= 1) {
            continue;
        }
        if (loop.stride < covered) {
            findings.refuse(loop.field.offset, loop.register_value, consequence::corrupts, source::layout,
                            format("overlapping output: %s of %lld bytes, but what it steps over takes %lld", loop.what,
                                   static_cast<long long>(loop.stride), static_cast<long long>(covered)));
            return false;
        }
        covered += loop.stride * (loop.count - 1);
    }
    return true;
}

// Calls `visit(begin, atoms)` for every run of atoms that the task writes.
template <typename Visit>
void for_each_line(const Writer& writer, Visit visit) {
    if (writer.dense) {
        visit(writer.address, writer.surfaces * writer.width * writer.height);
        return;
    }
    for (std::int64_t s = 0; s < writer.surfaces; ++s) {
        const std::int64_t surface = writer.surface_address(s);
        for (std::int64_t h = 0; h < writer.height; ++h) {
            visit(surface + 16 * h * (writer.width + writer.notch), writer.width);
        }
    }
}

// Which task wrote an atom last, for the atoms that some task wrote: pages of 256, found by number.
class OwnerMap {
  public:
    static constexpr std::uint16_t nobody = 0xffff;  // a chain has at most 4095 tasks

    std::uint16_t& at(std::int64_t atom) {
        if (page_ == nullptr || atom / page_atoms != number_) {
            number_ = atom / page_atoms;
            page_ = &pages_.try_emplace(number_, empty_page()).first->second;
        }
        return (*page_)[static_cast<std::size_t>(atom % page_atoms)];
    }

  private:
    static constexpr std::int64_t page_atoms = 256;
    using Page = std::array<std::uint16_t, page_atoms>;

    static Page empty_page() {
        Page page;
        page.fill(nobody);
        return page;
    }

    std::unordered_map<std::int64_t, Page> pages_;  // its references stay valid while it grows
    std::int64_t number_ = 0;
    Page* page_ = nullptr;
};

bool same_place(const Operand& operand, const Writer& writer) {
    return operand.may_be_overwritten_there && operand.extent.begin == writer.address;
}

}  // namespace

Extent output_extent(const Writer& writer) {
    if (writer.dense) {
        return {writer.address, writer.address + 16 * writer.surfaces * writer.width * writer.height};
    }
    const std::int64_t in_group = std::min(writer.per_group, writer.surfaces);
    const std::int64_t lines = (writer.height - 1) * (writer.width + writer.notch);
    // The last group may be the only one that is not whole; the one before it can reach farther.
    std::int64_t last = writer.surface_address(writer.surfaces - 1);
    if (writer.groups() > 1) {
        last =
            std::max(last, writer.surface_address(writer.surfaces - 1 - (writer.surfaces - 1) % writer.per_group - 1));
    }
    last = std::max(last, writer.surface_address(in_group - 1));
    return {writer.address, last + 16 * (lines + writer.width)};
}

void check_inside(const Extent& extent, bool writes, std::uint16_t offset, std::uint32_t value, const char* what,
                  std::span<const CheckBuffer> buffers, Findings& findings) {
    if (extent.begin < 0 || extent.end > address_end) {
        findings.refuse(offset, value, consequence::dma_error, source::manual,
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
        findings.refuse(offset, value, consequence::dma_error, source::submission,
                        format("%s take 0x%llx to 0x%llx, which lies in no single buffer of the job", what,
                               static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end)));
    } else if (writes && !found->writable) {
        findings.refuse(offset, value, consequence::dma_error, source::submission,
                        format("%s take 0x%llx to 0x%llx, in a buffer that the device may not write", what,
                               static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end)));
    }
}

bool check_memory(const Task& task, const CheckInput& input, Findings& findings) {
    const std::size_t before = findings.refusals();
    const Extent output = output_extent(task.writer);
    const std::uint16_t offset = task.writer.address_field.offset;
    const auto over = [&](const char* what, std::int64_t begin, const char* source) {
        findings.refuse(
            offset, value_of(task.writer.address), consequence::corrupts, source,
            format("results take 0x%llx to 0x%llx, over %s at 0x%llx", static_cast<unsigned long long>(output.begin),
                   static_cast<unsigned long long>(output.end), what, static_cast<unsigned long long>(begin)));
    };
    for (const Operand& operand : task.operands) {
        check_inside(operand.extent, false, operand.address_field.offset, value_of(operand.extent.begin), operand.name,
                     input.buffers, findings);
    }
    check_inside(output, true, offset, value_of(task.writer.address), "results", input.buffers, findings);
    for (const Operand& operand : task.operands) {
        if (output.overlaps(operand.extent) && !same_place(operand, task.writer)) {
            over((std::string("its own ") + operand.name).c_str(), operand.extent.begin, source::measured);
        }
    }
    const auto begin = static_cast<std::int64_t>(input.words_iova);
    const Extent commands{begin, begin + static_cast<std::int64_t>(input.words.size_bytes())};
    if (input.words_iova_known && output.overlaps(commands)) {
        over("the command words", commands.begin, source::inferred);
    }
    return check_nesting(task.writer, findings) && findings.refusals() == before;
}

void OutputMap::add(std::size_t position, const Task& task) {
    Entry entry{position, task.writer, output_extent(task.writer), {}};
    for (const Operand& operand : task.operands) {
        entry.reads.push_back(operand.extent);
    }
    entries_.push_back(std::move(entry));
}

void OutputMap::check(Findings& findings) {
    std::vector<std::size_t> order(entries_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return entries_[a].extent.begin < entries_[b].extent.begin; });
    for (std::size_t first = 0; first < order.size();) {  // regions of extents that touch each other
        std::int64_t end = entries_[order[first]].extent.end;
        std::size_t last = first + 1;
        while (last < order.size() && entries_[order[last]].extent.begin < end) {
            end = std::max(end, entries_[order[last]].extent.end);
            ++last;
        }
        if (last - first > 1) {
            std::sort(order.begin() + static_cast<std::ptrdiff_t>(first),
                      order.begin() + static_cast<std::ptrdiff_t>(last));  // in order of task
            check_region(std::span(order).subspan(first, last - first), findings);
        }
        first = last;
    }
}

// Whether a task after `owner`, up to and including `overwriter`, reads from what `owner` wrote.
bool OutputMap::consumed(std::size_t owner, std::size_t overwriter) const {
    for (std::size_t i = owner + 1; i <= overwriter; ++i) {
        if (std::ranges::any_of(entries_[i].reads,
                                [&](const Extent& read) { return read.overlaps(entries_[owner].extent); })) {
            return true;
        }
    }
    return false;
}

// Extents of tiles interleave, so atoms are painted one by one; the outputs were found inside 4 GiB before.
void OutputMap::check_region(std::span<const std::size_t> region, Findings& findings) {
    std::int64_t atoms_written = 0;
    for (const std::size_t index : region) {
        const Writer& writer = entries_[index].writer;
        atoms_written += writer.surfaces * writer.width * writer.height;
    }
    if (atoms_written > most_atoms) {
        const Entry& last = entries_[region.back()];
        findings.set_task(last.position);
        findings.warn(last.writer.address_field.offset, value_of(last.writer.address), consequence::not_understood,
                      source::none,
                      format("%zu tasks write %lld bytes into one range; too many to compare one by one", region.size(),
                             static_cast<long long>(16 * atoms_written)));
        return;
    }
    OwnerMap owners;
    for (const std::size_t index : region) {
        const Entry& entry = entries_[index];
        std::int64_t lost = -1;
        std::int64_t replaced = -1;
        std::uint16_t known = OwnerMap::nobody;  // the last earlier owner that was asked about, and the answer
        bool known_consumed = false;
        for_each_line(entry.writer, [&](std::int64_t line, std::int64_t atoms) {
            for (std::int64_t w = 0; w < atoms; ++w) {
                std::uint16_t& owner = owners.at(line / 16 + w);
                if (owner != OwnerMap::nobody) {
                    if (owner != known) {
                        known = owner;
                        known_consumed = consumed(owner, index);
                    }
                    std::int64_t& hit = known_consumed ? replaced : lost;
                    hit = hit < 0 ? line + 16 * w : hit;
                }
                owner = static_cast<std::uint16_t>(index);
            }
        });
        findings.set_task(entry.position);
        const std::uint16_t offset = entry.writer.address_field.offset;
        if (lost >= 0) {
            findings.refuse(
                offset, value_of(entry.writer.address), consequence::corrupts, source::inferred,
                format("overlapping output: the result at 0x%llx is written by an earlier task of the chain "
                       "already, and nothing has read it since",
                       static_cast<unsigned long long>(lost)));
        } else if (replaced >= 0 && !warned_) {
            warned_ = true;
            findings.warn(
                offset, value_of(entry.writer.address), consequence::hangs, source::measured,
                format("the result at 0x%llx replaces one that an earlier task of the chain wrote and a later "
                       "one read; one project saw chains abort that use output addresses again, two others "
                       "accumulate like this",
                       static_cast<unsigned long long>(replaced)));
        }
    }
}

}  // namespace npu::rockchip::check
