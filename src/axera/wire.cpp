#include "axera/wire.h"

#include <algorithm>

namespace npu::axera {

std::string hex(Bytes bytes) {
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const std::uint8_t byte : bytes) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

Result<std::uint64_t> WireReader::varint() {
    std::uint64_t value = 0;
    const std::size_t start = at_;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (at_ == message_.size()) {
            return make_error(ErrorCode::invalid_argument,
                              "%s: the number at byte %zu is cut off by the end at byte %zu; the file is incomplete",
                              what_, start, message_.size());
        }
        const std::uint8_t byte = message_[at_++];
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    return make_error(ErrorCode::invalid_argument, "%s: the number at byte %zu has more than 64 bits", what_, start);
}

Result<WireField> WireReader::next() {
    const std::size_t start = at_;
    NPU_ASSIGN(const std::uint64_t tag, varint());
    WireField field;
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) {
        return make_error(ErrorCode::invalid_argument, "%s: the tag at byte %zu names field %llu; fields are 1..%u",
                          what_, start, static_cast<unsigned long long>(tag >> 3), 0x1FFFFFFFU);
    }
    field.number = static_cast<std::uint32_t>(tag >> 3);
    field.type = static_cast<WireType>(tag & 7);
    std::uint64_t length = 0;
    switch (field.type) {
        case WireType::varint: {
            NPU_ASSIGN(field.value, varint());
            field.raw = message_.subspan(start, at_ - start);
            return field;
        }
        case WireType::fixed64: length = 8; break;
        case WireType::fixed32: length = 4; break;
        case WireType::bytes: {
            NPU_ASSIGN(length, varint());
            break;
        }
        default:
            return make_error(ErrorCode::invalid_argument,
                              "%s: field %u at byte %zu has wire type %u, which no ONNX file has", what_, field.number,
                              start, static_cast<unsigned>(tag & 7));
    }
    if (!inside(message_, at_, length)) {
        return make_error(ErrorCode::invalid_argument,
                          "%s: field %u at byte %zu wants %llu bytes and %zu are left; the file is incomplete or not "
                          "a model",
                          what_, field.number, start, static_cast<unsigned long long>(length), message_.size() - at_);
    }
    field.bytes = message_.subspan(at_, length);
    if (field.type != WireType::bytes) {
        std::memcpy(&field.value, field.bytes.data(), length);
        field.bytes = {};
    }
    at_ += length;
    field.raw = message_.subspan(start, at_ - start);
    return field;
}

Error WireReader::wrong(const WireField& field, const char* why) const {
    return make_error(ErrorCode::invalid_argument, "%s: field %u %s", what_, field.number, why);
}

void append_varint(Buffer& to, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        to.push_back(static_cast<std::uint8_t>(value | 0x80));
    }
    to.push_back(static_cast<std::uint8_t>(value));
}

void WireWriter::varint(std::uint32_t number, std::uint64_t value) {
    Buffer field;
    append_varint(field, static_cast<std::uint64_t>(number) << 3);
    append_varint(field, value);
    fields_.emplace_back(number, std::move(field));
}

void WireWriter::varint(std::uint32_t number, const std::optional<std::uint64_t>& value) {
    if (value) {
        varint(number, *value);
    }
}

void WireWriter::bytes(std::uint32_t number, Bytes value) {
    Buffer field;
    field.reserve(value.size() + 16);
    append_varint(field, static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(WireType::bytes));
    append_varint(field, value.size());
    field.insert(field.end(), value.begin(), value.end());
    fields_.emplace_back(number, std::move(field));
}

void WireWriter::text_if(std::uint32_t number, std::string_view value) {
    if (!value.empty()) {
        text(number, value);
    }
}

void WireWriter::raw(const std::vector<WireField>& fields) {
    for (const WireField& field : fields) {
        fields_.emplace_back(field.number, Buffer(field.raw.begin(), field.raw.end()));
    }
}

Buffer WireWriter::take() {
    std::stable_sort(fields_.begin(), fields_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::size_t size = 0;
    for (const auto& [number, field] : fields_) {
        size += field.size();
    }
    Buffer message;
    message.reserve(size);
    for (const auto& [number, field] : fields_) {
        message.insert(message.end(), field.begin(), field.end());
    }
    fields_.clear();
    return message;
}

}  // namespace npu::axera
