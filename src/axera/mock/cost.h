// What things take on the virtual clock of the mock, so that a test can say that a change makes a token cheaper.
//
// Measured by others (../shared/reference/axera.md, 1.12 and 5): a run takes 457 us and the time that all bytes it
// touches take at 25 GB/s; a small copy from memory that is not pinned takes about 1 ms. Assumed: other calls and
// copies from pinned memory take one round trip of 60 us; the bus carries 400 MB/s (PCIe 2.0, one lane).
#pragma once

#include <cstdint>

namespace npu::axera::mock::cost {

inline constexpr std::uint64_t round_trip_ns = 60'000;
inline constexpr std::uint64_t unpinned_copy_ns = 1'000'000;
inline constexpr std::uint64_t execute_ns = 457'000;

constexpr std::uint64_t memory_ns(std::uint64_t bytes) { return bytes / 25; }
constexpr std::uint64_t bus_ns(std::uint64_t bytes) { return bytes * 5 / 2; }

}  // namespace npu::axera::mock::cost
