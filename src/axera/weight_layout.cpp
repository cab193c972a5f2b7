#include "axera/weight_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace npu::axera {

namespace {

constexpr unsigned widest_first_part = 576;
constexpr unsigned later_part = 544;
constexpr unsigned chunk_columns = 36;
constexpr unsigned plane_bytes = 18;  // 36 nibbles

unsigned chunks_of(unsigned width) { return (width + chunk_columns - 1) / chunk_columns; }
unsigned row_chunk_bytes(const WeightLayout& layout) {
    return layout.format == WeightFormat::s4 ? plane_bytes : 2 * plane_bytes;
}
std::size_t code_bytes(const WeightLayout& layout, unsigned width) {
    return std::size_t{layout.block_rows} * row_chunk_bytes(layout) * chunks_of(width);
}

// Where the bytes of a row stand in its chunk, in rows: the inverse of the order that units have.
struct UnitPlace {
    unsigned unit, in_unit;
};
UnitPlace unit_place(const WeightLayout& layout, unsigned row) {
    if (layout.format == WeightFormat::s8) {
        return {row % 16, row / 16};
    }
    return {row % 32 / 2, row / 32 * 2 + row % 2};
}

// First byte of a row's chunk.
std::size_t row_offset(const WeightLayout& layout, unsigned width, unsigned row, unsigned chunk) {
    const UnitPlace place = unit_place(layout, row);
    const std::size_t units = 16;
    const std::size_t rows_in_unit = layout.block_rows / units;
    const std::size_t unit_index = layout.order == UnitOrder::chunks_outside
                                       ? chunk * units + place.unit
                                       : std::size_t{place.unit} * chunks_of(width) + chunk;
    return (unit_index * rows_in_unit + place.in_unit) * row_chunk_bytes(layout);
}

unsigned nibble(Bytes bytes, std::size_t at, unsigned column) {
    return bytes[at + column / 2] >> (column % 2 * 4) & 15;
}

int value_at(const WeightLayout& layout, Bytes bytes, std::size_t at, unsigned column) {
    const int low = static_cast<int>(nibble(bytes, at, column));
    return layout.format == WeightFormat::s4
               ? low - 8
               : static_cast<int>(nibble(bytes, at + plane_bytes, column) << 4) + low - 128;
}

void put_nibble(Buffer& bytes, std::size_t at, unsigned column, unsigned value) {
    bytes[at + column / 2] = static_cast<std::uint8_t>(bytes[at + column / 2] | value << (column % 2 * 4));
}

void put_value(const WeightLayout& layout, Buffer& bytes, std::size_t at, unsigned column, int q) {
    if (layout.format == WeightFormat::s4) {
        put_nibble(bytes, at, column, static_cast<unsigned>(q + 8));
    } else {
        put_nibble(bytes, at, column, static_cast<unsigned>(q + 128) & 15);
        put_nibble(bytes, at + plane_bytes, column, static_cast<unsigned>(q + 128) >> 4);
    }
}

// Places in the tail, from its start.
std::size_t sum_place(const WeightLayout& layout, unsigned row) {
    return std::size_t{row} * (layout.format == WeightFormat::s4 ? 4 : 8);
}
std::size_t scale_place(const WeightLayout& layout, unsigned row) {
    return (layout.format == WeightFormat::s4 ? std::size_t{8} * layout.block_rows : 256 + 128) + std::size_t{row} * 4;
}
std::size_t tail_bytes(const WeightLayout& layout) { return scale_place(layout, layout.block_rows); }

// Whether a byte of the tail before the scales belongs to no sum, and so is zero.
bool is_zero_place(const WeightLayout& layout, std::size_t at) {
    return layout.format == WeightFormat::s4 ? at >= std::size_t{4} * layout.block_rows : at >= 256 || at % 8 >= 4;
}

std::string broken_tail(const WeightLayout& layout, Bytes tail) {
    for (std::size_t at = 0; at < scale_place(layout, 0); ++at) {
        if (is_zero_place(layout, at) && tail[at] != 0) {
            return format("byte %zu of the tail is not zero", at);
        }
    }
    for (unsigned row = 0; row < layout.block_rows; ++row) {
        float scale = 0;
        std::memcpy(&scale, tail.data() + scale_place(layout, row), sizeof(scale));
        if (!std::isfinite(scale)) {
            return format("the scale of row %u is no number", row);
        }
    }
    return {};
}

std::string broken_rows(const WeightLayout& layout, unsigned width, Bytes bytes, Bytes tail) {
    for (unsigned row = 0; row < layout.block_rows; ++row) {
        std::int64_t sum = 0;
        for (unsigned chunk = 0; chunk < chunks_of(width); ++chunk) {
            const std::size_t at = row_offset(layout, width, row, chunk);
            for (unsigned column = 0; column < chunk_columns; ++column) {
                const int q = value_at(layout, bytes, at, column);
                sum += q;
                if (chunk * chunk_columns + column >= width && q != 0) {
                    return format("row %u has a weight in column %u of %u", row, chunk * chunk_columns + column, width);
                }
            }
        }
        if (load<std::int32_t>(tail, sum_place(layout, row)) != -sum * 32768) {
            return format("the sum of row %u is not that of its codes", row);
        }
    }
    return {};
}

}  // namespace

std::string layout_name(const WeightLayout& layout) {
    return format("%s, blocks of %u rows, %s", layout.format == WeightFormat::s4 ? "s4" : "s8", layout.block_rows,
                  layout.order == UnitOrder::chunks_outside ? "chunks outside" : "units outside");
}

