// How the weights of a linear layer lie in the constants of a compiled language model ("npu_params"). A matrix of
// [rows, columns] is cut into blocks of 32 rows (64 in some models), each block into parts of columns: all but the
// first are 544 wide, the first takes what is left, up to 576. A part is codes in chunks of 36 columns, then a tail
// that says what the codes mean:
//
//   s4   code = q + 8, two columns a byte, the even one low: 18 bytes a row and chunk. Rows stand in units: 2k and 2k+1
//        (with 64 rows also 2k+32 and 2k+33).
//        Tail: a number for each row, four zero bytes for each row, a float32 scale for each row.
//   s8   code = q + 128, split into nibbles: 18 bytes of low ones, then 18 of high ones. Units: rows r and r+16.
//        Tail: {number, four zero bytes} for each row, 128 zero bytes, a float32 scale for each row.
//
// The number is -sum(q)/2 of this part in Q16.16; the scale is that of the whole row, repeated in each part. Columns
// that fill up the last chunk hold q = 0.
//
// Source: black-box results of others for Pulsar2 7.0-lite (../shared/reference/axera.md, 3.5), whose sizes agree with
// a published file. They do not say whether chunks or units come first, and layouts change between versions: so both
// orders are here, nothing is assumed about positions, and what a file has is found out by the sums (weight_search.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axera/bytes.h"
#include "base/result.h"

namespace npu::axera {

enum class WeightFormat : std::uint8_t { s4, s8 };
enum class UnitOrder : std::uint8_t {
    chunks_outside,  // all units of the first chunk, then all of the second
    units_outside,   // all chunks of the first unit, then all of the second
};

struct WeightLayout {
    WeightFormat format = WeightFormat::s4;
    unsigned block_rows = 32;  // 32 or 64; s8: 32
    UnitOrder order = UnitOrder::chunks_outside;
    bool operator==(const WeightLayout&) const = default;
};
std::string layout_name(const WeightLayout& layout);  // "s4, blocks of 32 rows, chunks outside"

// All layouts that are known.
const std::vector<WeightLayout>& weight_layouts();

// Widths of the parts of a matrix with so many columns, in order.
std::vector<unsigned> part_widths(std::uint64_t columns);

std::size_t part_bytes(const WeightLayout& layout, unsigned width);
std::size_t block_bytes(const WeightLayout& layout, std::uint64_t columns);
// Nothing when rows do not divide into blocks or the size does not fit.
std::optional<std::size_t> matrix_bytes(const WeightLayout& layout, std::uint64_t rows, std::uint64_t columns);

// One part in numbers: q[row * width + column] and a scale for each row.
struct WeightPart {
    std::vector<std::int8_t> q;
    std::vector<float> scales;
};

// Reads a part of exactly part_bytes. An error says which rule of the layout the bytes break: a sum that is not that of
// the codes, padding that is not zero, a scale that is no number.
Result<WeightPart> read_part(const WeightLayout& layout, unsigned width, Bytes bytes);

// The bytes of a part. An error when a sum does not fit its 32 bits or a code its format.
Result<Buffer> write_part(const WeightLayout& layout, unsigned width, const WeightPart& part);

// Whether the bytes break none of those rules; faster than read_part where most do not.
bool is_part(const WeightLayout& layout, unsigned width, Bytes bytes);

}  // namespace npu::axera
