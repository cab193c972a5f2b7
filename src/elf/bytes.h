// Bytes that nobody vouches for. A file's own numbers (offsets, counts, sizes) are what an attacker or a torn download
// would change, so nothing here believes them: every load names its offset and says whether it lies inside, and no sum
// wraps. AArch64 Linux is little-endian; so is every load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace npu::elf {

using Bytes = std::span<const std::uint8_t>;

// a + b, or nothing when the sum leaves 64 bits.
constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
    return a > std::numeric_limits<std::uint64_t>::max() - b ? std::nullopt : std::optional(a + b);
}

// a * b, or nothing when the product leaves 64 bits.
constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
    return b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b ? std::nullopt : std::optional(a * b);
}

// Whether [offset, offset + size) lies in `total` bytes.
constexpr bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t total) {
    return offset <= total && size <= total - offset;
}

// The part [offset, offset + size), or nothing when it is not all there.
inline std::optional<Bytes> part(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
    if (!inside(offset, size, bytes.size())) {
        return std::nullopt;
    }
    return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// The little-endian integer at an offset.
template <typename T>
std::optional<T> load(Bytes bytes, std::uint64_t offset) {
    if (!inside(offset, sizeof(T), bytes.size())) {
        return std::nullopt;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        value |= std::uint64_t{bytes[static_cast<std::size_t>(offset) + i]} << (8 * i);
    }
    return static_cast<T>(value);
}

// The text from an offset to the NUL that ends it (which must be there). Points into the bytes.
inline std::optional<std::string_view> load_text(Bytes bytes, std::uint64_t offset) {
    if (offset >= bytes.size()) {
        return std::nullopt;
    }
    const Bytes rest = bytes.subspan(static_cast<std::size_t>(offset));
    const void* end = std::memchr(rest.data(), 0, rest.size());
    if (end == nullptr) {
        return std::nullopt;
    }
    const char* begin = reinterpret_cast<const char*>(rest.data());
    return std::string_view(begin, static_cast<std::size_t>(static_cast<const char*>(end) - begin));
}

// The signed value of the low `bits` bits.
constexpr std::int64_t sign_extend(std::uint64_t value, unsigned bits) {
    const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
    const std::uint64_t low = bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
    return static_cast<std::int64_t>((low ^ sign) - sign);
}

}  // namespace npu::elf
