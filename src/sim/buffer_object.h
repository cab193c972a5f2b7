// Buffer objects of a simulated kernel and the address window they live in. All objects of a kernel are pieces of
// one memory file, so that mmap by the client and the NPU's own view are the same bytes, and the fake offset that
// MEM_MAP answers is simply the place in the file. In strict mode the NPU has a copy of its own, which only cache
// synchronisation refreshes: that is how a missing synchronisation shows on silicon. Caches work by lines: synchronising
// to the device writes back the lines that the CPU changed and leaves the others, so what the NPU wrote beside them
// survives; synchronising to the CPU drops all lines of the range, changed or not.
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
    // Memory that another exporter owns, by its descriptor, without a shadow. nullptr when it cannot be mapped.
    static std::unique_ptr<BufferObject> import(int descriptor, std::uint64_t bytes);
    ~BufferObject();
    BufferObject(const BufferObject&) = delete;
    BufferObject& operator=(const BufferObject&) = delete;

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] std::uint64_t file_offset() const { return offset_; }
    [[nodiscard]] std::span<std::byte> cpu_view() const { return {cpu_, bytes_}; }
    [[nodiscard]] std::span<std::byte> device_view() const { return {device_, bytes_}; }

    // Cache synchronisation of a range that lies inside the object; does nothing without a shadow. Thread-safe. A line
    // that the CPU filled with what it read there last does not count as changed.
    void to_device(std::uint64_t offset, std::uint64_t bytes);
    void from_device(std::uint64_t offset, std::uint64_t bytes);
    // Lines of the range that the CPU changed without synchronising and that the NPU has written since: the cache may
    // write the CPU's old bytes over the NPU's results at any moment. 0 without a shadow.
    [[nodiscard]] std::uint64_t dirty_lines_over_results(std::uint64_t offset, std::uint64_t bytes);

  private:
    BufferObject() = default;

    std::shared_ptr<BackingFile> file_;  // nullptr: imported
    std::uint64_t offset_ = 0;
    std::uint64_t bytes_ = 0;
    std::byte* cpu_ = nullptr;
    std::byte* device_ = nullptr;  // cpu_ without a shadow
    std::mutex sync_mutex_;
    std::byte* synced_ = nullptr;  // with a shadow: what cpu_ held after the last synchronisation
};

// Addresses of one domain: 4 GiB, given out from the top; the lowest page is never used.
class AddressWindow {
  public:
    AddressWindow();
    // `alignment` is a power of two of at least a page.
    std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t alignment = page_bytes);
    void free(std::uint64_t iova, std::uint64_t bytes);

  private:
    std::map<std::uint64_t, std::uint64_t> free_;  // start to end
};

// Addresses of one file of the mainline driver: 4 GiB from 0 upwards; the first object gets address 0. Takes the smallest
// gap that is large enough, the lowest of equal ones, as the kernel's range allocator does.
class BottomUpWindow {
  public:
    BottomUpWindow();
    std::optional<std::uint64_t> allocate(std::uint64_t bytes);
    void free(std::uint64_t iova, std::uint64_t bytes);

  private:
    std::map<std::uint64_t, std::uint64_t> free_;  // start to end
};

}  // namespace npu::sim
