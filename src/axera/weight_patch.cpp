#include "axera/weight_patch.h"

#include <algorithm>
#include <cmath>

namespace npu::axera {

namespace {

// Calls visit(block, first column, width, offset) -> Result<void> for each part of a matrix in the order of the file.
template <typename Visit>
Result<void> each_part(const WeightPlace& place, Visit visit) {
    std::size_t offset = place.offset;
    for (std::uint64_t block = 0; block < place.rows / place.layout.block_rows; ++block) {
        std::uint64_t first = 0;
        for (const unsigned width : part_widths(place.columns)) {
            NPU_TRY(visit(block, first, width, offset));
            first += width;
            offset += part_bytes(place.layout, width);
        }
    }
    return {};
}

// Whether a column of a part holds anything: a narrower matrix, filled up with zeros to as many chunks, obeys the rules
// of a wider one, too.
bool column_is_used(const WeightLayout& layout, unsigned width, unsigned column, Bytes bytes) {
    const Result<WeightPart> part = read_part(layout, width, bytes);
    for (unsigned row = 0; part && row < layout.block_rows; ++row) {
        if (part->q[std::size_t{row} * width + column] != 0) {
            return true;
        }
    }
    return false;
}

bool lies_at(Bytes constants, const WeightPlace& place) {
    bool last_column_is_used = false;
    const Result<void> all =
        each_part(place, [&](std::uint64_t, std::uint64_t first, unsigned width, std::size_t offset) -> Result<void> {
            const Bytes bytes = constants.subspan(offset, part_bytes(place.layout, width));
            if (!is_part(place.layout, width, bytes)) {
                return make_error(ErrorCode::not_found, "no weights");
            }
            last_column_is_used =
                last_column_is_used || (first == 0 && column_is_used(place.layout, width, width - 1, bytes));
            return {};
        });
    return all.ok() && last_column_is_used;
}

Result<void> check(Bytes constants, const WeightPlace& place) {
    const auto bytes = matrix_bytes(place.layout, place.rows, place.columns);
    if (!bytes || !inside(constants, place.offset, *bytes)) {
        return make_error(ErrorCode::invalid_argument,
                          "%llu x %llu weights (%s) at byte %zu do not fit into %zu bytes of constants",
                          static_cast<unsigned long long>(place.rows), static_cast<unsigned long long>(place.columns),
                          layout_name(place.layout).c_str(), place.offset, constants.size());
    }
    return {};
}

}  // namespace

std::vector<WeightPlace> find_weights(Bytes constants, std::uint64_t rows, std::uint64_t columns) {
    std::vector<WeightPlace> places;
    for (const WeightLayout& layout : weight_layouts()) {
        const auto bytes = matrix_bytes(layout, rows, columns);
        if (!bytes) {
            continue;
        }
        for (std::size_t at = 0; inside(constants, at, *bytes);) {
            const WeightPlace place{layout, at, rows, columns};
            if (lies_at(constants, place)) {
                places.push_back(place);
                at += *bytes;
            } else {
                ++at;
            }
        }
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const WeightPlace& a, const WeightPlace& b) { return a.offset < b.offset; });
    return places;
}

void quantise_row(std::span<const float> row, WeightFormat format, QuantiserRule rule, std::span<std::int8_t> q,
                  float& scale) {
    const int low = format == WeightFormat::s4 ? -8 : -128;
    const int high = -low - 1;
    const auto largest =
        std::max_element(row.begin(), row.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    scale = 0;
    if (largest != row.end()) {
        scale = rule == QuantiserRule::a ? *largest / static_cast<float>(low)
                                         : std::fabs(*largest) / static_cast<float>(high);
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
        const float steps = scale == 0 ? 0 : row[i] / scale;
        const float nearest = rule == QuantiserRule::a ? std::floor(steps + 0.5F) : std::nearbyint(steps);
        q[i] = static_cast<std::int8_t>(std::clamp(nearest, static_cast<float>(low), static_cast<float>(high)));
    }
}

Result<std::vector<float>> read_weights(Bytes constants, const WeightPlace& place) {
    NPU_TRY(check(constants, place));
    std::vector<float> weights(place.rows * place.columns);
    NPU_TRY(each_part(
        place, [&](std::uint64_t block, std::uint64_t first, unsigned width, std::size_t offset) -> Result<void> {
            NPU_ASSIGN(const WeightPart part,
                       read_part(place.layout, width, constants.subspan(offset, part_bytes(place.layout, width))));
            for (unsigned row = 0; row < place.layout.block_rows; ++row) {
                float* const to = weights.data() + (block * place.layout.block_rows + row) * place.columns + first;
                for (unsigned column = 0; column < width; ++column) {
                    to[column] = static_cast<float>(part.q[std::size_t{row} * width + column]) * part.scales[row];
                }
            }
            return {};
        }));
    return weights;
}

Result<void> patch_weights(std::span<std::uint8_t> constants, const WeightPlace& place, std::span<const float> weights,
                           QuantiserRule rule) {
    NPU_TRY(check(constants, place));
    if (weights.size() != place.rows * place.columns) {
        return make_error(ErrorCode::invalid_argument, "%zu weights for a matrix of %llu x %llu", weights.size(),
                          static_cast<unsigned long long>(place.rows), static_cast<unsigned long long>(place.columns));
    }
    if (!std::all_of(weights.begin(), weights.end(), [](float value) { return std::isfinite(value); })) {
        return make_error(ErrorCode::invalid_argument, "weights that are not finite cannot be quantised");
    }
    const std::size_t bytes = matrix_bytes(place.layout, place.rows, place.columns).value();
    std::vector<std::int8_t> q(weights.size());
    std::vector<float> scales(place.rows);
    for (std::uint64_t row = 0; row < place.rows; ++row) {
        quantise_row(weights.subspan(row * place.columns, place.columns), place.layout.format, rule,
                     std::span(q).subspan(row * place.columns, place.columns), scales[row]);
    }
    Buffer patched;
    patched.reserve(bytes);
    NPU_TRY(each_part(
        place, [&](std::uint64_t block, std::uint64_t first, unsigned width, std::size_t offset) -> Result<void> {
            const Bytes old = Bytes(constants).subspan(offset, part_bytes(place.layout, width));
            NPU_ASSIGN(WeightPart part, read_part(place.layout, width, old));
            NPU_ASSIGN(const Buffer same, write_part(place.layout, width, part));
            if (!std::equal(old.begin(), old.end(), same.begin(), same.end())) {
                return make_error(
                    ErrorCode::unsupported,
                    "the weights at byte %zu do not come out as they are when they are read and written; this "
                    "is a layout that only looks like %s",
                    offset, layout_name(place.layout).c_str());
            }
            for (unsigned row = 0; row < place.layout.block_rows; ++row) {
                const std::uint64_t global = block * place.layout.block_rows + row;
                std::copy_n(q.begin() + static_cast<std::ptrdiff_t>(global * place.columns + first), width,
                            part.q.begin() + static_cast<std::ptrdiff_t>(std::size_t{row} * width));
                part.scales[row] = scales[global];
            }
            NPU_ASSIGN(const Buffer written, write_part(place.layout, width, part));
            patched.insert(patched.end(), written.begin(), written.end());
            return {};
        }));
    std::copy(patched.begin(), patched.end(), constants.begin() + static_cast<std::ptrdiff_t>(place.offset));
    return {};
}

}  // namespace npu::axera
