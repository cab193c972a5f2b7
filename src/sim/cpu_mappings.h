// Which buffer object each mapped range of the process shows. A mapping keeps its object alive after the handle is closed
// and even after the file is, so a kernel has to know when the last piece of a mapping is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace npu::sim {

// Thread-safe. Objects are dropped by the caller, outside the lock.
class CpuMappings {
  public:
    using Owner = std::shared_ptr<const void>;

    // A new mapping; it hides what was there before (MAP_FIXED), whose owners are returned.
    std::vector<Owner> add(const void* address, std::size_t bytes, Owner owner);
    // Forgets the range, which may be a part of a mapping or span several. Returns the owners of what was cut off.
    std::vector<Owner> remove(const void* address, std::size_t bytes);

  private:
    struct Range {
        std::uintptr_t end;
        Owner owner;
    };
    std::vector<Owner> cut(std::uintptr_t begin, std::uintptr_t end);

    std::mutex mutex_;
    std::map<std::uintptr_t, Range> ranges_;  // by start
};

}  // namespace npu::sim
