#include "axera/mock/memory.h"

#include <algorithm>

namespace npu::axera::mock {

namespace {
constexpr std::uint8_t unwritten_byte = 0xFF;  // NaN as bf16, fp16 and fp32

std::uint64_t pages_of(std::uint64_t bytes) {
    return (bytes + CardMemory::page - 1) / CardMemory::page * CardMemory::page;
}
}  // namespace

// Above 2^47: no address of a host's program on x86-64 or AArch64 lies there.
CardMemory::CardMemory(unsigned ordinal, std::uint64_t capacity)
    : next_((std::uint64_t{1} << 56) + (static_cast<std::uint64_t>(ordinal) << 48)), capacity_(capacity) {}

bool CardMemory::reserve(std::uint64_t bytes) {
    if (bytes > capacity_ - used_) {
        return false;
    }
    used_ += bytes;
    return true;
}

std::optional<Address> CardMemory::allocate(std::uint64_t bytes) {
    if (bytes > capacity_ || !reserve(pages_of(bytes))) {
        return std::nullopt;
    }
    const Address address = next_;
    next_ += pages_of(bytes) + page;  // the gap
    allocations_[address].data.assign(bytes, unwritten_byte);
    return address;
}

bool CardMemory::release(Address address) {
    const auto at = allocations_.find(address);
    if (at == allocations_.end()) {
        return false;
    }
    used_ -= pages_of(at->second.data.size());
    allocations_.erase(at);
    return true;
}

void CardMemory::release_all() {
    while (!allocations_.empty()) {
        release(allocations_.begin()->first);
    }
}

CardMemory::Allocations::const_iterator CardMemory::holding(Address address) const {
    auto at = allocations_.upper_bound(address);
    if (at == allocations_.begin()) {
        return allocations_.end();
    }
    --at;
    return address - at->first < at->second.data.size() ? at : allocations_.end();
}

std::optional<std::span<std::uint8_t>> CardMemory::find(Address address, std::uint64_t bytes) {
    const auto at = holding(address);
    if (at == allocations_.end() || bytes > at->second.data.size() - (address - at->first)) {
        return std::nullopt;
    }
    return std::span(allocations_[at->first].data).subspan(address - at->first, bytes);
}

std::optional<Address> CardMemory::start_of(Address address) const {
    const auto at = holding(address);
    return at == allocations_.end() ? std::nullopt : std::optional(at->first);
}

void CardMemory::mark_written(Address address, std::uint64_t bytes) {
    const auto holder = holding(address);
    if (holder == allocations_.end() || bytes == 0) {
        return;
    }
    auto& written = allocations_[holder->first].written;
    std::uint64_t start = address - holder->first;
    std::uint64_t end = start + bytes;
    auto at = written.upper_bound(start);
    if (at != written.begin() && std::prev(at)->second >= start) {
        --at;
    }
    while (at != written.end() && at->first <= end) {
        start = std::min(start, at->first);
        end = std::max(end, at->second);
        at = written.erase(at);
    }
    written[start] = end;
}

std::uint64_t CardMemory::unwritten(Address address, std::uint64_t bytes) const {
    const auto holder = holding(address);
    if (holder == allocations_.end()) {
        return bytes;
    }
    const std::uint64_t start = address - holder->first;
    const std::uint64_t end = start + bytes;
    std::uint64_t known = 0;
    for (const auto& [from, to] : holder->second.written) {
        const std::uint64_t first = std::max(from, start);
        const std::uint64_t last = std::min(to, end);
        known += first < last ? last - first : 0;
    }
    return bytes - known;
}

std::uint64_t CardMemory::allocated_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [address, allocation] : allocations_) {
        bytes += allocation.data.size();
    }
    return bytes;
}

}  // namespace npu::axera::mock
