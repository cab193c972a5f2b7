#include "plugin/original_bytes.h"

#include <cstring>

namespace npu::plugin {

std::size_t OriginalBytes::host_bytes() const {
    const auto* bytes = std::get_if<std::vector<std::byte>>(&where_);
    return bytes != nullptr ? bytes->size() : 0;
}

Result<void> OriginalBytes::read(std::size_t first, std::span<std::byte> destination) const {
    if (const auto* file = std::get_if<FileBytes>(&where_)) {
        return file->read(first, destination);
    }
    const auto& bytes = std::get<std::vector<std::byte>>(where_);
    std::memcpy(destination.data(), bytes.data() + first, destination.size());
    return {};
}

}  // namespace npu::plugin
