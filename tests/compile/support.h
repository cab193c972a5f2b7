// What the tests of this room share: a seeded generator that prints its seed, and the golden data.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <vector>

namespace npu::compile::test {

class Random {
  public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    std::uint32_t between(std::uint32_t low, std::uint32_t high) {
        return std::uniform_int_distribution<std::uint32_t>(low, high)(engine_);
    }
    // Small numbers as likely as large ones.
    std::uint32_t logarithmic(std::uint32_t high) {
        std::uint32_t bits = 1;
        while (high >> bits != 0) {
            ++bits;
        }
        return between(1, std::min(high, (1U << between(1, bits)) - 1));
    }
    bool coin() { return between(0, 1) == 1; }
    std::vector<std::uint8_t> bytes(std::size_t count) {
        std::vector<std::uint8_t> data(count);
        for (std::uint8_t& byte : data) {
            byte = static_cast<std::uint8_t>(between(0, 255));
        }
        return data;
    }

  private:
    std::mt19937_64 engine_;
};

// Folder of the golden data, or an empty path when NPU_TEST_DATA is not set.
inline std::filesystem::path golden_folder() {
    const char* data = std::getenv("NPU_TEST_DATA");
    return data == nullptr ? std::filesystem::path{} : std::filesystem::path{data} / "golden";
}

}  // namespace npu::compile::test
