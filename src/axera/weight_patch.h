// Putting other weights into a compiled model. Where a matrix lies is found by its structure and never by a position: a
// place counts only when every block there obeys every rule of a layout, the sums of each row above all, which random
// bytes never do. Before anything is written the matrix is read and written back, and must come out as it was; anything
// that does not fit is refused, and the constants are as they were.
//
// Only codes, sums and scales change; the command segments are the same for all layers of a model
// (../shared/reference/axera.md, 3.5 and 3.6, route A).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "axera/weight_layout.h"

namespace npu::axera {

struct WeightPlace {
    WeightLayout layout;
    std::size_t offset = 0;  // in the constants
    std::uint64_t rows = 0, columns = 0;
};

// All places where a matrix of this shape lies, in order. The last column of its first part must not be all zeros, or
// it would be taken for a narrower one. Places do not overlap; of two layouts that both fit at one place, which takes
// constant weights, both are given.
std::vector<WeightPlace> find_weights(Bytes constants, std::uint64_t rows, std::uint64_t columns);

// How numbers become codes. a: the weight of largest magnitude of a row becomes the lowest code, and the scale may be
// negative; b: the scale is the largest magnitude over the highest code.
enum class QuantiserRule : std::uint8_t { a, b };

// Codes of one row: q[i] * scale is near row[i]. A row of zeros has scale 0.
void quantise_row(std::span<const float> row, WeightFormat format, QuantiserRule rule, std::span<std::int8_t> q,
                  float& scale);

// The weights at a place as floats, rows by columns.
Result<std::vector<float>> read_weights(Bytes constants, const WeightPlace& place);

// Replaces them. `weights` has rows * columns finite numbers.
Result<void> patch_weights(std::span<std::uint8_t> constants, const WeightPlace& place, std::span<const float> weights,
                           QuantiserRule rule);

}  // namespace npu::axera
