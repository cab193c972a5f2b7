// What is the protobuf wire format? A message is a row of fields without a frame: each field is a tag (number and wire
// type, as one varint) and a value: a varint, four or eight bytes, or a length and that many bytes. A nested message is
// bytes. Nothing says where a message ends but the length its parent gave it, so reading is: take fields until the span
// is empty, and refuse a field that reaches past its end.
//
// Groups (wire types 3 and 4) are not part of ONNX files and are refused. Source: the public encoding guide of Protocol
// Buffers; the tags of .axmodel files are those of ONNX (onnx.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "axera/bytes.h"
#include "base/result.h"

namespace npu::axera {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct WireField {
    std::uint32_t number = 0;
    WireType type = WireType::varint;
    std::uint64_t value = 0;  // varint, fixed64 or fixed32
    Bytes bytes;              // of type bytes
    Bytes raw;                // tag and value as they stand in the file
};

// Takes the fields of one message one after the other. Positions in errors count from the start of `message`.
class WireReader {
  public:
    // `what` names the message in errors.
    WireReader(Bytes message, const char* what) : message_(message), what_(what) {}

    [[nodiscard]] bool at_end() const { return at_ == message_.size(); }

    // The next field; an error when it is cut off or has no meaning. Not to be called at the end.
    Result<WireField> next();

    // An error that names this message, a field and why it is not acceptable.
    [[nodiscard]] Error wrong(const WireField& field, const char* why) const;

  private:
    Result<std::uint64_t> varint();

    Bytes message_;
    const char* what_;
    std::size_t at_ = 0;
};

// Writes a message. Fields come out in the order of their numbers, those of one number in the order they were added,
// which is what every common writer does; so a message that was read and not changed comes out byte for byte.
class WireWriter {
  public:
    void varint(std::uint32_t number, std::uint64_t value);
    void bytes(std::uint32_t number, Bytes value);
    void text(std::uint32_t number, std::string_view value) { bytes(number, bytes_of(value)); }
    // Nothing when there is no value.
    void varint(std::uint32_t number, const std::optional<std::uint64_t>& value);
    // Nothing when the text is empty.
    void text_if(std::uint32_t number, std::string_view value);
    // Fields that were read and are not understood, as they were.
    void raw(const std::vector<WireField>& fields);

    [[nodiscard]] Buffer take();

  private:
    std::vector<std::pair<std::uint32_t, Buffer>> fields_;
};

// Appends a varint.
void append_varint(Buffer& to, std::uint64_t value);

}  // namespace npu::axera
