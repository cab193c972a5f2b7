#include "compile/writer.h"

#include <cassert>
#include <utility>

namespace npu::compile {

using rockchip::Command;
using rockchip::find_register;
using rockchip::RegisterInfo;
using rockchip::RegisterValue;

namespace {

Error overflow(const RegisterInfo& info, const FieldValue& wanted) {
    const std::int64_t maximum = wanted.field.maximum();
    return make_error(ErrorCode::invalid_argument,
                      "register %s.%s (0x%04x): value %lld does not fit, bounds are %lld to %lld; use smaller tiles",
                      block_name(info.block), wanted.field.name, info.offset, static_cast<long long>(wanted.value),
                      static_cast<long long>(wanted.is_signed ? -(maximum + 1) / 2 : 0),
                      static_cast<long long>(wanted.is_signed ? maximum / 2 : maximum));
}

}  // namespace

void CommandWriter::write(std::initializer_list<FieldValue> fields) {
    if (error_) {
        return;
    }
    assert(fields.size() != 0);
    const RegisterInfo* info = find_register(fields.begin()->field.offset);
    assert(info != nullptr);
    RegisterValue joined{info->offset, 0, nullptr};
    for (const FieldValue& wanted : fields) {
        assert(wanted.field.offset == info->offset);
        const RegisterValue placed = wanted.is_signed ? wanted.field.from_signed(wanted.value)
                                                      : wanted.field(static_cast<std::uint64_t>(wanted.value));
        if (placed.overflowed != nullptr) {
            error_ = overflow(*info, wanted);
            return;
        }
        joined = joined | placed;
    }
    commands_.push_back({block_target(info->block), joined.offset, joined.value});
}

void CommandWriter::zero(std::uint16_t first, std::uint16_t last) {
    if (error_) {
        return;
    }
    const RegisterInfo* info = find_register(first);
    assert(info != nullptr && find_register(last) != nullptr && find_register(last)->block == info->block);
    for (std::uint32_t offset = first; offset <= last; offset += sizeof(std::uint32_t)) {
        commands_.push_back({block_target(info->block), static_cast<std::uint16_t>(offset), 0});
    }
}

Result<std::vector<Command>> CommandWriter::take() {
    if (error_) {
        return *error_;
    }
    return std::move(commands_);
}

}  // namespace npu::compile
