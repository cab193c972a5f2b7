// What the fake librknnrt multiplies and where the elements of its matrices lie, as the vendor documents both for RK3588.
// Plain loops over index functions, its own and not those of src/compile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fake {

struct Info {
    std::int32_t m, k, n, type;
    int b_layout, b_quant, ac_layout, ac_quant, domain;  // layouts: 0 normal, 1 native
};

// Bits and tensor-type codes of operands and result, and how the native layouts cut them.
struct Type {
    int code;
    int in_bits, out_bits;
    int in_tensor, out_tensor;
    int a_group, b_kernels, b_channels, c_group;
    int since;  // release: 16, 20, 23
};

std::span<const Type> types();

struct Product {
    const Info& info;
    const Type& type;
};

// Sums in double; int4 results saturate, as the chip's do.
void multiply(const Product& product, const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b,
              std::vector<std::uint8_t>& c);

}  // namespace fake
