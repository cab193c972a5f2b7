#include "sim/weight_stream.h"

#include <algorithm>
#include <cstring>

#include "base/integers.h"
#include "sim/windows.h"

namespace npu::sim {

namespace {

void grow(std::vector<std::byte>& buffer, std::size_t bytes) {
    if (buffer.size() < bytes) {
        buffer.resize(bytes);
    }
}

}  // namespace

void WeightStream::begin(const Convolution& convolution, const std::byte* memory) {
    convolution_ = &convolution;
    memory_ = memory;
    kernels_left_ = convolution.kernels;
    decompressor_.reset();
    if (convolution.compressed) {
        decompressor_.emplace(memory, convolution.lane_blocks);
    }
}

// The next bytes of the dense stream.
const std::byte* WeightStream::expand(std::uint64_t bytes) {
    if (!decompressor_) {
        const std::byte* stored = memory_;
        memory_ += bytes;
        return stored;
    }
    grow(expanded_, align_up(bytes, std::uint64_t{compressed_tile_bytes}));
    for (std::uint64_t at = 0; at < bytes; at += compressed_tile_bytes) {
        decompressor_->read_tile(expanded_.data() + at);
    }
    return expanded_.data();
}

// Spreads what is stored to full groups and blocks.
void WeightStream::fill(const std::byte* stored, std::uint32_t kernels) {
    const std::size_t bits = rockchip::info(convolution_->input).bits;
    const std::uint32_t group = convolution_->kernels_per_group();
    const std::size_t step_bytes = step_channels(*convolution_) * bits / 8;
    const std::size_t pixel_bytes = convolution_->row_bytes();
    const std::size_t total = std::size_t{window_steps(*convolution_)} * group * step_bytes;
    grow(full_, total);
    std::memset(full_.data(), 0, total);
    std::byte* to = full_.data();
    for (std::size_t offset = 0; offset < pixel_bytes; offset += step_bytes) {
        const std::size_t bytes = std::min(step_bytes, pixel_bytes - offset);
        for (std::uint32_t position = 0; position < convolution_->positions(); ++position) {
            for (std::uint32_t n = 0; n < kernels; ++n) {
                std::memcpy(to + n * step_bytes, stored, bytes);
                stored += bytes;
            }
            to += group * step_bytes;
        }
    }
}

const std::byte* WeightStream::next() {
    const std::uint32_t group = convolution_->kernels_per_group();
    const std::uint32_t kernels = std::min(kernels_left_, group);
    kernels_left_ -= kernels;
    const std::byte* stored = expand(kernels * convolution_->kernel_bytes());
    if (kernels == group && convolution_->channels % step_channels(*convolution_) == 0) {
        return stored;
    }
    fill(stored, kernels);
    return full_.data();
}

}  // namespace npu::sim
