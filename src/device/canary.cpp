#include "device/canary.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace npu::device {

namespace {

constexpr std::size_t canary_bytes = sizeof(std::uint64_t);

// Spreads the bits of a counter. A bijection, for so are odd factors and shifts that are xored in.
std::uint64_t spread(std::uint64_t x) {
    x *= 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
    return x ^ (x >> 32);
}

// 0 would come first, and it is what a new buffer and many results hold.
std::uint64_t next_pattern() {
    static std::atomic<std::uint64_t> counter{1};
    return spread(counter++);
}

// Calls `sync` for each canary, or once for each buffer.
template <typename Sync>
Result<void> for_each_range(std::span<const TaskChain> chains, bool ranges, Sync sync) {
    std::vector<Buffer*> done;
    for (const TaskChain& chain : chains) {
        for (const Canary& canary : chain.canaries) {
            if (ranges) {
                NPU_TRY(sync(*canary.buffer, canary.offset, canary_bytes));
            } else if (std::ranges::find(done, canary.buffer) == done.end()) {
                NPU_TRY(sync(*canary.buffer, std::size_t{0}, canary.buffer->bytes()));
                done.push_back(canary.buffer);
            }
        }
    }
    return {};
}

}  // namespace

Result<void> check_canary_places(std::span<const TaskChain> chains) {
    for (const TaskChain& chain : chains) {
        for (const Canary& canary : chain.canaries) {
            if (canary.buffer == nullptr) {
                return make_error(ErrorCode::invalid_argument, "a canary without a buffer was given");
            }
            const std::size_t bytes = canary.buffer->bytes();
            if (bytes < canary_bytes || canary.offset > bytes - canary_bytes) {
                return make_error(ErrorCode::invalid_argument,
                                  "a canary of %zu bytes at offset %zu was asked for in a buffer of %zu bytes",
                                  canary_bytes, canary.offset, bytes);
            }
        }
    }
    return {};
}

Result<Canaries> Canaries::set(std::span<const TaskChain> chains, bool ranges) {
    Canaries canaries(ranges);
    for (const TaskChain& chain : chains) {
        for (const Canary& canary : chain.canaries) {
            const std::uint64_t pattern = canaries.patterns_.emplace_back(next_pattern());
            std::memcpy(canary.buffer->data() + canary.offset, &pattern, canary_bytes);
        }
    }
    NPU_TRY(for_each_range(chains, ranges, [](Buffer& buffer, std::size_t offset, std::size_t bytes) {
        return buffer.to_device(offset, bytes);
    }));
    return canaries;
}

Result<void> Canaries::check(std::span<const TaskChain> chains, const char* hint) const {
    NPU_TRY(for_each_range(chains, ranges_, [](Buffer& buffer, std::size_t offset, std::size_t bytes) {
        return buffer.from_device(offset, bytes);
    }));
    auto pattern = patterns_.begin();
    for (std::size_t core = 0; core < chains.size(); ++core) {
        for (const Canary& canary : chains[core].canaries) {
            if (std::memcmp(canary.buffer->data() + canary.offset, &*pattern++, canary_bytes) == 0) {
                return make_error(
                    ErrorCode::device_failure,
                    "a job of %zu tasks on core %zu ended without writing byte %zu of its output (a buffer "
                    "of %zu bytes at 0x%llx), so its results cannot be used; %s",
                    chains[core].tasks.size(), core, canary.offset, canary.buffer->bytes(),
                    static_cast<unsigned long long>(canary.buffer->iova()), hint);
            }
        }
    }
    return {};
}

}  // namespace npu::device
