// The array on AVX2, FMA and F16C: same results as the portable kernels, bit for bit.
//
// Floats, several rows: the 16 kernels x 32 channels of a group are decoded to doubles once, transposed, so that a
// vector holds one channel of four kernels. Three rows times 16 kernels is then twelve accumulators that stay in
// registers for 32 fused multiply-adds each, and nothing has to be summed across a vector. A single row: decoding
// dominates, so weights are used straight from memory format.
//
// Integers: multiply-add of 16-bit pairs gives exact 32-bit sums.
#include "sim/mac.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace npu::sim {

namespace {

using rockchip::Precision;

#define NPU_AVX2 __attribute__((target("avx2,fma,f16c")))

constexpr std::size_t block_values = std::size_t{float_kernels} * products_per_rounding;

template <Precision precision>
inline constexpr std::size_t element_bytes = precision == Precision::tf32 ? 4 : 2;

// Four values from memory format.
template <Precision precision>
NPU_AVX2 inline __m256d load_four(const std::byte* source) {
    if constexpr (precision == Precision::tf32) {
        const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
        return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_and_si128(words, _mm_set1_epi32(static_cast<int>(0xffffe000U)))));
    } else {
        const __m128i words = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(source));
        if constexpr (precision == Precision::fp16) {
            return _mm256_cvtps_pd(_mm_cvtph_ps(words));
        } else {
            return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(words), 16)));
        }
    }
}

template <Precision precision>
NPU_AVX2 void decode_as(const std::byte* source, std::size_t count, double* values) {
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        _mm256_storeu_pd(values + i, load_four<precision>(source + i * element_bytes<precision>));
    }
    if (i < count) {
        portable_kernels().decode(precision, source + i * element_bytes<precision>, count - i, values + i);
    }
}

void decode(Precision precision, const std::byte* source, std::size_t count, double* values) {
    switch (precision) {
        case Precision::fp16: decode_as<Precision::fp16>(source, count, values); break;
        case Precision::bf16: decode_as<Precision::bf16>(source, count, values); break;
        default: decode_as<Precision::tf32>(source, count, values); break;
    }
}

// The spread from the largest and the smallest magnitude that is not zero.
std::uint8_t spread_of(const FloatFormat& format, std::uint32_t top, std::uint32_t bottom) {
    if (top == 0) {
        return 0;
    }
    const std::uint32_t top_exponent = std::max(top >> format.exponent_shift, 1U);
    const std::uint32_t bottom_exponent = std::max(bottom >> format.exponent_shift, 1U);
    if (top_exponent == format.exponent_mask) {
        return spread_not_finite;
    }
    return static_cast<std::uint8_t>(
        std::min(top_exponent - bottom_exponent + format.mantissa_bits, std::uint32_t{spread_wide}));
}

// Of 16 or more two-byte values.
NPU_AVX2 std::uint8_t spread_16bit(Precision precision, const std::byte* source, std::size_t count) {
    const FloatFormat format = float_format(precision);
    const __m256i mask = _mm256_set1_epi16(0x7fff);
    const __m256i one = _mm256_set1_epi16(1);
    __m256i highest = _mm256_setzero_si256();
    __m256i lowest = _mm256_set1_epi16(-1);
    for (std::size_t i = 0; i < count; i += 16) {
        const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + 2 * i));
        const __m256i magnitude = _mm256_and_si256(words, mask);
        highest = _mm256_max_epu16(highest, magnitude);
        lowest = _mm256_min_epu16(lowest, _mm256_sub_epi16(magnitude, one));  // a zero wraps to the maximum
    }
    // minpos finds the smallest of eight; the largest is the smallest complement.
    const __m128i ones = _mm_set1_epi16(-1);
    const __m128i high = _mm_max_epu16(_mm256_castsi256_si128(highest), _mm256_extracti128_si256(highest, 1));
    const __m128i low = _mm_min_epu16(_mm256_castsi256_si128(lowest), _mm256_extracti128_si256(lowest, 1));
    const std::uint32_t top =
        0xffffU - static_cast<std::uint32_t>(_mm_extract_epi16(_mm_minpos_epu16(_mm_xor_si128(high, ones)), 0));
    const std::uint32_t bottom = static_cast<std::uint32_t>(_mm_extract_epi16(_mm_minpos_epu16(low), 0)) + 1;
    return spread_of(format, top, bottom);
}

