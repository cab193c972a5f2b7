#include "compile/tiling.h"

#include <algorithm>

namespace npu::compile {

using rockchip::info;

namespace {

constexpr std::uint32_t entry_bytes = 64;

std::vector<KTile> equal_tiles(std::uint32_t blocks, std::uint32_t block, std::uint32_t count) {
    std::vector<KTile> tiles;
    tiles.reserve(count);
    std::uint32_t k0 = 0;
    for (std::uint32_t index = 0; index < count; ++index) {
        const std::uint32_t k = (blocks / count + (index < blocks % count ? 1 : 0)) * block;
        tiles.push_back({k0, k});
        k0 += k;
    }
    return tiles;
}

}  // namespace

std::vector<KTile> k_tiles(std::uint32_t k, Precision input, const ChipProfile& chip, const PlanOptions& options) {
    const std::uint32_t block = info(input).channels_per_block;
    if (k == 0 || block == 0) {
        return {};
    }
    std::uint32_t limit = chip.max_bytes_per_kernel * 8 / info(input).bits;
    if (options.limit_k) {
        limit = std::min(limit, chip.max_k);
    }
    if (options.max_k != 0) {
        limit = std::min(limit, options.max_k);
    }
    const auto allowed = [&](const KTile& tile) {
        const bool hazard = options.avoid_k_hazard && tile.k > chip.hazard_k_low && tile.k < chip.hazard_k_high;
        const std::uint32_t fewest_rows = options.rows_in_fours ? 4 : 1;
        const bool fits = tile.k <= limit && max_rows(tile.k, input, chip, options) >= fewest_rows;
        return (fits || tile.k == block) && !hazard;  // a tile has at least one block
    };
    const std::uint32_t blocks = ceil_div(k, block);
    const std::uint32_t fewest = ceil_div(blocks, std::max(limit / block, 1U));
    for (std::uint32_t count = fewest; count < blocks; ++count) {
        if (std::vector<KTile> tiles = equal_tiles(blocks, block, count); std::ranges::all_of(tiles, allowed)) {
            return tiles;
        }
    }
    return equal_tiles(blocks, block, blocks);
}

std::uint32_t line_entries(std::uint32_t width, std::uint32_t k, Precision input) {
    const std::uint64_t bytes = std::uint64_t{width} * k * info(input).bits / 8;
    return static_cast<std::uint32_t>(ceil_div<std::uint64_t>(bytes, entry_bytes));
}

std::uint32_t data_banks(std::uint32_t width, std::uint32_t height, std::uint32_t k, Precision input,
                         const ChipProfile& chip, const PlanOptions& options) {
    const std::uint64_t bytes = std::uint64_t{line_entries(width, k, input)} * entry_bytes * height;
    const auto banks = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(bytes, chip.cbuf_bank_bytes));
    return banks + (options.int8_slack_bank && input == Precision::int8 ? 1 : 0);
}

std::uint32_t weight_banks(std::uint32_t k, Precision input, const ChipProfile& chip, const PlanOptions& options) {
    const std::uint64_t group = std::uint64_t{info(input).kernels_per_group} * k * info(input).bits / 8;
    const auto group_banks = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(group, chip.cbuf_bank_bytes));
    return std::max(
        {1U, options.two_weight_banks ? chip.min_weight_banks : 0, options.group_in_weight_banks ? group_banks : 0});
}

bool one_pixel_wide(const PlanOptions& options) {
    return options.feature == Arrangement::row_major || options.output == Arrangement::row_major ||
           options.reduction == Reduction::accumulate;
}

std::uint32_t max_rows(std::uint32_t k, Precision input, const ChipProfile& chip, const PlanOptions& options) {
    const std::uint32_t for_weights = weight_banks(k, input, chip, options);
    if (for_weights >= chip.cbuf_banks || k == 0) {
        return 0;
    }
    std::uint32_t for_data = std::min(chip.cbuf_banks - for_weights, chip.max_data_banks);
    for_data -= options.int8_slack_bank && input == Precision::int8 ? 1 : 0;
    const std::uint64_t available = std::uint64_t{for_data} * chip.cbuf_bank_bytes;
    const std::uint64_t row_bytes = one_pixel_wide(options) ? std::uint64_t{line_entries(1, k, input)} * entry_bytes
                                                            : std::uint64_t{k} * info(input).bits / 8;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(available / row_bytes, chip.max_extent));
}

}  // namespace npu::compile
