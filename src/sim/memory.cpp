#include "sim/memory.h"

#include <algorithm>

namespace npu::sim {

Result<void> MappedMemory::map(std::uint64_t iova, std::span<std::byte> bytes) {
    constexpr std::uint64_t window = std::uint64_t{1} << 32;
    if (iova >= window || bytes.size() > window - iova) {
        return make_error(ErrorCode::invalid_argument, "range 0x%llx + %zu leaves the 32-bit address window",
                          static_cast<unsigned long long>(iova), bytes.size());
    }
    const auto next = std::ranges::upper_bound(ranges_, iova, {}, &Range::iova);
    const bool hits_next = next != ranges_.end() && next->iova < iova + bytes.size();
    const bool hits_previous = next != ranges_.begin() && (next - 1)->iova + (next - 1)->bytes.size() > iova;
    if (hits_next || hits_previous) {
        return make_error(ErrorCode::invalid_argument, "range 0x%llx + %zu overlaps a mapped one",
                          static_cast<unsigned long long>(iova), bytes.size());
    }
    ranges_.insert(next, {iova, bytes});
    return {};
}

std::span<std::byte> MappedMemory::from(std::uint64_t iova) const {
    const auto next = std::ranges::upper_bound(ranges_, iova, {}, &Range::iova);
    if (next == ranges_.begin()) {
        return {};
    }
    const Range& range = *(next - 1);
    const std::uint64_t offset = iova - range.iova;
    return offset < range.bytes.size() ? range.bytes.subspan(offset) : std::span<std::byte>{};
}

}  // namespace npu::sim