// The same for eight or more tf32 values.
NPU_AVX2 std::uint8_t spread_tf32(const std::byte* source, std::size_t count) {
    const FloatFormat format = float_format(Precision::tf32);
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(format.magnitude_mask));
    const __m256i one = _mm256_set1_epi32(1);
    __m256i highest = _mm256_setzero_si256();
    __m256i lowest = _mm256_set1_epi32(-1);
    for (std::size_t i = 0; i < count; i += 8) {
        const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + 4 * i));
        const __m256i magnitude = _mm256_and_si256(words, mask);
        highest = _mm256_max_epu32(highest, magnitude);
        lowest = _mm256_min_epu32(lowest, _mm256_sub_epi32(magnitude, one));  // a zero wraps to the maximum
    }
    alignas(32) std::uint32_t high[8];
    alignas(32) std::uint32_t low[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(high), highest);
    _mm256_store_si256(reinterpret_cast<__m256i*>(low), lowest);
    return spread_of(format, *std::max_element(high, high + 8), *std::min_element(low, low + 8) + 1);
}

std::uint8_t spread(Precision precision, const std::byte* source, std::size_t count) {
    if (count == 0 || count % 16 != 0) {
        return portable_kernels().spread(precision, source, count);
    }
    return precision == Precision::tf32 ? spread_tf32(source, count) : spread_16bit(precision, source, count);
}

struct WeightBlock {
    alignas(32) double values[products_per_rounding][float_kernels];  // only when several rows share them
    alignas(32) std::byte scratch[block_values * sizeof(float)];
    const std::byte* raw;                // [16][32] in memory format
    std::uint32_t spread;                // over all 512 values
    bool have_single;                    //
    std::uint8_t single[float_kernels];  // per kernel; filled when the common bound is not enough
};

// Finds the 512 weights of a group in the stream; tf32 steps have 16 channels and are put together first.
template <Precision precision>
NPU_AVX2 void find_block(const FloatGroup& group, std::uint32_t g, WeightBlock& block) {
    block.have_single = false;
    if constexpr (precision == Precision::tf32) {
        for (std::uint32_t n = 0; n < float_kernels; ++n) {
            group_weights(group, g, n, block.scratch + n * products_per_rounding * element_bytes<precision>);
        }
        block.raw = block.scratch;
    } else {
        block.raw = group.weights + g * block_values * element_bytes<precision>;
    }
    block.spread = spread(precision, block.raw, block_values);
}

// Transposes, four by four.
template <Precision precision>
NPU_AVX2 void decode_block(WeightBlock& block) {
    constexpr std::size_t kernel_bytes = products_per_rounding * element_bytes<precision>;
    for (std::uint32_t n = 0; n < float_kernels; n += 4) {
        const std::byte* source = block.raw + n * kernel_bytes;
        for (std::uint32_t i = 0; i < products_per_rounding; i += 4, source += 4 * element_bytes<precision>) {
            const __m256d a = load_four<precision>(source);
            const __m256d b = load_four<precision>(source + kernel_bytes);
            const __m256d c = load_four<precision>(source + 2 * kernel_bytes);
            const __m256d d = load_four<precision>(source + 3 * kernel_bytes);
            const __m256d ab_even = _mm256_unpacklo_pd(a, b);
            const __m256d ab_odd = _mm256_unpackhi_pd(a, b);
            const __m256d cd_even = _mm256_unpacklo_pd(c, d);
            const __m256d cd_odd = _mm256_unpackhi_pd(c, d);
            _mm256_store_pd(&block.values[i][n], _mm256_permute2f128_pd(ab_even, cd_even, 0x20));
            _mm256_store_pd(&block.values[i + 1][n], _mm256_permute2f128_pd(ab_odd, cd_odd, 0x20));
            _mm256_store_pd(&block.values[i + 2][n], _mm256_permute2f128_pd(ab_even, cd_even, 0x31));
            _mm256_store_pd(&block.values[i + 3][n], _mm256_permute2f128_pd(ab_odd, cd_odd, 0x31));
        }
    }
}

