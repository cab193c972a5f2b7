// Buffer objects of a simulated kernel and the address window they live in. All objects of a kernel are pieces of
// one memory file, so that mmap by the client and the NPU's own view are the same bytes, and the fake offset that
// MEM_MAP answers is simply the place in the file. In strict mode the NPU has a copy of its own, which only cache
// synchronisation refreshes: that is how a missing synchronisation shows on silicon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

namespace npu::sim {

inline constexpr std::uint64_t page_bytes = 4096;

// The file behind all objects. Space is handed out upwards and returned to the host when an object dies.
// Thread-safe.
class BackingFile {
  public:
    BackingFile();
    ~BackingFile();
    BackingFile(const BackingFile&) = delete;
    BackingFile& operator=(const BackingFile&) = delete;

    [[nodiscard]] int descriptor() const { return descriptor_; }
    // Offset of `bytes` zero bytes; empty when the host refuses.
    std::optional<std::uint64_t> reserve(std::uint64_t bytes);
    void release(std::uint64_t offset, std::uint64_t bytes);

  private:
    int descriptor_;
    std::mutex mutex_;
    std::uint64_t end_ = 0;
};

// One object. Owns its piece of the file and its mappings.
class BufferObject {
  public:
    // nullptr when the host has no memory. `bytes` is a multiple of the page size. With `shadow` the NPU's view is a
    // copy; without `zeroed` both views then hold different noise, as recycled memory does.
    static std::unique_ptr<BufferObject> create(std::shared_ptr<BackingFile> file, std::uint64_t bytes, bool shadow,
                                                bool zeroed);
    ~BufferObject();
    BufferObject(const BufferObject&) = delete;
    BufferObject& operator=(const BufferObject&) = delete;

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t file_offset() const { return offset_; }
    [[nodiscard]] std::span<std::byte> cpu_view() const { return {cpu_, bytes_}; }
    [[nodiscard]] std::span<std::byte> device_view() const { return {device_, bytes_}; }

    // Cache synchronisation of a range that lies inside the object; does nothing without a shadow.
    void to_device(std::uint64_t offset, std::uint64_t bytes);
    void from_device(std::uint64_t offset, std::uint64_t bytes);

    // What the kernel interface keeps with it.
    std::uint32_t flags = 0;
    std::uint32_t domain = 0;
    std::uint64_t token = 0;  // obj_addr
    std::uint64_t iova = 0;

  private:
    BufferObject() = default;

    std::shared_ptr<BackingFile> file_;
    std::uint64_t offset_ = 0;
    std::uint64_t bytes_ = 0;
    std::byte* cpu_ = nullptr;
    std::byte* device_ = nullptr;  // cpu_ without a shadow
};

// Addresses of one domain: 4 GiB, given out from the top, page by page; the lowest page is never used.
class AddressWindow {
  public:
    AddressWindow();
    std::optional<std::uint64_t> allocate(std::uint64_t bytes);
    void free(std::uint64_t iova, std::uint64_t bytes);

  private:
    std::map<std::uint64_t, std::uint64_t> free_;  // start to end
};

}  // namespace npu::sim
