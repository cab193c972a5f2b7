#include "device/host_memory.h"

#include <cstdio>
#include <memory>

namespace npu::device {

MemoryInfo host_memory() {
    MemoryInfo memory;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/meminfo", "re"), std::fclose);
    if (file == nullptr) {
        return memory;
    }
    char line[128];
    while (std::fgets(line, sizeof line, file.get()) != nullptr) {
        std::size_t kibibytes = 0;
        if (std::sscanf(line, "MemTotal: %zu kB", &kibibytes) == 1) {
            memory.total = kibibytes * 1024;
        } else if (std::sscanf(line, "MemAvailable: %zu kB", &kibibytes) == 1) {
            memory.free = kibibytes * 1024;
        }
    }
    return memory;
}

}  // namespace npu::device
