#include "gemm/four_bits.h"

#include <algorithm>
#include <vector>

#include "gemm/kernels_rows.h"

namespace npu::gemm {

namespace {

// Room for a row's values on their way to nibbles; kept by the thread, because rows come by the thousand.
std::int8_t* room_for(std::size_t count) {
    thread_local std::vector<std::int8_t> values;
    values.resize(std::max(values.size(), count));
    return values.data();
}

template <typename Row>
float quantise_and_fold(Row row, std::size_t count, std::int8_t* values) {
    const float scale = quantise_values(largest_number4, row, count, values);
    return fold_to_nibbles(values, count) ? -scale : scale;
}

template <typename Row>
float quantise_and_pack(Row row, std::size_t count, std::byte* destination) {
    std::int8_t* values = room_for(count);
    const float scale = quantise_and_fold(row, count, values);
    pack_nibbles(values, count, destination);
    return scale;
}

}  // namespace

float quantise_int4(const float* row, std::size_t count, std::byte* destination) {
    return quantise_and_pack(row, count, destination);
}

float quantise_int4(BlockRow row, std::size_t count, std::byte* destination) {
    return quantise_and_pack(row, count, destination);
}

float quantise_to_four_bits(const float* row, std::size_t count, std::int8_t* values) {
    return quantise_and_fold(row, count, values);
}

float quantise_split(const float* row, std::size_t count, std::byte* high, std::byte* low) {
    std::int8_t* values = room_for(count);
    const float scale = quantise_values(largest_split, row, count, values);
    pack_nibbles(values, count, low);  // v - 16 h has the low half of v
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<std::int8_t>((values[i] + 8) >> 4);
    }
    pack_nibbles(values, count, high);
    return scale;
}

}  // namespace npu::gemm
