#include "gemm/rknn_cache.h"

#include <algorithm>

#include "gemm/rknn_probe.h"

namespace npu::gemm::rknn {

Result<Context*> ContextCache::get(const Session& session, const MatmulShape& shape,
                                   std::optional<std::uint32_t> core) {
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return entry.context.shape() == shape && entry.core == core; });
    if (found != entries_.end()) {
        found->round = round_;
        entries_.splice(entries_.begin(), entries_, found);
        return &entries_.front().context;
    }
    while (entries_.size() >= most_ && !entries_.empty() && entries_.back().round != round_) {
        entries_.pop_back();  // before the new one is asked for: descriptors are scarce
    }
    NPU_ASSIGN(Context made, session.create_context(shape));
    if (const TypeInfo* type = find_type(shape.type); type != nullptr) {
        NPU_TRY(check_layouts(made, *type));
    }
    if (core) {
        NPU_TRY(made.set_core(*core));
    }
    entries_.push_front({std::move(made), core, round_});
    return &entries_.front().context;
}

Result<const Memory*> ScratchPool::get(const Session& session, std::size_t bytes) {
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return entry.round != round_ && entry.memory.bytes() == bytes; });
    if (found != entries_.end()) {
        found->round = round_;
        entries_.splice(entries_.begin(), entries_, found);
        return &entries_.front().memory;
    }
    while (bytes_ + bytes > most_ && drop_least_recent()) {
    }
    Result<Memory> made = session.allocate(bytes);
    while (!made && drop_least_recent()) {
        made = session.allocate(bytes);
    }
    if (!made) {
        return made.error();
    }
    entries_.push_front({std::move(*made), round_});
    bytes_ += bytes;
    return &entries_.front().memory;
}

void ScratchPool::clear() {
    entries_.clear();
    bytes_ = 0;
}

bool ScratchPool::drop_least_recent() {
    if (entries_.empty() || entries_.back().round == round_) {
        return false;
    }
    bytes_ -= entries_.back().memory.bytes();
    entries_.pop_back();
    return true;
}

}  // namespace npu::gemm::rknn
