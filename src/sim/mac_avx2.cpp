// The array on AVX2, FMA and F16C: same results as the portable kernels, bit for bit. Floats: 16 kernels x 32
// channels of weights are decoded to doubles once and stay in the first-level cache while all rows pass; four dot
// products of one row run at a time and are reduced together. Integers: rows of four share each weight load;
// multiply-add of 16-bit pairs gives exact 32-bit sums.
#include "sim/mac.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace npu::sim {

namespace {

using rockchip::Precision;

#define NPU_AVX2 __attribute__((target("avx2,fma,f16c")))

constexpr std::uint32_t kernels = 16;  // of a float group

template <Precision precision>
inline constexpr std::size_t element_bytes = precision == Precision::tf32 ? 4 : 2;

// Eight values from memory format.
template <Precision precision>
NPU_AVX2 inline __m256 load_eight(const std::byte* source) {
    if constexpr (precision == Precision::fp16) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
    } else if constexpr (precision == Precision::bf16) {
        const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
    } else {
        const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
        return _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xffffe000U))));
    }
}

template <Precision precision>
NPU_AVX2 void decode_as(const std::byte* source, std::size_t count, float* values) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(values + i, load_eight<precision>(source + i * element_bytes<precision>));
    }
    if (i < count) {
        portable_kernels().decode(precision, source + i * element_bytes<precision>, count - i, values + i);
    }
}

void decode(Precision precision, const std::byte* source, std::size_t count, float* values) {
    switch (precision) {
        case Precision::fp16: decode_as<Precision::fp16>(source, count, values); break;
        case Precision::bf16: decode_as<Precision::bf16>(source, count, values); break;
        default: decode_as<Precision::tf32>(source, count, values); break;
    }
}

// float_spread of a multiple of 16 two-byte values.
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

struct WeightBlock {
    alignas(32) double values[kernels][products_per_rounding];  // only when several rows share them
    alignas(32) std::byte scratch[kernels * products_per_rounding * sizeof(float)];
    const std::byte* raw;  // [16][32] in memory format
    std::uint32_t spread;  // over all 512 values
    bool have_single;
    std::uint8_t single[kernels];  // per kernel; filled when the common bound is not enough
};

// Finds the 512 weights of a group in the stream; tf32 blocks have 16 channels and are put together first.
template <Precision precision>
NPU_AVX2 void find_block(const FloatGroup& group, std::uint32_t g, WeightBlock& block) {
    constexpr std::size_t block_values = std::size_t{kernels} * products_per_rounding;
    block.have_single = false;
    if constexpr (precision != Precision::tf32) {
        block.raw = group.weights + g * block_values * element_bytes<precision>;
        block.spread = spread_16bit(precision, block.raw, block_values);
    } else {
        constexpr std::uint32_t piece_channels = 16;
        constexpr std::size_t piece_bytes = piece_channels * sizeof(float);
        const std::uint32_t pieces = std::min(2U, group.features.channels / piece_channels - 2 * g);
        std::memset(block.scratch, 0, sizeof block.scratch);
        for (std::uint32_t piece = 0; piece < pieces; ++piece) {
            for (std::uint32_t n = 0; n < kernels; ++n) {
                const WeightPiece place = weight_piece(precision, 2 * g + piece, n);
                std::memcpy(block.scratch + (2 * std::size_t{n} + piece) * piece_bytes,
                            group.weights + place.offset * sizeof(float), piece_bytes);
            }
        }
        block.raw = block.scratch;
        block.spread = float_spread(precision, block.raw, block_values);
    }
}

template <Precision precision>
NPU_AVX2 void decode_block(WeightBlock& block) {
    for (std::size_t i = 0; i < std::size_t{kernels} * products_per_rounding; i += 8) {
        const __m256 eight = load_eight<precision>(block.raw + i * element_bytes<precision>);
        double* values = &block.values[0][0] + i;
        _mm256_store_pd(values, _mm256_cvtps_pd(_mm256_castps256_ps128(eight)));
        _mm256_store_pd(values + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1)));
    }
}

