// A product of the fake librknnrt on the simulated NPU: the matrices go, as they lie in the library's native layouts, into
// buffers of the simulated device, and a program computes them. That it comes out right says that the layouts which the
// vendor documents are those that the machine reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fake {

// One product of int8 to int32 or (`halves`) fp16 to fp32, in whole blocks. Returns what went wrong; empty: nothing.
// Thread-safe; calls are serialised.
std::string multiply_on_machine(bool halves, std::uint32_t m, std::uint32_t n, std::uint32_t k,
                                const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b,
                                std::vector<std::uint8_t>& c);

}  // namespace fake
