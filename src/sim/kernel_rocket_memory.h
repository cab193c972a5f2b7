// Memory of the simulated rocket driver. Each open file has an address space of its own, 4 GiB from address 0 (an IOMMU
// domain on a board), and every buffer object of the file is mapped there for as long as it lives. It lives as long as
// somebody holds it: the client by its handle, the client by a mapping (mmap), a job that names it. Only then is the
// range of addresses free again and leads nowhere. A job reaches every object of the address space, named or not; what it
// does not name may vanish before it runs. Source: mainline driver.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "sim/buffer_object.h"
#include "sim/completion.h"
#include "sim/memory.h"

namespace npu::sim {

class RocketBuffer;

// What all address spaces of a kernel share: the bytes themselves. Thread-safe.
class RocketMemory {
  public:
    // `limit_bytes` 0: what the host has.
    RocketMemory(std::uint64_t limit_bytes, bool strict_sync) : limit_bytes_(limit_bytes), strict_sync_(strict_sync) {}

    // Zeroed bytes; nullptr when there are none left.
    std::unique_ptr<BufferObject> take(std::uint64_t bytes);
    void give_back(std::unique_ptr<BufferObject> object);
    [[nodiscard]] std::uint64_t in_use() const { return in_use_; }
    [[nodiscard]] int descriptor() const { return file_->descriptor(); }

  private:
    const std::uint64_t limit_bytes_;
    const bool strict_sync_;
    std::shared_ptr<BackingFile> file_ = std::make_shared<BackingFile>();
    std::atomic<std::uint64_t> in_use_ = 0;
};

// Thread-safe.
class AddressSpace {
  public:
    // Start of a free range that is reserved now; empty when no gap is large enough.
    std::optional<std::uint64_t> reserve(std::uint64_t bytes);
    void map(const std::shared_ptr<RocketBuffer>& buffer);
    void release(std::uint64_t iova, std::uint64_t bytes);
    // The live object that holds the address; nullptr when there is none.
    [[nodiscard]] std::shared_ptr<RocketBuffer> find(std::uint64_t iova) const;

  private:
    mutable std::mutex mutex_;
    BottomUpWindow window_;
    std::map<std::uint64_t, std::weak_ptr<RocketBuffer>> buffers_;  // by start
};

class RocketBuffer {
  public:
    enum class Failure { no_memory, window_full };

    // A mapped object of `bytes` (a multiple of the page size), or why there is none.
    static std::shared_ptr<RocketBuffer> create(std::shared_ptr<RocketMemory> memory,
                                                std::shared_ptr<AddressSpace> space, std::uint64_t bytes,
                                                Failure& failure);
    ~RocketBuffer();
    RocketBuffer(const RocketBuffer&) = delete;
    RocketBuffer& operator=(const RocketBuffer&) = delete;

    [[nodiscard]] std::uint64_t iova() const { return iova_; }
    [[nodiscard]] std::uint64_t bytes() const { return object_->bytes(); }
    [[nodiscard]] BufferObject& object() const { return *object_; }
    // Offset for mmap. As in every DRM driver the offsets of objects start above 4 GiB.
    [[nodiscard]] std::uint64_t fake_offset() const { return object_->file_offset() + first_fake_offset; }
    static constexpr std::uint64_t first_fake_offset = std::uint64_t{1} << 32;

    // The end of the last job that writes the object; nullptr when there was none. Jobs of a file run in order, so the
    // last is enough. Guarded by the kernel's lock.
    std::shared_ptr<const Completion> write_fence;

  private:
    RocketBuffer() = default;

    std::shared_ptr<RocketMemory> memory_;
    std::shared_ptr<AddressSpace> space_;
    std::uint64_t iova_ = 0;
    std::unique_ptr<BufferObject> object_;
};

// The address space as one job sees it. Keeps what the job has reached, until the job is over. Thread-safe.
class RocketJobMemory final : public Memory {
  public:
    explicit RocketJobMemory(const AddressSpace& space) : space_(space) {}
    [[nodiscard]] std::span<std::byte> from(std::uint64_t iova) const override;

  private:
    const AddressSpace& space_;
    mutable std::mutex mutex_;
    mutable std::vector<std::shared_ptr<RocketBuffer>> reached_;
};

}  // namespace npu::sim
