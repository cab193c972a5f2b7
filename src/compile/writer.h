// Collects register writes as commands. A write names its fields: `{reg::CNA::DATA_SIZE0::DATAIN_WIDTH, 64}`. The
// register and its block follow from the fields, fields that are not named are zero, and a value that does not fit
// its field becomes an error that says which, how large, and what the bound is. The first such error is kept and
// later writes are ignored, so that a task reads as one list and is checked once, at the end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/result.h"
#include "rockchip/command.h"
#include "rockchip/registers.h"

namespace npu::compile {

// A value on its way into a field. Negative values are two's complement and must be marked as signed.
struct FieldValue {
    rockchip::Field field;
    std::int64_t value = 0;
    bool is_signed = false;
};

class CommandWriter {
  public:
    explicit CommandWriter(std::size_t expected) { commands_.reserve(expected); }

    // One register; all fields belong to it, and there is at least one.
    void write(std::initializer_list<FieldValue> fields);

    // A register that is written as zero, and every register from `first` to `last`, all of one block.
    void zero(std::uint16_t offset) { zero(offset, offset); }
    void zero(std::uint16_t first, std::uint16_t last);

    // The commands, or the first error.
    Result<std::vector<rockchip::Command>> take();

  private:
    std::vector<rockchip::Command> commands_;
    std::optional<Error> error_;
};

}  // namespace npu::compile
