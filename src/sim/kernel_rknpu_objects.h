// Buffer objects of the simulated rknpu driver and who holds them. An object lives while somebody holds it: an open file
// by a handle, a descriptor that exports it (dma-buf), a mapping in the client's memory. With the last holder its NPU
// addresses are free again. A job holds nothing on a board: what it uses may vanish under it. Here the bytes stay until
// the job ends, so nothing worse happens than a finding.
//
// Addresses: 16 domains of 4 GiB, given out from the top. A piece starts at a multiple of its size rounded up to a power
// of two, unless LIMIT_ALIGNMENT asks for page granularity, so large objects fail long before a domain is full. Source:
// the kernel's IOVA allocator; public reports of objects of 3 and 4 GB that failed with EFAULT on boards with 32 GB.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/buffer_object.h"
#include "sim/memory.h"
#include "sim/sim.h"
#include "uapi/rknpu.h"

namespace npu::sim {

struct RknpuObject {
    RknpuObject() = default;
    ~RknpuObject();
    RknpuObject(const RknpuObject&) = delete;
    RknpuObject& operator=(const RknpuObject&) = delete;

    std::unique_ptr<BufferObject> buffer;
    std::uint32_t flags = 0;  // as MEM_CREATE was given them
    std::uint32_t domain = 0;
    std::uint64_t token = 0;  // obj_addr
    std::uint64_t iova = 0;
    std::uint64_t sram_bytes = 0;
    int exporter = -1;  // imported memory: a descriptor of its own for the other exporter's buffer
    std::uint64_t exporter_inode = 0;
    std::uint32_t holders = 0;        // guarded by the kernel's lock
    std::atomic<bool> freed = false;  // the last holder is gone; jobs may still use the bytes

    [[nodiscard]] bool imported() const { return exporter >= 0; }
    // Offset for mmap. As in every DRM driver the offsets of objects start above 4 GiB.
    static constexpr std::uint64_t first_fake_offset = std::uint64_t{1} << 32;
    [[nodiscard]] std::uint64_t fake_offset() const { return first_fake_offset + buffer->file_offset(); }
};

// The objects that jobs of one file can reach in one domain, by address. Frozen: a job that runs keeps them alive.
using RknpuSnapshot = std::vector<std::shared_ptr<RknpuObject>>;

// The NPU's view of a snapshot, as one job sees it. Remembers what the job touched. Thread-safe.
class RknpuJobMemory final : public Memory {
  public:
    explicit RknpuJobMemory(std::shared_ptr<const RknpuSnapshot> objects);
    [[nodiscard]] std::span<std::byte> from(std::uint64_t iova) const override;
    // Objects that the job has touched and that nobody holds any more.
    [[nodiscard]] std::vector<const RknpuObject*> freed_under_the_job() const;

  private:
    std::shared_ptr<const RknpuSnapshot> objects_;
    mutable std::vector<std::atomic<bool>> touched_;  // by index in objects_
};

// One open device file: its handles, and what its jobs can reach. Guarded by the kernel's lock.
class RknpuFile {
  public:
    // A handle is the lowest number that is free, as in the kernel: numbers of closed handles come back.
    std::uint32_t add(std::shared_ptr<RknpuObject> object);
    std::shared_ptr<RknpuObject> remove(std::uint32_t handle);  // nullptr: no such handle
    [[nodiscard]] std::shared_ptr<RknpuObject> find(std::uint32_t handle) const;
    [[nodiscard]] std::shared_ptr<RknpuObject> find_token(std::uint64_t token) const;
    [[nodiscard]] std::uint32_t handle_of(const RknpuObject& object) const;  // 0: none
    [[nodiscard]] std::shared_ptr<RknpuObject> find_imported(std::uint64_t inode) const;
    [[nodiscard]] std::uint32_t first_handle() const;  // 0: none

    // Handles count as reaching their object; mappings are told here.
    void reach(const std::shared_ptr<RknpuObject>& object);
    void lose(const std::shared_ptr<RknpuObject>& object);
    std::shared_ptr<const RknpuSnapshot> snapshot(std::uint32_t domain);

    unsigned calls = 0;           // system calls that use the file now
    bool closed = false;          // its objects go when the last of them returns
    unsigned jobs_in_flight = 0;  // queued or on a core
    bool runs_nothing = false;    // see RknpuBoard::render_node_runs_nothing

  private:
    struct Reach {
        std::shared_ptr<RknpuObject> object;
        unsigned count = 0;
    };
    std::map<std::uint32_t, std::shared_ptr<RknpuObject>> handles_;
    std::unordered_map<std::uint64_t, std::uint32_t> tokens_;  // to handle
    std::set<std::uint32_t> free_handles_;                     // below next_handle_
    std::uint32_t next_handle_ = 1;
    std::map<std::uint64_t, Reach> reached_;                                            // by token
    std::array<std::shared_ptr<const RknpuSnapshot>, uapi::rknpu::domains> snapshots_;  // empty: out of date
};

// All objects of a kernel. Guarded by the kernel's lock.
class RknpuMemory {
  public:
    RknpuMemory(const SimOptions& options, std::uint32_t sram_bytes)
        : options_(options), sram_bytes_(sram_bytes), sram_free_(sram_bytes) {}

    struct Request {
        std::uint32_t flags = 0;
        std::uint64_t bytes = 0;  // not 0
        std::uint64_t sram_bytes = 0;
        std::uint32_t domain = 0;
    };
    // An object without a holder yet. 0 or an errno: ENOMEM for memory, EFAULT for addresses (the driver's answer when an
    // object of scattered pages cannot be mapped; contiguous ones get ENOMEM).
    int create(const Request& request, std::shared_ptr<RknpuObject>& made);
    // The memory of another exporter, mapped for the NPU. 0 or an errno.
    int import(int descriptor, std::uint32_t domain, std::shared_ptr<RknpuObject>& made);

    void hold(RknpuObject& object);
    void drop(const std::shared_ptr<RknpuObject>& object);

    // The live object with this offset; nullptr if there is none.
    [[nodiscard]] std::shared_ptr<RknpuObject> find_offset(std::uint64_t fake_offset) const;
    [[nodiscard]] int descriptor() const { return backing_->descriptor(); }
    [[nodiscard]] std::uint64_t in_use() const { return in_use_; }
    [[nodiscard]] std::uint64_t objects_in(std::uint32_t domain) const { return objects_in_[domain]; }
    [[nodiscard]] std::uint32_t sram_total() const { return sram_bytes_; }
    [[nodiscard]] std::uint32_t sram_free() const { return sram_free_; }

  private:
    void place(const std::shared_ptr<RknpuObject>& object);

    const SimOptions& options_;
    const std::uint32_t sram_bytes_;
    std::uint32_t sram_free_;
    std::shared_ptr<BackingFile> backing_ = std::make_shared<BackingFile>();
    std::array<AddressWindow, uapi::rknpu::domains> windows_;
    std::array<std::uint64_t, uapi::rknpu::domains> objects_in_{};
    std::map<std::uint64_t, std::weak_ptr<RknpuObject>> offsets_;  // live objects, by fake offset
    std::uint64_t next_token_ = 0xffffff8100000000U;               // looks like a kernel pointer
    std::uint64_t in_use_ = 0;
};

}  // namespace npu::sim
