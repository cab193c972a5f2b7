// Compressed int8 weights. The hardware expands them on their way into the buffer, which saves memory traffic where
// weights dominate. The codec is lossless and was decoded by others from vendor programs and checked on a board.
//
// The dense stream is cut into tiles of 32 kernels x 32 channels (1024 bytes). Sixteen *lanes* share a tile: lane
// 8 * parity + quad holds, of the even (parity 0) or odd (1) kernels, the channels 4 * quad to 4 * quad + 3, kernel after
// kernel. Each lane is a bit stream of its own, least significant bit first, and the lanes lie one behind the other, each
// padded to 64 bytes. A lane begins with 16 bytes: byte 0 is 0, byte 1 the most frequent weight ("modal"), bytes 4 to 7
// eight nibbles, low nibble first: which width of a magnitude has the i-th shortest code. Then, for each weight,
//
//   r         = (weight - modal) & 255
//   sign      = r >= 128
//   magnitude = sign ? 255 - r : r, of `width` bits (0 to 7)
//   stream    = code of the width, one bit of sign, and the width - 1 bits below the magnitude's leading one
//
// Codes by rank, value/length, least significant bit first: 0/2 1/2 7/3 3/3 6/3 10/4 18/5 2/5.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/convolution.h"

namespace npu::sim {

inline constexpr std::size_t compressed_lanes = 16;
inline constexpr std::size_t compressed_tile_bytes = 1024;

// Bytes that lanes of these sizes (in 16-byte blocks) take in memory.
std::uint64_t compressed_bytes(const std::array<std::uint32_t, compressed_lanes>& lane_blocks);

// Expands one stream from its beginning to its end. Does not own it.
class WeightDecompressor {
  public:
    // `stream` holds compressed_bytes(lane_blocks) bytes.
    WeightDecompressor(const std::byte* stream, const std::array<std::uint32_t, compressed_lanes>& lane_blocks);

    // The next tile. Where a lane has ended or its header is not one, its weights are 0.
    void read_tile(std::byte* weights);

    // What is wrong with the stream as far as it was read; empty when nothing is.
    [[nodiscard]] const std::optional<std::string>& error() const { return error_; }

  private:
    struct Lane {
        const std::byte* next = nullptr;
        const std::byte* end = nullptr;
        std::uint64_t bits = 0;  // not consumed yet, lowest first
        unsigned count = 0;
        std::uint8_t modal = 0;
        std::array<std::uint8_t, 8> widths{};  // by rank
        bool good = true;
    };

    void read_header(std::size_t number, Lane& lane);
    std::uint8_t read_weight(std::size_t number, Lane& lane);
    void fail(std::size_t number, Lane& lane, const char* what);

    std::array<Lane, compressed_lanes> lanes_;
    std::optional<std::string> error_;
};

// Why the weights of a compressed convolution cannot be expanded; empty when they can. `stream` is the mapped memory at
// weight_extent().begin.
std::optional<std::string> find_stream_error(const Convolution& convolution, const std::byte* stream);

}  // namespace npu::sim
