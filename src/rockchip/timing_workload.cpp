#include "rockchip/timing_workload.h"

#include <algorithm>

#include "base/integers.h"

namespace npu::rockchip {

namespace {

// Calls with the size of each piece of `whole`, and whether it is the first.
template <typename Function>
void for_each_tile(std::uint32_t whole, std::uint32_t tile, Function function) {
    const std::uint32_t step = tile == 0 ? whole : tile;
    for (std::uint32_t at = 0; at < whole; at += step) {
        function(std::min(step, whole - at), at == 0);
    }
}

}  // namespace

std::uint64_t bytes_of(std::uint64_t count, Precision precision) {
    return ceil_div<std::uint64_t>(count * info(precision).bits, 8);
}

std::vector<std::vector<TaskWork>> tiled_tasks(const MatmulWork& matmul, const Tiling& tiling, std::uint32_t cores) {
    const PrecisionInfo& input = info(matmul.input);
    const std::uint32_t unit = tiling.n == 0 ? input.kernels_per_group : tiling.n;  // what N is dealt in
    const std::uint32_t units = ceil_div(matmul.n, unit);
    std::vector<std::vector<TaskWork>> lists;
    for (std::uint32_t core = 0; core < std::min(cores, units); ++core) {
        const std::uint32_t kernels = (units / cores + (core < units % cores ? 1 : 0)) * unit;
        std::vector<TaskWork>& tasks = lists.emplace_back();
        for_each_tile(matmul.m, tiling.m, [&](std::uint32_t m, bool) {
            for_each_tile(
                align_up<std::uint32_t>(matmul.k, input.channels_per_block), tiling.k,
                [&](std::uint32_t k, bool first_k) {
                    for_each_tile(kernels, tiling.n, [&](std::uint32_t n, bool first_n) {
                        const std::uint64_t results = bytes_of(std::uint64_t{m} * n, matmul.output);
                        const bool fetches = first_n || !tiling.features_stay;
                        tasks.push_back({.macs = std::uint64_t{m} * n * k,
                                         .feature_bytes = fetches ? bytes_of(std::uint64_t{m} * k, matmul.input) : 0,
                                         .weight_bytes = bytes_of(std::uint64_t{n} * k, matmul.input),
                                         .output_bytes = results,
                                         .command_words = tiling.command_words,
                                         .precision = matmul.input,
                                         .operand_bytes = tiling.accumulates && !first_k ? results : 0});
                    });
                });
        });
    }
    return lists;
}

}  // namespace npu::rockchip
