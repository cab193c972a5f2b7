// The memory of a mock card: addresses that lead nowhere in the host, each allocation with a gap behind it, no address
// used twice. So an address that is too far, freed, of another card, or of the host is always found out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "axera/bytes.h"

namespace npu::axera::mock {

using Address = std::uint64_t;

class CardMemory {
  public:
    // `ordinal` sets the range of addresses apart from that of other cards.
    CardMemory(unsigned ordinal, std::uint64_t capacity);

    // Nothing when the rest of the capacity is too small. Takes whole pages of 4 KiB.
    std::optional<Address> allocate(std::uint64_t bytes);
    // False when the address is not the start of an allocation.
    bool release(Address address);
    void release_all();

    // Takes capacity without an address, for what models need; gives it back.
    bool reserve(std::uint64_t bytes);
    void unreserve(std::uint64_t bytes) { used_ -= bytes; }

    // The bytes [address, address + bytes) of one allocation; nothing when they are not.
    std::optional<std::span<std::uint8_t>> find(Address address, std::uint64_t bytes);
    // Where the allocation that holds the address begins.
    [[nodiscard]] std::optional<Address> start_of(Address address) const;

    // What was written is known byte by byte, in ranges.
    void mark_written(Address address, std::uint64_t bytes);
    [[nodiscard]] std::uint64_t unwritten(Address address, std::uint64_t bytes) const;

    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
    [[nodiscard]] std::uint64_t used() const { return used_; }
    [[nodiscard]] std::size_t allocations() const { return allocations_.size(); }
    [[nodiscard]] std::uint64_t allocated_bytes() const;

    static constexpr std::uint64_t page = 4096;

  private:
    struct Allocation {
        Buffer data;
        std::map<std::uint64_t, std::uint64_t> written;  // start -> end, apart from each other
    };
    using Allocations = std::map<Address, Allocation>;
    [[nodiscard]] Allocations::const_iterator holding(Address address) const;

    Allocations allocations_;
    Address next_;
    std::uint64_t capacity_, used_ = 0;
};

}  // namespace npu::axera::mock
