#include "fake_products.h"

#include <algorithm>
#include <bit>

#include "base/float_bits.h"

namespace fake {

namespace {

constexpr Type all_types[] = {
    {1, 16, 32, 1, 0, 8, 16, 32, 4, 16},
    {2, 8, 32, 2, 6, 16, 32, 32, 4, 16},
    {4, 16, 16, 1, 1, 8, 16, 32, 8, 20},
    {10, 4, 16, 10, 4, 32, 64, 32, 8, 16},
};

constexpr int longest_segment = 8192;  // of a native B; a longer K is packed segment by segment

std::int64_t index_a(const Product& c, std::int64_t m, std::int64_t k) {
    const std::int64_t group = c.type.a_group;
    return c.info.ac_layout == 0 ? m * c.info.k + k : (k / group * c.info.m + m) * group + k % group;
}

std::int64_t index_b(const Product& c, std::int64_t k, std::int64_t n) {
    if (c.info.b_layout == 0) {
        return k * c.info.n + n;
    }
    const std::int64_t kernels = c.type.b_kernels;
    const std::int64_t channels = c.type.b_channels;
    const std::int64_t start = k / longest_segment * longest_segment;
    const std::int64_t length = std::min<std::int64_t>(longest_segment, c.info.k - start);
    const std::int64_t in = k - start;
    return start * c.info.n + ((n / kernels * (length / channels) + in / channels) * kernels + n % kernels) * channels +
           in % channels;
}

std::int64_t index_c(const Product& c, std::int64_t m, std::int64_t n) {
    const std::int64_t group = c.type.c_group;
    return c.info.ac_layout == 0 ? m * c.info.n + n : (n / group * c.info.m + m) * group + n % group;
}

double element(const std::vector<std::uint8_t>& bytes, int bits, std::int64_t index) {
    if (bits == 4) {
        const int nibble = bytes.at(static_cast<std::size_t>(index / 2)) >> (index % 2 * 4) & 15;
        return nibble >= 8 ? nibble - 16 : nibble;
    }
    if (bits == 8) {
        return static_cast<std::int8_t>(bytes.at(static_cast<std::size_t>(index)));
    }
    const auto at = static_cast<std::size_t>(index) * 2;
    return npu::half_to_float(static_cast<std::uint16_t>(bytes.at(at) | bytes.at(at + 1) << 8));
}

void put(const Type& type, double sum, std::int64_t index, std::vector<std::uint8_t>& bytes) {
    std::uint32_t word = 0;
    switch (type.code) {
        case 1: word = std::bit_cast<std::uint32_t>(static_cast<float>(sum)); break;
        case 4: word = npu::float_to_half(static_cast<float>(sum)); break;
        case 10:
            word = static_cast<std::uint16_t>(static_cast<std::int16_t>(std::clamp(sum, -32768.0, 32767.0)));
            break;
        default: word = static_cast<std::uint32_t>(static_cast<std::int32_t>(sum)); break;
    }
    for (int byte = 0; byte < type.out_bits / 8; ++byte) {
        bytes.at(static_cast<std::size_t>(index * (type.out_bits / 8) + byte)) =
            static_cast<std::uint8_t>(word >> byte * 8);
    }
}

}  // namespace

std::span<const Type> types() { return all_types; }

void multiply(const Product& product, const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b,
              std::vector<std::uint8_t>& c) {
    const Info& info = product.info;
    const Type& type = product.type;
    std::vector<double> kernel(static_cast<std::size_t>(info.k));
    for (int n = 0; n < info.n; ++n) {
        for (int k = 0; k < info.k; ++k) {
            kernel[static_cast<std::size_t>(k)] = element(b, type.in_bits, index_b(product, k, n));
        }
        for (int m = 0; m < info.m; ++m) {
            double sum = 0;
            for (int k = 0; k < info.k; ++k) {
                sum += element(a, type.in_bits, index_a(product, m, k)) * kernel[static_cast<std::size_t>(k)];
            }
            put(type, sum, index_c(product, m, n), c);
        }
    }
}

}  // namespace fake
