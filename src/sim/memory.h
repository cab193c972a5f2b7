// What the NPU sees of memory. The NPU's own addresses (IOVA) are 32 bits wide and lead to buffer objects; between
// the objects there is nothing, and a read or write there stops the job with a DMA error. The machine asks for
// memory only through `Memory`, so a test can put a program at any address and the kernel can show a job only the
// objects that belong to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace npu::sim {

class Memory {
  public:
    virtual ~Memory() = default;

    // The bytes from `iova` to the end of the object that holds it; empty when nothing is mapped there. The span
    // stays valid while the job runs. Thread-safe: several cores ask at once.
    [[nodiscard]] virtual std::span<std::byte> from(std::uint64_t iova) const = 0;

    // Exactly `bytes` bytes from `iova`, or an empty span when they do not lie in one mapped object.
    [[nodiscard]] std::span<std::byte> range(std::uint64_t iova, std::uint64_t bytes) const {
        const std::span<std::byte> rest = from(iova);
        return bytes <= rest.size() ? rest.first(bytes) : std::span<std::byte>{};
    }
};

// A table of mapped ranges. Does not own the memory behind them.
class MappedMemory final : public Memory {
  public:
    // Maps `bytes` at `iova`. Fails when the range leaves the 32-bit window or overlaps a mapped one.
    Result<void> map(std::uint64_t iova, std::span<std::byte> bytes);

    [[nodiscard]] std::span<std::byte> from(std::uint64_t iova) const override;

  private:
    struct Range {
        std::uint64_t iova;
        std::span<std::byte> bytes;
    };
    std::vector<Range> ranges_;  // in order of address
};

}  // namespace npu::sim
