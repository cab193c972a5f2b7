#include "sim/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace npu::sim {

namespace {

constexpr int digit_bits = 32;
constexpr int lowest_exponent = -298;  // of the product of the two smallest subnormals

struct Parts {
    std::uint32_t mantissa;
    std::uint32_t exponent;  // value = mantissa * 2^(exponent - 150), exponent >= 1
};

Parts split(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t field = (bits >> 23) & 0xff;
    const std::uint32_t fraction = bits & 0x7fffff;
    return {field == 0 ? fraction : fraction | 0x800000, std::max(field, 1U)};
}

}  // namespace

void ExactSum::add_product(float a, float b) {
    const Parts left = split(a);
    const Parts right = split(b);
    const std::uint64_t product = std::uint64_t{left.mantissa} * right.mantissa;  // 48 bits
    const std::uint32_t position = left.exponent + right.exponent - 2;            // above the lowest exponent
    const std::uint32_t digit = position / digit_bits;
    const std::uint32_t shift = position % digit_bits;
    const std::uint64_t low = (product & 0xffffffff) << shift;
    const std::uint64_t high = (product >> 32) << shift;
    const std::int64_t sign = std::signbit(a) != std::signbit(b) ? -1 : 1;
    digits_[digit] += sign * static_cast<std::int64_t>(low & 0xffffffff);
    digits_[digit + 1] += sign * static_cast<std::int64_t>((low >> 32) + (high & 0xffffffff));
    digits_[digit + 2] += sign * static_cast<std::int64_t>(high >> 32);
}

float ExactSum::rounded() const {
    auto digits = digits_;
    const auto carry = [&digits] {
        std::int64_t moved = 0;
        for (std::int64_t& digit : digits) {
            digit += moved;
            moved = digit >> digit_bits;
            digit &= 0xffffffff;
        }
        return moved;  // -1 for a negative sum
    };
    const bool negative = carry() < 0;
    if (negative) {
        for (std::int64_t& digit : digits) {
            digit = -digit;
        }
        carry();
    }
    int top = static_cast<int>(digits.size()) - 1;
    while (top >= 0 && digits[static_cast<std::size_t>(top)] == 0) {
        --top;
    }
    if (top < 0) {
        return 0.0F;
    }
    const auto bit = [&digits](int position) {
        return position < 0 ? 0U
                            : static_cast<unsigned>(digits[static_cast<std::size_t>(position / digit_bits)] >>
                                                    (position % digit_bits)) &
                                  1U;
    };
    const int highest =
        top * digit_bits + std::bit_width(static_cast<std::uint64_t>(digits[static_cast<std::size_t>(top)])) - 1;
    // Keep 24 bits, fewer where the float would be subnormal.
    const int last = std::max(highest - 23, -149 - lowest_exponent);
    std::uint32_t kept = 0;
    for (int position = highest; position >= last; --position) {
        kept = kept << 1 | bit(position);
    }
    const bool half = bit(last - 1) != 0;
    bool beyond = false;
    for (int position = last - 2; position >= 0 && !beyond; --position) {
        if (position % digit_bits == digit_bits - 1) {  // a whole digit at once
            beyond = digits[static_cast<std::size_t>(position / digit_bits)] != 0;
            position -= digit_bits - 1;
        } else {
            beyond = bit(position) != 0;
        }
    }
    kept += half && (beyond || (kept & 1U) != 0) ? 1 : 0;
    const float magnitude = std::ldexp(static_cast<float>(kept), last + lowest_exponent);
    return negative ? -magnitude : magnitude;
}

}  // namespace npu::sim
