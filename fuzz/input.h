// A fuzzer's bytes, read as decisions. Every draw takes a fixed number of bytes, so that a small change of the input is a
// small change of what it means; when the bytes run out every draw is 0. All targets decode with it, so that an input
// means the same to every compiler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace npu::fuzz {

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

    [[nodiscard]] bool empty() const { return rest_.empty(); }

    // An integer from its bytes.
    template <typename T>
    T draw() {
        T value = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            value |= static_cast<T>(T{byte()} << (8 * i));
        }
        return value;
    }
    // 0 to count - 1; count is at most 256.
    std::uint32_t index(std::size_t count) {
        return byte() % static_cast<std::uint32_t>(std::max<std::size_t>(count, 1));
    }
    // True for one byte value in n: what has to be rare. Never when the bytes have run out.
    bool one_in(std::uint32_t n) { return byte() % n == n - 1; }

    // What is left, for whoever takes it as it is.
    std::span<const std::uint8_t> take_rest() {
        const auto all = rest_;
        rest_ = {};
        return all;
    }

    // Numbers that are edges of something: small, powers of two and their neighbours, negative, anything.
    std::uint64_t edge() {
        const std::uint32_t kind = index(8);
        const std::uint8_t detail = byte();
        switch (kind) {
            case 0: return detail;
            case 1: return std::uint64_t{1} << (detail % 64);
            case 2: return (std::uint64_t{1} << (detail % 64)) - 1;
            case 3: return (std::uint64_t{1} << (detail % 64)) + 1;
            case 4: return ~std::uint64_t{detail};
            case 5: return std::uint64_t{detail} << 12;
            case 6: return draw<std::uint32_t>();
            default: return draw<std::uint64_t>();
        }
    }

  private:
    std::uint8_t byte() {
        if (rest_.empty()) {
            return 0;
        }
        const std::uint8_t value = rest_.front();
        rest_ = rest_.subspan(1);
        return value;
    }

    std::span<const std::uint8_t> rest_;
};

}  // namespace npu::fuzz
