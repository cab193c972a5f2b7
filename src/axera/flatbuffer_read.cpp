#include "axera/flatbuffer.h"

namespace npu::axera {

Result<FlatTable> FlatTable::root(Bytes buffer) {
    if (buffer.size() < 8) {
        return make_error(ErrorCode::invalid_argument, "a FlatBuffer of %zu bytes; the smallest has 8", buffer.size());
    }
    return at(buffer, load<std::uint32_t>(buffer, 0));
}

Result<FlatTable> FlatTable::at(Bytes buffer, std::uint64_t position) {
    if (!inside(buffer, position, 4)) {
        return make_error(ErrorCode::invalid_argument, "FlatBuffer: a table at byte %llu of %zu",
                          static_cast<unsigned long long>(position), buffer.size());
    }
    FlatTable table;
    table.buffer_ = buffer;
    table.at_ = position;
    const std::int64_t vtable = static_cast<std::int64_t>(position) - load<std::int32_t>(buffer, position);
    if (vtable < 0 || !inside(buffer, static_cast<std::uint64_t>(vtable), 4)) {
        return make_error(ErrorCode::invalid_argument,
                          "FlatBuffer: the table at byte %zu has its vtable at byte %lld of %zu", table.at_,
                          static_cast<long long>(vtable), buffer.size());
    }
    table.vtable_ = static_cast<std::size_t>(vtable);
    const auto vtable_bytes = load<std::uint16_t>(buffer, table.vtable_);
    table.bytes_ = load<std::uint16_t>(buffer, table.vtable_ + 2);
    if (vtable_bytes < 4 || vtable_bytes % 2 != 0 || !inside(buffer, table.vtable_, vtable_bytes) || table.bytes_ < 4 ||
        !inside(buffer, table.at_, table.bytes_)) {
        return make_error(ErrorCode::invalid_argument,
                          "FlatBuffer: the table at byte %zu of %zu claims a vtable of %u and a body of %u bytes",
                          table.at_, buffer.size(), static_cast<unsigned>(vtable_bytes), table.bytes_);
    }
    table.fields_ = (vtable_bytes - 4U) / 2U;
    return table;
}

std::uint16_t FlatTable::place(unsigned field) const {
    return field < fields_ ? load<std::uint16_t>(buffer_, vtable_ + 4 + std::size_t{2} * field) : 0;
}

Error FlatTable::outside(unsigned field) const {
    return make_error(ErrorCode::invalid_argument,
                      "FlatBuffer: field %u of the table at byte %zu lies or leads outside the %zu bytes", field, at_,
                      buffer_.size());
}

Result<std::uint64_t> FlatTable::target(unsigned field) const {
    NPU_ASSIGN(const auto distance, number<std::uint32_t>(field));
    const std::uint64_t target = at_ + place(field) + std::uint64_t{distance};
    if (distance == 0 || !inside(buffer_, target, 4)) {
        return outside(field);
    }
    return target;
}

Result<std::optional<FlatTable>> FlatTable::table(unsigned field) const {
    if (!has(field)) {
        return std::optional<FlatTable>();
    }
    NPU_ASSIGN(const std::uint64_t position, target(field));
    NPU_ASSIGN(const FlatTable found, at(buffer_, position));
    return std::optional<FlatTable>(found);
}

Result<std::optional<Bytes>> FlatTable::vector(unsigned field, unsigned element_bytes) const {
    if (!has(field)) {
        return std::optional<Bytes>();
    }
    NPU_ASSIGN(const std::uint64_t position, target(field));
    const std::uint64_t bytes = std::uint64_t{load<std::uint32_t>(buffer_, position)} * element_bytes;
    if (!inside(buffer_, position + 4, bytes)) {
        return make_error(
            ErrorCode::invalid_argument, "FlatBuffer: the vector at byte %llu (field %u) wants %llu bytes of %zu",
            static_cast<unsigned long long>(position), field, static_cast<unsigned long long>(bytes), buffer_.size());
    }
    return std::optional<Bytes>(buffer_.subspan(position + 4, bytes));
}

Result<std::optional<std::string>> FlatTable::text(unsigned field, std::size_t most) const {
    NPU_ASSIGN(const std::optional<Bytes> bytes, vector(field, 1));
    if (!bytes) {
        return std::optional<std::string>();
    }
    if (bytes->size() > most) {
        return make_error(ErrorCode::invalid_argument,
                          "FlatBuffer: the text in field %u of the table at byte %zu has %zu bytes; accepted are %zu",
                          field, at_, bytes->size(), most);
    }
    return std::optional<std::string>(text_of(*bytes));
}

Result<std::vector<FlatTable>> FlatTable::tables(unsigned field, std::size_t most) const {
    std::vector<FlatTable> found;
    NPU_ASSIGN(const std::optional<Bytes> distances, vector(field, 4));
    if (!distances) {
        return found;
    }
    if (distances->size() / 4 > most) {
        return make_error(ErrorCode::invalid_argument,
                          "FlatBuffer: field %u of the table at byte %zu lists %zu tables; accepted are %zu", field,
                          at_, distances->size() / 4, most);
    }
    const auto first = static_cast<std::size_t>(distances->data() - buffer_.data());
    for (std::size_t i = 0; i < distances->size(); i += 4) {
        NPU_ASSIGN(const FlatTable table, at(buffer_, std::uint64_t{first} + i + load<std::uint32_t>(*distances, i)));
        found.push_back(table);
    }
    return found;
}

}  // namespace npu::axera