// Adds the group sums of one row with all 16 kernels; exact in double by the caller's check. The weights come from
// the decoded block, or straight from memory format.
template <Precision precision, bool decoded>
NPU_AVX2 inline void add_row(const float* features, const WeightBlock& block, float* sums) {
    __m256d a[8];
    for (int i = 0; i < 8; ++i) {
        a[i] = _mm256_cvtps_pd(_mm_loadu_ps(features + 4 * i));
    }
    for (std::uint32_t n = 0; n < kernels; n += 4) {
        __m256d dot[4];
        for (std::uint32_t j = 0; j < 4; ++j) {
            dot[j] = _mm256_setzero_pd();
        }
        for (std::uint32_t i = 0; i < 8; i += 2) {
            for (std::uint32_t j = 0; j < 4; ++j) {
                __m256d low;
                __m256d high;
                if constexpr (decoded) {
                    low = _mm256_load_pd(block.values[n + j] + 4 * std::size_t{i});
                    high = _mm256_load_pd(block.values[n + j] + 4 * std::size_t{i} + 4);
                } else {
                    const std::size_t at = (n + j) * products_per_rounding + 4 * std::size_t{i};
                    const __m256 eight = load_eight<precision>(block.raw + at * element_bytes<precision>);
                    low = _mm256_cvtps_pd(_mm256_castps256_ps128(eight));
                    high = _mm256_cvtps_pd(_mm256_extractf128_ps(eight, 1));
                }
                dot[j] = _mm256_fmadd_pd(a[i], low, dot[j]);
                dot[j] = _mm256_fmadd_pd(a[i + 1], high, dot[j]);
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
void add_row_carefully(const float* features, std::uint8_t spread, WeightBlock& block, float* sums) {
    constexpr std::size_t kernel_bytes = products_per_rounding * element_bytes<precision>;
    if (!block.have_single) {
        for (std::uint32_t n = 0; n < kernels; ++n) {
            block.single[n] = float_spread(precision, block.raw + n * kernel_bytes, products_per_rounding);
        }
        block.have_single = true;
    }
    for (std::uint32_t n = 0; n < kernels; ++n) {
        float weights[products_per_rounding];
        decode_as<precision>(block.raw + n * kernel_bytes, products_per_rounding, weights);
        sums[n] += group_sum(features, weights, spread, block.single[n]);
    }
}

template <Precision precision>
NPU_AVX2 void multiply_float_as(const FloatGroup& group) {
    const FloatFeatures& features = group.features;
    const std::uint32_t groups = (features.channels + products_per_rounding - 1) / products_per_rounding;
    const bool shared = features.rows > 2;
    std::fill_n(group.sums, std::size_t{features.rows} * kernels, 0.0F);
    WeightBlock block;
    for (std::uint32_t g = 0; g < groups; ++g) {
        find_block<precision>(group, g, block);
        if (shared) {
            decode_block<precision>(block);
        }
        for (std::uint32_t m = 0; m < features.rows; ++m) {
            const std::size_t at = std::size_t{g} * features.rows + m;
            const float* row = features.values + at * products_per_rounding;
            float* sums = group.sums + std::size_t{m} * kernels;
            if (features.spread[at] + block.spread > exact_double_spread) {
                add_row_carefully<precision>(row, features.spread[at], block, sums);
            } else if (shared) {
                add_row<precision, true>(row, block, sums);
            } else {
                add_row<precision, false>(row, block, sums);
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

template <std::uint32_t rows>
NPU_AVX2 inline void multiply_rows(const IntegerGroup& group, std::uint32_t first_row, __m256i* partial) {
    const std::uint32_t blocks = group.channels / 32;
    std::fill_n(partial, rows * group.kernels, _mm256_setzero_si256());
    const std::int16_t* features = group.features + std::size_t{first_row} * group.channels;
    const std::int8_t* weights = group.weights;
    for (std::uint32_t b = 0; b < blocks; ++b) {
        __m256i a[rows][2];
        for (std::uint32_t m = 0; m < rows; ++m) {
            const auto* source = reinterpret_cast<const __m256i*>(features + std::size_t{m} * group.channels + b * 32);
            a[m][0] = _mm256_loadu_si256(source);
            a[m][1] = _mm256_loadu_si256(source + 1);
        }
        for (std::uint32_t n = 0; n < group.kernels; ++n, weights += 32) {
            const auto* source = reinterpret_cast<const __m128i*>(weights);
            const __m256i low = _mm256_cvtepi8_epi16(_mm_loadu_si128(source));
            const __m256i high = _mm256_cvtepi8_epi16(_mm_loadu_si128(source + 1));
            for (std::uint32_t m = 0; m < rows; ++m) {
                __m256i& sum = partial[n * rows + m];
                sum = _mm256_add_epi32(
                    sum, _mm256_add_epi32(_mm256_madd_epi16(a[m][0], low), _mm256_madd_epi16(a[m][1], high)));
            }
        }
    }
    for (std::uint32_t n = 0; n < group.kernels; ++n) {
        for (std::uint32_t m = 0; m < rows; ++m) {
            const __m256i sum = partial[n * rows + m];
            __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
            four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1));
            group.sums[std::size_t{first_row + m} * group.kernels + n] = _mm_cvtsi128_si32(four);
        }
    }
}

NPU_AVX2 void multiply_integer(const IntegerGroup& group) {
    constexpr std::uint32_t tile = 4;
    constexpr std::uint32_t most_kernels = 64;
    __m256i partial[tile * most_kernels];
    std::uint32_t m = 0;
    for (; m + tile <= group.rows; m += tile) {
        multiply_rows<tile>(group, m, partial);
    }
    for (; m < group.rows; ++m) {
        multiply_rows<1>(group, m, partial);
    }
}

}  // namespace

const MacKernels* avx2_kernels() {
    static constexpr MacKernels table{"avx2", decode, multiply_float, multiply_integer};
    static const bool present =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    return present ? &table : nullptr;
}

}  // namespace npu::sim

#else

namespace npu::sim {

const MacKernels* avx2_kernels() { return nullptr; }

}  // namespace npu::sim

#endif
