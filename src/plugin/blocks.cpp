#include "plugin/blocks.h"

#include <algorithm>
#include <cstring>

#include "base/float_bits.h"

#define GGML_COMMON_DECL_CPP
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include "ggml-common.h"
#pragma GCC diagnostic pop

namespace npu::plugin {

namespace {

using gemm::BlockTarget;
using gemm::numbers_per_scale;

// Writes the numbers of a row in order, each with the scale and offset that hold for it.
class Writer {
  public:
    explicit Writer(BlockTarget target) : target_(target) {}

    // Room for the next `count` numbers.
    std::int8_t* numbers(std::size_t count, float scale, float offset = 0) {
        for (std::size_t i = 0; i < count / numbers_per_scale; ++i) {
            *target_.scales++ = scale;
            *target_.offsets++ = offset;
        }
        return (target_.numbers += count) - count;
    }

  private:
    BlockTarget target_;
};

// Sixteen bytes that are computed with together, modulo 256: a register of every processor that the plugin is built for.
using Sixteen = std::uint8_t __attribute__((vector_size(16)));

Sixteen load(const std::uint8_t* from) {
    Sixteen bytes;
    std::memcpy(&bytes, from, sizeof(bytes));
    return bytes;
}

void store(Sixteen numbers, std::int8_t* to) { std::memcpy(to, &numbers, sizeof(numbers)); }

Sixteen low(Sixteen bytes) { return bytes & 0xf; }
Sixteen high(Sixteen bytes) { return bytes >> 4; }

void q8_0(const block_q8_0& block, Writer& to) {
    std::memcpy(to.numbers(QK8_0, half_to_float(block.d)), block.qs, QK8_0);
}

// Low nibbles are the first half of a block, high ones the second.
void q4_0(const block_q4_0& block, Writer& to) {
    std::int8_t* numbers = to.numbers(QK4_0, half_to_float(block.d));
    const Sixteen nibbles = load(block.qs);
    store(low(nibbles) - 8, numbers);
    store(high(nibbles) - 8, numbers + 16);
}

void q4_1(const block_q4_1& block, Writer& to) {
    std::int8_t* numbers = to.numbers(QK4_1, half_to_float(block.data.data.d), half_to_float(block.data.data.m));
    const Sixteen nibbles = load(block.qs);
    store(low(nibbles), numbers);
    store(high(nibbles), numbers + 16);
}

// The fifth bit of number i is bit i of the packed bytes: 16 or 0, for numbers 0-15 of two bytes.
Sixteen fifth_bits(const std::uint8_t* packed) {
    using Two = std::uint64_t __attribute__((vector_size(16)));
    const auto bytes =
        reinterpret_cast<Sixteen>(Two{packed[0] * 0x0101010101010101ULL, packed[1] * 0x0101010101010101ULL});
    const Sixteen own = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    return reinterpret_cast<Sixteen>((bytes & own) == own) & 16;
}

template <std::uint8_t bias>
void five_bits(const std::uint8_t* packed, const std::uint8_t* fifth, std::int8_t* numbers) {
    const Sixteen nibbles = load(packed);
    store((low(nibbles) | fifth_bits(fifth)) - bias, numbers);
    store((high(nibbles) | fifth_bits(fifth + 2)) - bias, numbers + 16);
}

void q5_0(const block_q5_0& block, Writer& to) {
    five_bits<16>(block.qs, block.qh, to.numbers(QK5_0, half_to_float(block.d)));
}

void q5_1(const block_q5_1& block, Writer& to) {
    five_bits<0>(block.qs, block.qh,
                 to.numbers(QK5_1, half_to_float(block.data.data.d), half_to_float(block.data.data.m)));
}

void iq4_nl(const block_iq4_nl& block, Writer& to) {
    static constexpr std::int8_t steps[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    std::int8_t* numbers = to.numbers(QK4_NL, half_to_float(block.d));
    for (int i = 0; i < QK4_NL / 2; ++i) {
        const unsigned byte = block.qs[i];
        numbers[i] = steps[byte & 0xf];
        numbers[i + QK4_NL / 2] = steps[byte >> 4];
    }
}

// Eight scales and eight minima of six bits in 12 bytes: the first four of each stand in the low bits of bytes 0-3 and 4-7;
// of the others bytes 8-11 hold the lower four bits, and the top bits of bytes 0-7 the upper two.
struct SixBits {
    int scale;
    int minimum;
};
SixBits six_bits(const std::uint8_t* packed, int i) {
    if (i < 4) {
        return {packed[i] & 63, packed[i + 4] & 63};
    }
    return {(packed[i + 4] & 0xf) | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4};
}

// Writes 32 numbers for each pair of a scale and a minimum of Q4_K and Q5_K: part_numbers(part, i) are the 16 from number i on.
template <typename Block, typename PartNumbers>
void scaled_parts(const Block& block, Writer& to, const PartNumbers& part_numbers) {
    const float scale = half_to_float(block.data.data.d);
    const float minimum = half_to_float(block.data.data.dmin);
    for (int part = 0; part < QK_K / 32; ++part) {
        const SixBits factors = six_bits(block.scales, part);
        std::int8_t* numbers =
            to.numbers(32, scale * static_cast<float>(factors.scale), -(minimum * static_cast<float>(factors.minimum)));
        store(part_numbers(part, 0), numbers);
        store(part_numbers(part, 16), numbers + 16);
    }
}

// Each 32 bytes hold two parts: the low nibbles one, the high ones the next.
Sixteen part_nibbles(const std::uint8_t* packed, int part, int i) {
    const Sixteen bytes = load(packed + part / 2 * 32 + i);
    return part % 2 == 0 ? low(bytes) : high(bytes);
}

void q4_k(const block_q4_K& block, Writer& to) {
    scaled_parts(block, to, [&](int part, int i) { return part_nibbles(block.qs, part, i); });
}

// With a fifth bit: bit p of byte i is that of number i in part p.
void q5_k(const block_q5_K& block, Writer& to) {
    scaled_parts(block, to, [&](int part, int i) {
        return part_nibbles(block.qs, part, i) | (load(block.qh + i) >> part & 1) << 4;
    });
}

// Halves of 128 numbers, each four parts of 32: the lower four bits of parts 0 and 2, 1 and 3 are the nibbles of 32 bytes, the
// upper two bits of all four those of 32 bytes that they share. A scale of eight bits for each 16.
void q6_k(const block_q6_K& block, Writer& to) {
    const float scale = half_to_float(block.d);
    for (int sixteen = 0; sixteen < QK_K / 16; ++sixteen) {
        const int half = sixteen / 8;
        const int part = sixteen / 2 % 4;
        const int i = sixteen % 2 * 16;
        const Sixteen nibbles = load(block.ql + half * 64 + part % 2 * 32 + i);
        const Sixteen four = part < 2 ? low(nibbles) : high(nibbles);
        const Sixteen two = load(block.qh + half * 32 + i) >> (part * 2) & 3;
        store((four | two << 4) - 32, to.numbers(16, scale * static_cast<float>(block.scales[sixteen])));
    }
}

template <typename Block, std::size_t numbers_per_block, void (*take_apart)(const Block&, Writer&)>
void all_blocks(const void* source, std::size_t count, BlockTarget target) {
    Writer to(target);
    const auto* block = static_cast<const Block*>(source);
    for (std::size_t done = 0; done < count; done += numbers_per_block) {
        take_apart(*block++, to);
    }
}

}  // namespace

BlockFormat block_format(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q8_0: return all_blocks<block_q8_0, QK8_0, q8_0>;
        case GGML_TYPE_Q4_0: return all_blocks<block_q4_0, QK4_0, q4_0>;
        case GGML_TYPE_Q4_1: return all_blocks<block_q4_1, QK4_1, q4_1>;
        case GGML_TYPE_Q5_0: return all_blocks<block_q5_0, QK5_0, q5_0>;
        case GGML_TYPE_Q5_1: return all_blocks<block_q5_1, QK5_1, q5_1>;
        case GGML_TYPE_IQ4_NL: return all_blocks<block_iq4_nl, QK4_NL, iq4_nl>;
        case GGML_TYPE_Q4_K: return all_blocks<block_q4_K, QK_K, q4_k>;
        case GGML_TYPE_Q5_K: return all_blocks<block_q5_K, QK_K, q5_k>;
        case GGML_TYPE_Q6_K: return all_blocks<block_q6_K, QK_K, q6_k>;
        default: return nullptr;
    }
}

}  // namespace npu::plugin