const std::vector<WeightLayout>& weight_layouts() {
    static const std::vector<WeightLayout> all{
        {WeightFormat::s4, 32, UnitOrder::chunks_outside}, {WeightFormat::s4, 32, UnitOrder::units_outside},
        {WeightFormat::s4, 64, UnitOrder::chunks_outside}, {WeightFormat::s4, 64, UnitOrder::units_outside},
        {WeightFormat::s8, 32, UnitOrder::chunks_outside}, {WeightFormat::s8, 32, UnitOrder::units_outside}};
    return all;
}

std::vector<unsigned> part_widths(std::uint64_t columns) {
    const std::uint64_t later =
        columns <= widest_first_part ? 0 : (columns - widest_first_part + later_part - 1) / later_part;
    std::vector<unsigned> widths{static_cast<unsigned>(columns - later * later_part)};
    widths.resize(later + 1, later_part);
    return widths;
}

std::size_t part_bytes(const WeightLayout& layout, unsigned width) {
    return code_bytes(layout, width) + tail_bytes(layout);
}

std::size_t block_bytes(const WeightLayout& layout, std::uint64_t columns) {
    std::size_t bytes = 0;
    for (const unsigned width : part_widths(columns)) {
        bytes += part_bytes(layout, width);
    }
    return bytes;
}

std::optional<std::size_t> matrix_bytes(const WeightLayout& layout, std::uint64_t rows, std::uint64_t columns) {
    constexpr std::uint64_t most = std::uint64_t{1} << 24;  // rows or columns of no model
    if (rows == 0 || columns == 0 || rows > most || columns > most || rows % layout.block_rows != 0) {
        return std::nullopt;
    }
    return rows / layout.block_rows * block_bytes(layout, columns);
}

bool is_part(const WeightLayout& layout, unsigned width, Bytes bytes) {
    if (bytes.size() != part_bytes(layout, width)) {
        return false;
    }
    const Bytes tail = bytes.subspan(code_bytes(layout, width));
    // First what most bytes that are no weights fail, and cheaply.
    for (std::size_t at = 0; at < scale_place(layout, 0); ++at) {
        if (is_zero_place(layout, at) && tail[at] != 0) {
            return false;
        }
    }
    return broken_tail(layout, tail).empty() && broken_rows(layout, width, bytes, tail).empty();
}

Result<WeightPart> read_part(const WeightLayout& layout, unsigned width, Bytes bytes) {
    const auto wrong = [&](const std::string& what) {
        return make_error(ErrorCode::invalid_argument, "not weights in the layout %s: %s", layout_name(layout).c_str(),
                          what.c_str());
    };
    if (bytes.size() != part_bytes(layout, width)) {
        return wrong(format("%zu bytes for a part of %zu", bytes.size(), part_bytes(layout, width)));
    }
    const Bytes tail = bytes.subspan(code_bytes(layout, width));
    for (const std::string& broken : {broken_tail(layout, tail), broken_rows(layout, width, bytes, tail)}) {
        if (!broken.empty()) {
            return wrong(broken);
        }
    }
    WeightPart part;
    part.q.resize(std::size_t{layout.block_rows} * width);
    part.scales.resize(layout.block_rows);
    for (unsigned row = 0; row < layout.block_rows; ++row) {
        for (unsigned column = 0; column < width; ++column) {
            const std::size_t at = row_offset(layout, width, row, column / chunk_columns);
            part.q[std::size_t{row} * width + column] =
                static_cast<std::int8_t>(value_at(layout, bytes, at, column % chunk_columns));
        }
        std::memcpy(&part.scales[row], tail.data() + scale_place(layout, row), sizeof(float));
    }
    return part;
}

Result<Buffer> write_part(const WeightLayout& layout, unsigned width, const WeightPart& part) {
    if (part.q.size() != std::size_t{layout.block_rows} * width || part.scales.size() != layout.block_rows) {
        return make_error(ErrorCode::invalid_argument,
                          "a part of %u rows and %u columns with %zu weights and %zu scales", layout.block_rows, width,
                          part.q.size(), part.scales.size());
    }
    const int limit = layout.format == WeightFormat::s4 ? 8 : 128;
    const std::size_t codes = code_bytes(layout, width);
    Buffer bytes(part_bytes(layout, width));
    for (unsigned row = 0; row < layout.block_rows; ++row) {
        std::int64_t sum = 0;
        for (unsigned column = 0; column < chunks_of(width) * chunk_columns; ++column) {
            const int q = column < width ? part.q[std::size_t{row} * width + column] : 0;
            if (q < -limit || q >= limit) {
                return make_error(ErrorCode::invalid_argument, "weight %d of row %u does not fit %s", q, row,
                                  layout_name(layout).c_str());
            }
            sum += q;
            put_value(layout, bytes, row_offset(layout, width, row, column / chunk_columns), column % chunk_columns, q);
        }
        const std::int64_t number = -sum * 32768;
        if (number < std::numeric_limits<std::int32_t>::min() || number > std::numeric_limits<std::int32_t>::max()) {
            return make_error(ErrorCode::unsupported,
                              "the weights of row %u add up to %lld in one part, which the layout cannot hold (65535)",
                              row, static_cast<long long>(sum));
        }
        const auto stored = static_cast<std::int32_t>(number);
        std::memcpy(bytes.data() + codes + sum_place(layout, row), &stored, sizeof(stored));
        std::memcpy(bytes.data() + codes + scale_place(layout, row), &part.scales[row], sizeof(float));
    }
    return bytes;
}

}  // namespace npu::axera
