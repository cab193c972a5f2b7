// How the threads of a team share the rows of a batch: in packs, because the kernels take rows together to write whole cache
// lines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/team.h"

namespace npu::gemm {

inline constexpr std::uint32_t rows_per_pack = 32;

// Calls the work for every pack of `rows`; a single pack stays in the calling thread. The work must not throw.
inline void share_rows(const Team& team, std::uint32_t rows,
                       const std::function<void(std::uint32_t first, std::uint32_t count)>& work) {
    const auto packs_from = [&](unsigned index, unsigned step) {
        for (std::uint32_t first = index * rows_per_pack; first < rows; first += step * rows_per_pack) {
            work(first, std::min(rows_per_pack, rows - first));
        }
    };
    if (rows <= rows_per_pack) {
        packs_from(0, 1);
    } else {
        team(packs_from);
    }
}

}  // namespace npu::gemm
