#include "axera/memory_guard.h"

namespace npu::axera {

namespace {
// In MiB, rounded up, so that what is asked for is never shown as less.
unsigned long long mib(std::uint64_t bytes) { return bytes / (1U << 20) + (bytes % (1U << 20) != 0 ? 1 : 0); }
}  // namespace

Result<void> check_memory(const MemoryNeed& need, const CardInfo& card) {
    if (card.total_cmm == 0) {
        return {};
    }
    std::uint64_t rest = card.free_cmm;
    for (const std::uint64_t part : {need.model_bytes, need.cache_bytes, need.floor_bytes}) {
        if (part > rest) {
            return make_error(ErrorCode::out_of_memory,
                              "card %d has %llu of %llu MiB of CMM free; models take %llu MiB, caches %llu MiB, and "
                              "%llu MiB must stay free. Use a smaller or more tightly quantised model or a shorter "
                              "context, or end what else uses the card (axcl-smi)",
                              card.id, static_cast<unsigned long long>(card.free_cmm >> 20),
                              static_cast<unsigned long long>(card.total_cmm >> 20), mib(need.model_bytes),
                              mib(need.cache_bytes), mib(need.floor_bytes));
        }
        rest -= part;
    }
    return {};
}

}  // namespace npu::axera
