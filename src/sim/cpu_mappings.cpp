#include "sim/cpu_mappings.h"

#include <iterator>
#include <utility>

#include "base/integers.h"
#include "sim/buffer_object.h"

namespace npu::sim {

namespace {

std::uintptr_t start_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }
std::uintptr_t end_of(const void* address, std::size_t bytes) {
    return start_of(address) + align_up<std::uint64_t>(bytes, page_bytes);
}

}  // namespace

std::vector<CpuMappings::Owner> CpuMappings::add(const void* address, std::size_t bytes, Owner owner) {
    const std::lock_guard lock(mutex_);
    std::vector<Owner> hidden = cut(start_of(address), end_of(address, bytes));
    ranges_.emplace(start_of(address), Range{end_of(address, bytes), std::move(owner)});
    return hidden;
}

std::vector<CpuMappings::Owner> CpuMappings::remove(const void* address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return cut(start_of(address), end_of(address, bytes));
}

std::vector<CpuMappings::Owner> CpuMappings::cut(std::uintptr_t begin, std::uintptr_t end) {
    std::vector<Owner> owners;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) {
        --at;
    }
    while (at != ranges_.end() && at->first < end) {
        const std::uintptr_t first = at->first;
        Range range = std::move(at->second);
        at = ranges_.erase(at);
        if (first < begin) {
            ranges_.emplace(first, Range{begin, range.owner});
        }
        if (range.end > end) {
            ranges_.emplace(end, Range{range.end, range.owner});
        }
        owners.push_back(std::move(range.owner));
    }
    return owners;
}

}  // namespace npu::sim
