// The weight stream of a direct convolution, one kernel group after the other:
//
//   [group][block of channels][position of the window][kernel][channel]
//
// as others found and captured programs agree: groups of 16 kernels (32 of int8, 64 of int4) and blocks of 32 channels (16
// of tf32). Only kernels and channels that exist are stored, so a last group and a last block may be short; here they
// come out full, filled with zeros. (Source for short groups and blocks: an open driver's int8 convolutions, and an int16
// convolution of 8 kernels and 16 channels, both run on boards.)
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/convolution.h"
#include "sim/weight_decompressor.h"

namespace npu::sim {

class WeightStream {
  public:
    // `memory` is the mapped memory at weight_extent().begin. Both are used until the last next().
    void begin(const Convolution& convolution, const std::byte* memory);

    // The next group: [window_steps()][kernels_per_group()][step_channels()] in memory format. Valid until the next call.
    const std::byte* next();

  private:
    const std::byte* expand(std::uint64_t bytes);
    void fill(const std::byte* stored, std::uint32_t kernels);

    const Convolution* convolution_ = nullptr;
    const std::byte* memory_ = nullptr;
    std::uint32_t kernels_left_ = 0;
    std::optional<WeightDecompressor> decompressor_;
    std::vector<std::byte> expanded_;
    std::vector<std::byte> full_;
};

}  // namespace npu::sim