// Adds the group sums of `rows` rows with all 16 kernels, from the decoded block; exact in double by the caller's check.
template <std::uint32_t rows>
NPU_AVX2 inline void add_rows(const double* features, const WeightBlock& block, float* sums) {
    constexpr std::uint32_t vectors = float_kernels / 4;
    __m256d dot[rows][vectors];
    for (auto& row : dot) {
        for (__m256d& four : row) {
            four = _mm256_setzero_pd();
        }
    }
    for (std::uint32_t i = 0; i < products_per_rounding; ++i) {
        __m256d value[rows];
        for (std::uint32_t m = 0; m < rows; ++m) {
            value[m] = _mm256_broadcast_sd(features + m * products_per_rounding + i);
        }
        for (std::uint32_t v = 0; v < vectors; ++v) {
            const __m256d weights = _mm256_load_pd(&block.values[i][4 * v]);
            for (std::uint32_t m = 0; m < rows; ++m) {
                dot[m][v] = _mm256_fmadd_pd(value[m], weights, dot[m][v]);
            }
        }
    }
    for (std::uint32_t m = 0; m < rows; ++m) {
        for (std::uint32_t v = 0; v < vectors; v += 2) {
            float* eight = sums + m * float_kernels + 4 * v;
            const __m256 rounded = _mm256_set_m128(_mm256_cvtpd_ps(dot[m][v + 1]), _mm256_cvtpd_ps(dot[m][v]));
            _mm256_storeu_ps(eight, _mm256_add_ps(_mm256_loadu_ps(eight), rounded));
        }
    }
}

// The same for one row, with the weights straight from memory format.
template <Precision precision>
NPU_AVX2 inline void add_row_undecoded(const double* features, const WeightBlock& block, float* sums) {
    __m256d a[8];
    for (std::size_t i = 0; i < 8; ++i) {
        a[i] = _mm256_loadu_pd(features + 4 * i);
    }
    for (std::uint32_t n = 0; n < float_kernels; n += 4) {
        __m256d dot[4];
        for (std::uint32_t j = 0; j < 4; ++j) {
            dot[j] = _mm256_setzero_pd();
            const std::byte* source = block.raw + (n + j) * products_per_rounding * element_bytes<precision>;
            for (std::size_t i = 0; i < 8; ++i) {
                dot[j] = _mm256_fmadd_pd(a[i], load_four<precision>(source + 4 * i * element_bytes<precision>), dot[j]);
            }
        }
        const __m256d first = _mm256_hadd_pd(dot[0], dot[1]);
        const __m256d second = _mm256_hadd_pd(dot[2], dot[3]);
        const __m256d total =
            _mm256_add_pd(_mm256_permute2f128_pd(first, second, 0x20), _mm256_permute2f128_pd(first, second, 0x31));
        _mm_storeu_ps(sums + n, _mm_add_ps(_mm_loadu_ps(sums + n), _mm256_cvtpd_ps(total)));
    }
}

// The same where the common bound does not hold: each kernel by its own spread.
template <Precision precision>
void add_row_carefully(const double* features, std::uint8_t feature_spread, WeightBlock& block, float* sums) {
    constexpr std::size_t kernel_bytes = products_per_rounding * element_bytes<precision>;
    if (!block.have_single) {
        for (std::uint32_t n = 0; n < float_kernels; ++n) {
            block.single[n] = spread(precision, block.raw + n * kernel_bytes, products_per_rounding);
        }
        block.have_single = true;
    }
    for (std::uint32_t n = 0; n < float_kernels; ++n) {
        double weights[products_per_rounding];
        decode_as<precision>(block.raw + n * kernel_bytes, products_per_rounding, weights);
        sums[n] += group_sum(features, weights, feature_spread, block.single[n]);
    }
}

template <Precision precision>
NPU_AVX2 void multiply_float_as(const FloatGroup& group) {
    constexpr std::uint32_t tile = 3;
    const FloatFeatures& features = group.features;
    const bool shared = features.rows > 1;
    std::fill_n(group.sums, std::size_t{features.rows} * float_kernels, 0.0F);
    WeightBlock block;
    for (std::uint32_t g = 0; g < features.groups; ++g) {
        find_block<precision>(group, g, block);
        if (shared) {
            decode_block<precision>(block);
        }
        const std::uint8_t* spreads = features.spread + std::size_t{g} * features.rows;
        const double* values = features.values + std::size_t{g} * features.rows * products_per_rounding;
        const auto exact = [&](std::uint32_t m) { return spreads[m] + block.spread <= exact_double_spread; };
        for (std::uint32_t m = 0; m < features.rows;) {
            const double* row = values + std::size_t{m} * products_per_rounding;
            float* sums = group.sums + std::size_t{m} * float_kernels;
            if (!exact(m)) {
                add_row_carefully<precision>(row, spreads[m], block, sums);
                ++m;
            } else if (!shared) {
                add_row_undecoded<precision>(row, block, sums);
                ++m;
            } else if (m + tile <= features.rows && exact(m + 1) && exact(m + 2)) {
                add_rows<tile>(row, block, sums);
                m += tile;
            } else if (m + 1 < features.rows && exact(m + 1)) {
                add_rows<2>(row, block, sums);
                m += 2;
            } else {
                add_rows<1>(row, block, sums);
                ++m;
            }
        }
    }
}

