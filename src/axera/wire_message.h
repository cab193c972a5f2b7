// How the messages of onnx.h and extra_data.h are read: a function for each message says, field by field, where a value
// goes; what no function knows is kept as it was. A field of another type than expected counts as not known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axera/wire.h"

namespace npu::axera {

// Calls take(field) -> Result<bool> for each field of `message`; false puts it among the unknown ones.
template <typename Take>
Result<void> read_fields(Bytes message, const char* what, std::vector<WireField>& unknown, Take take) {
    WireReader reader(message, what);
    while (!reader.at_end()) {
        NPU_ASSIGN(const WireField field, reader.next());
        NPU_ASSIGN(const bool known, take(field));
        if (!known) {
            unknown.push_back(field);
        }
    }
    return {};
}

inline bool set(std::string& to, const WireField& field) {
    if (field.type == WireType::bytes) {
        to = text_of(field.bytes);
    }
    return field.type == WireType::bytes;
}

inline bool set(std::optional<std::string>& to, const WireField& field) {
    return field.type == WireType::bytes && set(to.emplace(), field);
}

inline bool set(std::optional<std::uint64_t>& to, const WireField& field) {
    if (field.type == WireType::varint) {
        to = field.value;
    }
    return field.type == WireType::varint;
}

// Reads a nested message as a new element of `list`.
template <typename T, typename Read>
Result<bool> append(std::vector<T>& list, const WireField& field, Read read) {
    if (field.type != WireType::bytes) {
        return false;
    }
    NPU_ASSIGN(T element, read(field.bytes));
    list.push_back(std::move(element));
    return true;
}

// A repeated text.
inline bool append(std::vector<std::string>& list, const WireField& field) {
    return field.type == WireType::bytes && set(list.emplace_back(), field);
}

}  // namespace npu::axera
