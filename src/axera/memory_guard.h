// Whether models fit before they are loaded. A load that runs out of memory in the middle may leave the card without
// it, or hang the card, until it is rebooted (../shared/reference/axera.md, 1.12 and 7), so it is better not to begin.
// What a model takes is not much more than its file; caches come on top; and some memory must stay free, for what the
// card's own software needs.
#pragma once

#include <cstdint>

#include "axera/runtime.h"
#include "base/result.h"

namespace npu::axera {

struct MemoryNeed {
    std::uint64_t model_bytes = 0;                         // the sum of the files
    std::uint64_t cache_bytes = 0;                         // K/V and other buffers
    std::uint64_t floor_bytes = std::uint64_t{128} << 20;  // what stays free, as the vendor's runner leaves it
};

// Nothing when it fits, or when the card does not say how much is free. The error names need, floor and what is free.
Result<void> check_memory(const MemoryNeed& need, const CardInfo& card);

}  // namespace npu::axera
