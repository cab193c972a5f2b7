// Bytes of a file that somebody else wrote. Everything in this room that reads a model reads it through a span and
// checks each length against what is left before it uses it; nothing is copied but names. Whoever holds a struct made
// from a span must keep the bytes it was made from.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npu::axera {

static_assert(std::endian::native == std::endian::little, "the containers are little-endian and read in place");

using Bytes = std::span<const std::uint8_t>;
using Buffer = std::vector<std::uint8_t>;

// The number at `at`, which need not be aligned. The caller has checked that at + sizeof(T) <= bytes.size().
template <std::integral T>
T load(Bytes bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
}

// Whether [at, at + count) lies inside; cannot wrap.
inline bool inside(Bytes bytes, std::uint64_t at, std::uint64_t count) {
    return at <= bytes.size() && count <= bytes.size() - at;
}

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline Bytes bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Hexadecimal, two digits a byte.
std::string hex(Bytes bytes);

}  // namespace npu::axera
