// The expected results, by arithmetic that shares nothing with the machine: 64-bit, 128-bit and 640-bit integers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/float_bits.h"
#include "sim/test_support.h"

namespace npu::sim::test {

namespace {

// 640-bit two's complement with weight 2^-298 for the lowest bit.
class BigFixed {
  public:
    void add(std::uint64_t value, unsigned shift, bool negative) {
        std::array<std::uint64_t, 10> term{};
        const unsigned limb = shift / 64;
        const unsigned bit = shift % 64;
        term[limb] = value << bit;
        if (bit != 0) {
            term[limb + 1] = value >> (64 - bit);
        }
        if (negative) {
            negate(term);
        }
        accumulate(limbs_, term);
    }
    [[nodiscard]] float rounded() const {
        auto limbs = limbs_;
        const bool negative = limbs.back() >> 63 != 0;
        if (negative) {
            negate(limbs);
        }
        int top = -1;
        for (int bit = 639; bit >= 0 && top < 0; --bit) {
            top = get(limbs, bit) ? bit : -1;
        }
        if (top < 0) {
            return 0.0F;
        }
        // 53 bits, the last one set when anything follows: rounding that again to float is exact.
        std::uint64_t mantissa = 0;
        const int low = top - 52;
        for (int bit = top; bit >= low; --bit) {
            mantissa = mantissa << 1 | (bit >= 0 && get(limbs, bit) ? 1U : 0U);
        }
        for (int bit = low - 1; bit >= 0; --bit) {
            mantissa |= get(limbs, bit) ? 1U : 0U;
        }
        const double magnitude = std::ldexp(static_cast<double>(mantissa), low - 298);
        return static_cast<float>(negative ? -magnitude : magnitude);
    }

  private:
    using Limbs = std::array<std::uint64_t, 10>;
    static bool get(const Limbs& limbs, int bit) {
        return (limbs[static_cast<std::size_t>(bit) / 64] >> (bit % 64) & 1U) != 0;
    }
    static void accumulate(Limbs& sum, const Limbs& term) {
        unsigned __int128 carry = 0;
        for (std::size_t i = 0; i < sum.size(); ++i) {
            carry += static_cast<unsigned __int128>(sum[i]) + term[i];
            sum[i] = static_cast<std::uint64_t>(carry);
            carry >>= 64;
        }
    }
    static void negate(Limbs& limbs) {
        for (std::uint64_t& limb : limbs) {
            limb = ~limb;
        }
        Limbs one{};
        one[0] = 1;
        accumulate(limbs, one);
    }
    Limbs limbs_{};
};

std::int64_t as_integer(Precision precision, std::uint32_t code) {
    const unsigned unused = 32 - rockchip::info(precision).bits;
    return static_cast<std::int32_t>(code << unused) >> unused;
}

}  // namespace

float as_float(Precision precision, std::uint32_t code) {
    switch (precision) {
        case Precision::fp16: return half_to_float(static_cast<std::uint16_t>(code));
        case Precision::bf16: return std::bit_cast<float>(code << 16);
        default: return std::bit_cast<float>(code & 0xffffe000U);  // tf32
    }
}

float reference_group_sum(const float* a, const float* b, std::size_t count) {
    BigFixed sum;
    for (std::size_t i = 0; i < count; ++i) {
        int exponent_a = 0;
        int exponent_b = 0;
        const auto mantissa_a = static_cast<std::int64_t>(std::ldexp(std::frexp(a[i], &exponent_a), 24));
        const auto mantissa_b = static_cast<std::int64_t>(std::ldexp(std::frexp(b[i], &exponent_b), 24));
        std::uint64_t product = static_cast<std::uint64_t>(std::abs(mantissa_a * mantissa_b));
        int shift = exponent_a + exponent_b - 48 + 298;
        while (product != 0 && shift < 0) {  // subnormals have trailing zeros here
            product >>= 1;
            ++shift;
        }
        if (product != 0) {
            sum.add(product, static_cast<unsigned>(shift), (mantissa_a < 0) != (mantissa_b < 0));
        }
    }
    return sum.rounded();
}

std::uint32_t single_code(float value) { return std::isnan(value) ? 0x7fc00000 : std::bit_cast<std::uint32_t>(value); }

std::uint32_t half_code(float value) { return std::isnan(value) ? 0x7c01 : float_to_half(value); }

std::vector<std::uint32_t> reference_product(const Matmul& matmul, const Operands& operands) {
    std::vector<std::uint32_t> product;
    product.reserve(std::size_t{matmul.m} * matmul.n);
    std::vector<std::int64_t> a24;  // fp16 values are whole multiples of 2^-24: 128-bit integers hold their sums
    std::vector<std::int64_t> b24;
    if (matmul.input == Precision::fp16) {
        const auto scaled = [](std::uint32_t code) {
            return static_cast<std::int64_t>(std::ldexp(as_float(Precision::fp16, code), 24));
        };
        std::ranges::transform(operands.a, std::back_inserter(a24), scaled);
        std::ranges::transform(operands.b, std::back_inserter(b24), scaled);
    }
    for (std::uint32_t m = 0; m < matmul.m; ++m) {
        for (std::uint32_t n = 0; n < matmul.n; ++n) {
            const std::uint32_t* a = &operands.a[std::size_t{m} * matmul.k];
            const std::uint32_t* b = &operands.b[std::size_t{n} * matmul.k];
            if (!rockchip::info(matmul.input).floating) {
                std::int64_t sum = 0;
                for (std::uint32_t k = 0; k < matmul.k; ++k) {
                    sum += as_integer(matmul.input, a[k]) * as_integer(matmul.input, b[k]);
                }
                if (matmul.output == Precision::int16) {
                    product.push_back(static_cast<std::uint16_t>(std::clamp<std::int64_t>(sum, -32768, 32767)));
                } else if (matmul.output == Precision::fp32) {
                    product.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(sum)));
                } else {
                    product.push_back(static_cast<std::uint32_t>(sum));
                }
                continue;
            }
            float sum = 0;
            for (std::uint32_t k = 0; k < matmul.k; k += 32) {
                float x[32];
                float y[32];
                const std::uint32_t count = std::min(32U, matmul.k - k);
                if (matmul.input == Precision::fp16) {
                    __int128 exact = 0;
                    for (std::uint32_t i = 0; i < count; ++i) {
                        exact += static_cast<__int128>(a24[std::size_t{m} * matmul.k + k + i]) *
                                 b24[std::size_t{n} * matmul.k + k + i];
                    }
                    sum += std::ldexp(static_cast<float>(exact), -48);
                    continue;
                }
                for (std::uint32_t i = 0; i < count; ++i) {
                    x[i] = as_float(matmul.input, a[k + i]);
                    y[i] = as_float(matmul.input, b[k + i]);
                }
                sum += reference_group_sum(x, y, count);
            }
            product.push_back(matmul.output == Precision::fp16 ? half_code(sum) : single_code(sum));
        }
    }
    return product;
}

}  // namespace npu::sim::test
