// The look-up tables of the EW stage: LE and LO, 513 signed 16-bit entries each, which stand for two neighbouring ranges
// of one function. A value x falls into interval (x - start) >> distance of a table; the result is interpolated linearly
// between the entries at both ends of the interval. Beyond both tables the curve goes on with a slope from the register:
// entry at the end + ((x - end) * scale >> shift).
//
// Which table answers follows the priority bits where the ranges leave a choice: both hold x (hybrid), x is above both
// (overflow) or below both (underflow). All known programs have LE below LO and the bits set so that each end is continued
// by the table that lies there.
//
// Tables are loaded by a command list, one entry per register write, before the task that uses them; they survive tasks
// and jobs, and a soft reset loses them. Sources: register manual for the fields; captured programs for the use; published
// measurements for the hazards that hazards() names. Not published and chosen here: the interpolated value and the slope
// product round ties to even, a float x is rounded to an integer first (ties to even), and results are not cut to 16 bits
// (a captured SiLU program continues its last entry, 32767, with slope 1, which would be useless otherwise).
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>

#include "sim/dpu_task.h"

namespace npu::sim {

class LookupTables {
  public:
    static constexpr std::uint32_t entries = 513;

    explicit LookupTables(std::uint64_t seed = 1) { reset(seed); }

    // Noise in all entries; nothing counts as loaded.
    void reset(std::uint64_t seed);

    // A write to DPU.LUT_ACCESS_CFG or DPU.LUT_ACCESS_DATA, as it happens. Data goes to the table and entry that the last
    // configuration named and the address advances; a configuration for reading, or an address past the end, takes nothing.
    void write(std::uint16_t offset, std::uint32_t value);

    // True when every entry was written since the last reset.
    [[nodiscard]] bool loaded() const { return written_[0].count() == entries && written_[1].count() == entries; }

    // Published oddities of silicon that these tables meet, as one text; empty when there are none.
    [[nodiscard]] std::string hazards() const;

    [[nodiscard]] std::int64_t look_up(const LookupStage& stage, std::int32_t x) const;

  private:
    [[nodiscard]] std::int64_t evaluate(const LookupRange& range, std::size_t table, std::int32_t x) const;

    std::array<std::array<std::int16_t, entries>, 2> tables_{};  // LE, LO
    std::array<std::bitset<entries>, 2> written_;
    bool writing_ = false;
    std::size_t table_ = 0;
    std::uint32_t address_ = 0;
};

// The integer that the tables see for a float value: ties to even, saturated to 32 bits, 0 for NaN.
std::int32_t lookup_index(float value);

}  // namespace npu::sim
