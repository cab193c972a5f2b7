// The types of tensors as the card names them, and numbers of each for runs without data.
#include <array>
#include <cstring>

#include "axera/executor.h"

namespace npu::axera {

namespace {

struct TypeInfo {
    const char* name;
    unsigned bits;
};

// In the order of axcl::DataType.
constexpr std::array types{TypeInfo{"none", 0}, TypeInfo{"s4", 4},   TypeInfo{"u4", 4},    TypeInfo{"s8", 8},
                           TypeInfo{"u8", 8},   TypeInfo{"s16", 16}, TypeInfo{"u16", 16},  TypeInfo{"s32", 32},
                           TypeInfo{"u32", 32}, TypeInfo{"s64", 64}, TypeInfo{"u64", 64},  TypeInfo{"fp4", 4},
                           TypeInfo{"fp8", 8},  TypeInfo{"f16", 16}, TypeInfo{"bf16", 16}, TypeInfo{"f32", 32},
                           TypeInfo{"f64", 64}};

const TypeInfo& info_of(axcl::DataType type) {
    const auto index = static_cast<std::size_t>(type);
    return types[index < types.size() ? index : 0];
}

std::uint64_t next(std::uint64_t& state) {
    state += 0x9E3779B97F4A7C15U;
    std::uint64_t value = state;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9U;
    value = (value ^ value >> 27) * 0x94D049BB133111EBU;
    return value ^ value >> 31;
}

// A multiple of 2^-7 in [-1, 1): exact in every float type of 16 bits and more.
float fraction(std::uint64_t bits) { return static_cast<float>(static_cast<int>(bits >> 56) - 128) / 128.0F; }

}  // namespace

const char* data_type_name(axcl::DataType type) { return info_of(type).name; }
unsigned data_type_bits(axcl::DataType type) { return info_of(type).bits; }

Buffer make_pattern(axcl::DataType type, std::size_t bytes, std::uint64_t seed) {
    Buffer pattern(bytes);
    std::uint64_t state = seed;
    const std::size_t step = std::max(1U, data_type_bits(type) / 8);
    for (std::size_t at = 0; at + step <= bytes; at += step) {
        std::uint64_t bits = next(state);
        const float value = fraction(bits);
        std::uint32_t word = 0;
        std::memcpy(&word, &value, sizeof(word));
        if (type == axcl::DataType::bf16) {
            bits = word >> 16;
        } else if (type == axcl::DataType::fp32) {
            bits = word;
        } else if (type == axcl::DataType::fp16) {
            // Sign, exponent less the difference of biases, the ten upper bits of the fraction; 0 stays 0.
            bits =
                value == 0.0F ? 0 : (word >> 16 & 0x8000) | (((word >> 23 & 0xFF) - 112) << 10) | (word >> 13 & 0x3FF);
        } else if (type == axcl::DataType::fp64) {
            const double wide = value;
            std::memcpy(&bits, &wide, sizeof(bits));
        }
        std::memcpy(pattern.data() + at, &bits, step);
    }
    return pattern;
}

}  // namespace npu::axera
