// What an engine over librknnrt keeps between multiplications: contexts and scratch memory, both bounded. The library
// prepares a context for one shape, and each takes file descriptors and address space, of which there are few (programs
// that make one per weight and batch size exhaust both); so contexts are made for a shape, shared by all weights that
// have it, and the least recently used goes first. The same holds for scratch memory, which is kept by exact size: two
// uses of a size may share it one after the other, whatever their shapes.
//
// "In use" is by rounds: a round begins, everything that is asked for in it stays until the next round begins.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

#include "gemm/rknn_library.h"

namespace npu::gemm::rknn {

class ContextCache {
  public:
    // `most` contexts, or as many as one round needs.
    explicit ContextCache(std::size_t most) : most_(most) {}

    void begin_round() { ++round_; }

    // The context for this shape on this core; nullopt: wherever the library likes. Valid until the next round, during
    // which further calls with the same key give the same context.
    Result<Context*> get(const Session& session, const MatmulShape& shape, std::optional<std::uint32_t> core);

    void clear() { entries_.clear(); }
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

  private:
    struct Entry {
        Context context;
        std::optional<std::uint32_t> core;
        std::uint64_t round;
    };

    std::size_t most_;
    std::uint64_t round_ = 0;
    std::list<Entry> entries_;  // most recently used first
};

class ScratchPool {
  public:
    // `most` bytes, or as many as one round needs.
    explicit ScratchPool(std::size_t most) : most_(most) {}

    void begin_round() { ++round_; }

    // Memory of exactly this size that nobody else got in this round. Its contents are whatever the last use left.
    Result<const Memory*> get(const Session& session, std::size_t bytes);

    void clear();
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

  private:
    struct Entry {
        Memory memory;
        std::uint64_t round;
    };
    bool drop_least_recent();  // false: all are in use

    std::size_t most_;
    std::size_t bytes_ = 0;
    std::uint64_t round_ = 0;
    std::list<Entry> entries_;  // most recently used first
};

}  // namespace npu::gemm::rknn
