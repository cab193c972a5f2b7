// What it takes to give back the bytes of a tensor whose weights were converted. ggml reads tensors back (to save a model, to
// compare backends, to copy weights elsewhere) and expects to the bit what it wrote; int8 per channel can not be undone.
// So the bytes are kept, in the cheapest way that can give them back:
//   - not at all, where the resident form is them: halves that the native engine holds as halves;
//   - in the model's own file, where the loader handed us a pointer into a mapping of it (base/mapped_file.h);
//   - in host memory.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"

namespace npu::plugin {

class OriginalBytes {
  public:
    // Whether they are kept here at all.
    [[nodiscard]] bool kept() const { return !std::holds_alternative<std::monostate>(where_); }
    [[nodiscard]] std::size_t host_bytes() const;

    void forget() { where_ = std::monostate{}; }
    void keep(FileBytes file) { where_ = std::move(file); }
    void keep(std::vector<std::byte> bytes) { where_ = std::move(bytes); }

    // The bytes from `first` on; they must be kept. Errors of FileBytes::read.
    Result<void> read(std::size_t first, std::span<std::byte> destination) const;

    // The bytes in host memory, to write into; nullptr when they are not there.
    [[nodiscard]] std::vector<std::byte>* in_memory() { return std::get_if<std::vector<std::byte>>(&where_); }

  private:
    std::variant<std::monostate, FileBytes, std::vector<std::byte>> where_;
};

}  // namespace npu::plugin
