// What is a FlatBuffer? Bytes that are read where they lie. The first word is the position of the root table. A table
// starts with a signed distance back to its "vtable", a row of 16-bit numbers: its own size, the size of the table,
// then for each field the field's place in the table, 0 when the field is absent. Numbers stand in the table;
// everything else is an unsigned distance forward to a table, a vector (count, then elements) or a string (a vector of
// bytes and a zero).
//
// So a schema is only this: which field has which number and type. That of the NPU program is small and was found from
// outside (neu.h), hence no schema compiler here. The reader checks every distance, count and field against the bytes;
// the writer puts parents before children and numbers at positions that divide by their size, as the format asks.
// Source: the public description of the FlatBuffers binary format.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "axera/bytes.h"
#include "base/result.h"

namespace npu::axera {

// A table inside a buffer, checked to lie in it with its vtable. Cheap to copy; keep the buffer.
class FlatTable {
  public:
    // The root of a whole buffer.
    static Result<FlatTable> root(Bytes buffer);

    [[nodiscard]] std::size_t position() const { return at_; }
    [[nodiscard]] unsigned field_count() const { return fields_; }
    [[nodiscard]] bool has(unsigned field) const { return place(field) != 0; }

    // The number in a field; `absent` when there is none, which is how the format stores defaults.
    template <std::integral T>
    Result<T> number(unsigned field, T absent = 0) const {
        const std::uint16_t place_in_table = place(field);
        if (place_in_table == 0) {
            return absent;
        }
        if (place_in_table + sizeof(T) > bytes_) {
            return outside(field);
        }
        return load<T>(buffer_, at_ + place_in_table);
    }

    // What a field leads to; nothing when it is absent. A vector's elements have `element_bytes` bytes each.
    Result<std::optional<FlatTable>> table(unsigned field) const;
    Result<std::optional<Bytes>> vector(unsigned field, unsigned element_bytes) const;
    Result<std::optional<std::string>> text(unsigned field, std::size_t most) const;
    // A vector of tables, of at most `most`.
    Result<std::vector<FlatTable>> tables(unsigned field, std::size_t most) const;

  private:
    static Result<FlatTable> at(Bytes buffer, std::uint64_t position);
    [[nodiscard]] std::uint16_t place(unsigned field) const;
    [[nodiscard]] Error outside(unsigned field) const;
    Result<std::uint64_t> target(unsigned field) const;  // position that a present field leads to

    Bytes buffer_;
    std::size_t at_ = 0, vtable_ = 0;
    unsigned fields_ = 0, bytes_ = 0;
};

// A field of a table to be written: its number, its size (1, 2, 4 or 8 bytes) and its value. Size 0 stands for a
// distance, to be set by `link`.
struct FlatField {
    unsigned number;
    unsigned bytes;
    std::uint64_t value = 0;
};

// Where a written table has its distances: links()[field number].
struct FlatLinks {
    std::size_t table = 0;
    std::array<std::size_t, 16> field{};
};

class FlatWriter {
  public:
    FlatWriter() : buffer_(4) {}

    // Appends a table (fields numbered below 16). The first one is the root. Fields with value 0 that are not distances
    // are left out.
    FlatLinks table(std::initializer_list<FlatField> fields);
    // Appends a vector of elements of the given size, or a string, and makes the distance at `place` lead to it.
    void vector(std::size_t place, Bytes elements, unsigned element_bytes);
    void text(std::size_t place, std::string_view value);
    // Appends a vector of `count` distances; returns the place of the first, the others follow every 4 bytes.
    std::size_t distances(std::size_t place, std::size_t count);
    // Makes the distance at `place` lead to a table.
    void link(std::size_t place, std::size_t target);

    [[nodiscard]] Buffer take();

  private:
    void align(std::size_t unit, std::size_t remainder = 0);
    template <typename T>
    void append(T value);

    Buffer buffer_;
};

}  // namespace npu::axera
