#include "sim/weight_decompressor.h"

#include <bit>
#include <cstring>

#include "base/integers.h"
#include "base/result.h"

namespace npu::sim {

namespace {

constexpr std::size_t block_bytes = 16;
constexpr std::uint64_t lane_alignment = 64;

struct Code {
    std::uint8_t value;
    std::uint8_t length;
};
constexpr std::array<Code, 8> codes{{{0, 2}, {1, 2}, {7, 3}, {3, 3}, {6, 3}, {10, 4}, {18, 5}, {2, 5}}};
constexpr unsigned longest_code = 5;
constexpr unsigned longest_symbol = longest_code + 1 + 6;

// Rank of the code that the next five bits start with. The codes are complete: every pattern starts with one.
constexpr std::array<std::uint8_t, 1U << longest_code> ranks = [] {
    std::array<std::uint8_t, 1U << longest_code> table{};
    for (std::uint32_t bits = 0; bits < table.size(); ++bits) {
        for (std::uint8_t rank = 0; rank < codes.size(); ++rank) {
            if ((bits & ((1U << codes[rank].length) - 1)) == codes[rank].value) {
                table[bits] = rank;
            }
        }
    }
    return table;
}();

}  // namespace

std::uint64_t compressed_bytes(const std::array<std::uint32_t, compressed_lanes>& lane_blocks) {
    std::uint64_t bytes = 0;
    for (const std::uint32_t blocks : lane_blocks) {
        bytes += align_up(std::uint64_t{blocks} * block_bytes, lane_alignment);
    }
    return bytes;
}

WeightDecompressor::WeightDecompressor(const std::byte* stream,
                                       const std::array<std::uint32_t, compressed_lanes>& lane_blocks) {
    for (std::size_t number = 0; number < lanes_.size(); ++number) {
        const std::uint64_t bytes = std::uint64_t{lane_blocks[number]} * block_bytes;
        lanes_[number].next = stream;
        lanes_[number].end = stream + bytes;
        read_header(number, lanes_[number]);
        stream += align_up(bytes, lane_alignment);
    }
}

void WeightDecompressor::fail(std::size_t number, Lane& lane, const char* what) {
    lane.good = false;
    if (!error_) {
        error_ = format("lane %zu of the compressed weights %s", number, what);
    }
}

void WeightDecompressor::read_header(std::size_t number, Lane& lane) {
    if (lane.end - lane.next < static_cast<std::ptrdiff_t>(block_bytes)) {
        fail(number, lane, "is shorter than its header");
        return;
    }
    std::array<std::uint8_t, block_bytes> header{};
    std::memcpy(header.data(), lane.next, block_bytes);
    lane.next += block_bytes;
    lane.modal = header[1];
    unsigned seen = 0;
    for (std::size_t rank = 0; rank < lane.widths.size(); ++rank) {
        lane.widths[rank] = header[4 + rank / 2] >> (rank % 2 * 4) & 15U;
        seen |= 1U << lane.widths[rank];
    }
    if (header[0] != 0) {
        fail(number, lane, "does not begin with a zero byte");
    } else if (seen != 0xff) {
        fail(number, lane, "has a code book that does not name each width from 0 to 7 once");
    }
}

std::uint8_t WeightDecompressor::read_weight(std::size_t number, Lane& lane) {
    while (lane.count < longest_symbol && lane.next != lane.end) {
        lane.bits |= std::uint64_t{static_cast<std::uint8_t>(*lane.next++)} << lane.count;
        lane.count += 8;
    }
    const unsigned rank = ranks[lane.bits & ((1U << longest_code) - 1)];
    const unsigned width = lane.widths[rank];
    const unsigned length = codes[rank].length;
    const unsigned low_bits = width > 1 ? width - 1 : 0;
    if (length + 1 + low_bits > lane.count) {
        fail(number, lane, "ends before its last weight");
        return 0;
    }
    const bool sign = (lane.bits >> length & 1U) != 0;
    const auto low = static_cast<unsigned>(lane.bits >> (length + 1)) & ((1U << low_bits) - 1);
    const unsigned magnitude = width == 0 ? 0 : 1U << (width - 1) | low;
    lane.bits >>= length + 1 + low_bits;
    lane.count -= length + 1 + low_bits;
    return static_cast<std::uint8_t>(lane.modal + (sign ? 255 - magnitude : magnitude));
}

void WeightDecompressor::read_tile(std::byte* weights) {
    constexpr std::size_t kernels = 32;
    constexpr std::size_t channels = 32;
    for (std::size_t number = 0; number < lanes_.size(); ++number) {
        Lane& lane = lanes_[number];
        const std::size_t parity = number / 8;
        const std::size_t quad = number % 8;
        for (std::size_t n = parity; n < kernels; n += 2) {
            for (std::size_t c = 4 * quad; c < 4 * quad + 4; ++c) {
                weights[n * channels + c] = static_cast<std::byte>(lane.good ? read_weight(number, lane) : 0);
            }
        }
    }
}

std::optional<std::string> find_stream_error(const Convolution& convolution, const std::byte* stream) {
    WeightDecompressor decompressor(stream, convolution.lane_blocks);
    std::array<std::byte, compressed_tile_bytes> tile;
    for (std::uint64_t at = 0; at < convolution.weight_bytes && !decompressor.error(); at += tile.size()) {
        decompressor.read_tile(tile.data());
    }
    return decompressor.error();
}

}  // namespace npu::sim
