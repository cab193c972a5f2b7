#include "sim/dpu_lut.h"

#include <cmath>
#include <random>

#include "rockchip/registers.h"
#include "sim/dpu_rounding.h"

namespace npu::sim {

namespace {

bool below(const LookupRange& range, std::int32_t x) { return x < range.start; }
bool above(const LookupRange& range, std::int32_t x) { return x > range.end; }
bool inside(const LookupRange& range, std::int32_t x) { return !below(range, x) && !above(range, x); }

// Whether LO answers for x.
bool lo_answers(const LookupStage& stage, std::int32_t x) {
    const bool in_le = inside(stage.le, x);
    const bool in_lo = inside(stage.lo, x);
    if (in_le != in_lo) {
        return in_lo;
    }
    if (above(stage.le, x) && above(stage.lo, x)) {
        return stage.lo_above;
    }
    if (below(stage.le, x) && below(stage.lo, x)) {
        return stage.lo_below;
    }
    return stage.lo_where_both;
}

}  // namespace

void LookupTables::reset(std::uint64_t seed) {
    std::mt19937_64 noise(seed);
    for (auto& table : tables_) {
        for (std::int16_t& entry : table) {
            entry = static_cast<std::int16_t>(noise());
        }
    }
    written_ = {};
    writing_ = false;
}

void LookupTables::write(std::uint16_t offset, std::uint32_t value) {
    using namespace rockchip::reg::DPU;
    if (offset == LUT_ACCESS_CFG::offset) {
        writing_ = LUT_ACCESS_CFG::LUT_ACCESS_TYPE.of(value) != 0;
        table_ = LUT_ACCESS_CFG::LUT_TABLE_ID.of(value);
        address_ = LUT_ACCESS_CFG::LUT_ADDR.of(value);
    } else if (offset == LUT_ACCESS_DATA::offset && writing_ && address_ < entries) {
        tables_[table_][address_] = static_cast<std::int16_t>(LUT_ACCESS_DATA::LUT_ACCESS_DATA.of(value));
        written_[table_].set(address_);
        ++address_;
    }
}

std::string LookupTables::hazards() const {
    bool flat = false;
    bool zero = false;
    for (const auto& table : tables_) {
        for (std::size_t i = 1; i + 2 < table.size(); ++i) {
            // A run that reaches an end of the table is how saturated functions look; those are in daily use.
            const bool run = table[i] == table[i + 1];
            const bool left = table[i] != table.front();
            const bool right = table[i] != table.back();
            flat = flat || (run && left && right);
        }
        for (const std::int16_t entry : table) {
            zero = zero || entry == 0;
        }
    }
    std::string text;
    const auto add = [&text](bool met, const char* what) {
        text += met ? (text.empty() ? "" : "; ") + std::string(what) : "";
    };
    add(flat, "equal entries inside a table give spikes of 128/16 of the value");
    add(zero, "an entry of 0 decodes to about 4.0 in one mode");
    add((tables_[0][entries - 2] < 0) != (tables_[1][1] < 0),
        "a change of sign between the tables glitches within 3 of index 0");
    return text;
}

std::int64_t LookupTables::evaluate(const LookupRange& range, std::size_t table, std::int32_t x) const {
    const auto& entry = tables_[table];
    if (below(range, x)) {
        const std::int64_t distance = std::int64_t{x} - range.start;
        return entry.front() + shift_round(distance * range.underflow_scale, range.underflow_shift);
    }
    const auto last = std::min<std::uint64_t>(
        (static_cast<std::uint64_t>(std::int64_t{range.end} - range.start)) >> range.distance, entries - 1);
    if (above(range, x)) {
        const std::int64_t distance = std::int64_t{x} - range.end;
        return entry[last] + shift_round(distance * range.overflow_scale, range.overflow_shift);
    }
    const auto offset = static_cast<std::uint64_t>(std::int64_t{x} - range.start);
    const std::uint64_t interval = offset >> range.distance;
    if (interval >= last) {
        return entry[last];
    }
    const auto rest = static_cast<std::int64_t>(offset - (interval << range.distance));
    const std::int64_t step = std::int64_t{entry[interval + 1]} - entry[interval];
    return entry[interval] + shift_round(step * rest, range.distance);
}

std::int64_t LookupTables::look_up(const LookupStage& stage, std::int32_t x) const {
    return lo_answers(stage, x) ? evaluate(stage.lo, 1, x) : evaluate(stage.le, 0, x);
}

std::int32_t lookup_index(float value) {
    if (std::isnan(value)) {
        return 0;
    }
    constexpr float limit = 0x1p31F;
    if (value >= limit) {
        return std::numeric_limits<std::int32_t>::max();
    }
    return value <= -limit ? std::numeric_limits<std::int32_t>::min()
                           : static_cast<std::int32_t>(std::nearbyint(value));
}

}  // namespace npu::sim
