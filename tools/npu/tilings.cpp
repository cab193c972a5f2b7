#include "tilings.h"

#include <algorithm>
#include <array>

#include "base/integers.h"

namespace npu::tools {

using compile::MatmulShape;
using rockchip::ChipProfile;
using rockchip::TaskWork;

namespace {

constexpr std::uint64_t bank = 32768;
constexpr std::uint64_t words = 116;  // of a task's command list, roughly

struct Cut {
    std::uint32_t rows;
    std::uint32_t channels;
    std::uint32_t k;
    bool keep_weights = false;  // where they fit beside the features
};

// Every core gets a third of the channels, in tasks of the cut; rows are innermost.
std::vector<std::vector<TaskWork>> by_channels(const MatmulShape& shape, const ChipProfile& chip, const Cut& cut) {
    const std::uint64_t bits = rockchip::info(shape.input).bits;
    const std::uint32_t group = rockchip::info(shape.input).kernels_per_group;
    const std::uint32_t n = align_up(shape.n, group);
    std::vector<std::vector<TaskWork>> cores(chip.cores);
    const std::uint32_t share = align_up(ceil_div(n, chip.cores), group);
    for (std::uint32_t core = 0; core < chip.cores; ++core) {
        const std::uint32_t first = std::min(core * share, n);
        const std::uint32_t last = std::min(first + share, n);
        for (std::uint32_t k0 = 0; k0 < shape.k; k0 += cut.k) {
            const std::uint64_t k = align_up(std::min(cut.k, shape.k - k0), 32U);
            for (std::uint32_t n0 = first; n0 < last; n0 += cut.channels) {
                const std::uint64_t channels = std::min(cut.channels, last - n0);
                for (std::uint32_t m0 = 0; m0 < shape.m; m0 += cut.rows) {
                    const std::uint64_t m = std::min(cut.rows, shape.m - m0);
                    const std::uint64_t data_banks = ceil_div(m * k * bits / 8, bank);
                    const bool kept =
                        cut.keep_weights && m0 != 0 && channels * k * bits / 8 <= (chip.cbuf_banks - data_banks) * bank;
                    cores[core].push_back({.macs = m * channels * k,
                                           .feature_bytes = m * k * bits / 8,
                                           .weight_bytes = kept ? 0 : channels * k * bits / 8,
                                           .output_bytes = m * channels * rockchip::info(shape.output).bits / 8,
                                           .command_words = words,
                                           .precision = shape.input});
                }
            }
        }
    }
    std::erase_if(cores, [](const auto& tasks) { return tasks.empty(); });
    return cores;
}

std::vector<std::vector<TaskWork>> blocks_16_by_128(const MatmulShape& shape, const ChipProfile& chip) {
    return by_channels(shape, chip, {.rows = 16, .channels = 128, .k = 8192, .keep_weights = true});
}

std::vector<std::vector<TaskWork>> eight_banks(const MatmulShape& shape, const ChipProfile& chip) {
    const std::uint32_t k = std::min(shape.k, 2048U);
    const auto rows = static_cast<std::uint32_t>(8 * bank * 8 / rockchip::info(shape.input).bits / k);
    return by_channels(shape, chip, {.rows = std::clamp(rows, 1U, 128U), .channels = 8192, .k = k});
}

std::vector<std::vector<TaskWork>> sixty_four_rows(const MatmulShape& shape, const ChipProfile& chip) {
    const std::uint32_t k = std::min(shape.k, 8192U);
    const std::uint64_t row_bytes = std::uint64_t{k} * rockchip::info(shape.input).bits / 8;
    const std::uint64_t weight_banks = ceil_div<std::uint64_t>(std::uint64_t{k} * 32, bank);
    const auto fitting = static_cast<std::uint32_t>((chip.cbuf_banks - weight_banks) * bank / row_bytes);
    return by_channels(shape, chip, {.rows = std::clamp(fitting, 1U, 64U), .channels = 8192, .k = k});
}

constexpr std::array all{
    Tiling{"16x128",
           "one task per 16 rows and 128 channels, K up to 8192, weights kept where they fit, 32 tasks a kick", 32,
           blocks_16_by_128},
    Tiling{"8 banks", "features in 8 banks, up to 128 rows, K up to 2048, chained", 0, eight_banks},
    Tiling{"64 rows", "up to 64 rows with fitted banks, K up to 8192, chained", 0, sixty_four_rows},
};

}  // namespace

std::span<const Tiling> published_tilings() { return all; }

}  // namespace npu::tools