void multiply_float(const FloatGroup& group) {
    switch (group.precision) {
        case Precision::fp16: multiply_float_as<Precision::fp16>(group); break;
        case Precision::bf16: multiply_float_as<Precision::bf16>(group); break;
        default: multiply_float_as<Precision::tf32>(group); break;
    }
}

// Some rows with all kernels: step after step, so that the weights are read once and in order. The sums, eight halves
// each, wait in the first-level cache; holding them in registers over all steps was slower, because that reads the
// weights in strides.
template <std::uint32_t rows>
NPU_AVX2 inline void multiply_rows(const IntegerGroup& group, std::uint32_t first_row) {
    constexpr std::uint32_t most_kernels = 64;
    __m256i partial[rows][most_kernels];
    for (auto& row : partial) {
        std::fill_n(row, group.kernels, _mm256_setzero_si256());
    }
    const std::size_t row_length = std::size_t{group.steps} * 32;
    const std::int16_t* features = group.features + first_row * row_length;
    const std::int8_t* weights = group.weights;
    for (std::uint32_t step = 0; step < group.steps; ++step, features += 32) {
        __m256i a[rows][2];
        for (std::uint32_t m = 0; m < rows; ++m) {
            const auto* source = reinterpret_cast<const __m256i*>(features + m * row_length);
            a[m][0] = _mm256_loadu_si256(source);
            a[m][1] = _mm256_loadu_si256(source + 1);
        }
        for (std::uint32_t n = 0; n < group.kernels; ++n, weights += 32) {
            const auto* source = reinterpret_cast<const __m128i*>(weights);
            const __m256i low = _mm256_cvtepi8_epi16(_mm_loadu_si128(source));
            const __m256i high = _mm256_cvtepi8_epi16(_mm_loadu_si128(source + 1));
            for (std::uint32_t m = 0; m < rows; ++m) {
                __m256i& sum = partial[m][n];
                sum = _mm256_add_epi32(
                    sum, _mm256_add_epi32(_mm256_madd_epi16(a[m][0], low), _mm256_madd_epi16(a[m][1], high)));
            }
        }
    }
    for (std::uint32_t m = 0; m < rows; ++m) {
        std::int32_t* out = group.sums + std::size_t{first_row + m} * group.kernels;
        for (std::uint32_t n = 0; n < group.kernels; n += 4) {
            const __m256i* four = partial[m] + n;
            const __m256i all =
                _mm256_hadd_epi32(_mm256_hadd_epi32(four[0], four[1]), _mm256_hadd_epi32(four[2], four[3]));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + n),
                             _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
        }
    }
}

NPU_AVX2 void multiply_integer(const IntegerGroup& group) {
    std::uint32_t m = 0;
    for (; m + 4 <= group.rows; m += 4) {
        multiply_rows<4>(group, m);
    }
    switch (group.rows - m) {
        case 3: multiply_rows<3>(group, m); break;
        case 2: multiply_rows<2>(group, m); break;
        case 1: multiply_rows<1>(group, m); break;
        default: break;
    }
}

}  // namespace

const MacKernels* avx2_kernels() {
    static const MacKernels table{"avx2",         decode,           spread,
                                  multiply_float, multiply_integer, portable_kernels().multiply_wide};
    // Every processor with AVX2 has F16C; not every compiler knows the name of the latter here.
    static const bool present = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return present ? &table : nullptr;
}

}  // namespace npu::sim

#else

namespace npu::sim {

const MacKernels* avx2_kernels() { return nullptr; }

}  // namespace npu::sim

#endif
