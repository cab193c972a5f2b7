// System calls of the simulated rknpu driver, its answers about itself, and its findings. Buffer objects are in
// kernel_rknpu_memory.cpp, jobs in kernel_rknpu_submit.cpp.
#include "sim/kernel_rknpu.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/log.h"
#include "sim/kernel_rknpu_snapshot.h"
#include "uapi/drm.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;

constexpr std::uint32_t hardware_version = 0x46495245;  // what boards answer
constexpr std::uint32_t driver_version = 908;           // 0.9.8
constexpr std::uint32_t frequency_hz = 1'000'000'000;

constexpr std::uint32_t request_number(std::uint32_t request) { return request & 0xff; }

int fail(int error) {
    errno = error;
    return -1;
}

// DRM copies as much of the struct as both sides know, zeroes the rest, and copies back whatever the outcome.
template <typename Arguments, typename Call>
int with_arguments(void* user, std::size_t user_bytes, Call call) {
    Arguments arguments{};
    const std::size_t bytes = std::min(user_bytes, sizeof arguments);
    std::memcpy(&arguments, user, bytes);
    const int result = call(arguments);
    std::memcpy(user, &arguments, bytes);
    return result;
}

void answer_text(char* destination, std::uint64_t& length, std::string_view text) {
    if (destination != nullptr) {
        std::memcpy(destination, text.data(), std::min<std::size_t>(length, text.size()));
    }
    length = text.size();
}

int version(uapi::drm::Version& answer) {
    answer.major = 0;
    answer.minor = 9;
    answer.patch = 8;
    answer_text(answer.name, answer.name_length, rknpu::driver_name);
    answer_text(answer.date, answer.date_length, "20240828");
    answer_text(answer.description, answer.description_length, "RKNPU driver");
    return 0;
}

}  // namespace

RknpuKernel::RknpuKernel(SimOptions options)
    : options_(std::move(options)),
      journal_(options_.log_findings),
      workers_(options_.host_threads != 0 ? options_.host_threads : std::max(1U, std::thread::hardware_concurrency())) {
    const rockchip::ChipProfile& chip = rockchip::rk3588();
    for (unsigned index = 0; index < chip.cores; ++index) {
        cores_.push_back(std::make_unique<Core>(CoreOptions{.index = index,
                                                            .mode = options_.mode,
                                                            .poison_seed = options_.poison_seed,
                                                            .poison_before_each_kick = options_.poison_before_each_kick,
                                                            .chip = &chip,
                                                            .kernels = &best_kernels()}));
    }
}

RknpuKernel::~RknpuKernel() {
    for (const auto& [fd, file] : files_) {
        ::close(fd);
    }
}

int RknpuKernel::open(const char* path, int) {
    if (path == nullptr || (options_.path.empty() ? usual_path(Driver::rknpu) : options_.path) != path) {
        return fail(ENOENT);
    }
    // A real descriptor, so that the number is free and close-on-exec works as for a device.
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        const std::lock_guard lock(mutex_);
        files_.emplace(fd, File{});
    }
    return fd;
}

int RknpuKernel::close(int fd) {
    {
        const std::lock_guard lock(mutex_);
        const auto file = files_.find(fd);
        if (file == files_.end()) {
            return fail(EBADF);
        }
        while (!file->second.objects.empty()) {
            release(file->second, file->second.objects.begin()->first);
        }
        files_.erase(file);
    }
    return ::close(fd);
}

void* RknpuKernel::mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
    const std::lock_guard lock(mutex_);
    File* file = find_file(fd);
    if (file == nullptr) {
        errno = EBADF;
        return MAP_FAILED;
    }
    const auto found = std::ranges::find_if(file->objects, [&](const auto& entry) {
        return entry.second->file_offset() == static_cast<std::uint64_t>(offset);
    });
    if (found == file->objects.end() || length == 0 || length > found->second->bytes() || (flags & MAP_SHARED) == 0) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return ::mmap(address, length, protection, flags, backing_->descriptor(), offset);
}

int RknpuKernel::munmap(void* address, std::size_t length) { return ::munmap(address, length); }

int RknpuKernel::ioctl(int fd, unsigned long request, void* argument) {
    const auto code = static_cast<std::uint32_t>(request);
    const std::size_t bytes = (code >> 16) & 0x3fff;
    if (((code >> 8) & 0xff) != 'd') {
        return fail(ENOTTY);
    }
    if (argument == nullptr) {
        return fail(EFAULT);
    }
    if (request_number(code) == request_number(rknpu::ioctl_submit)) {  // runs without the lock
        const int result =
            with_arguments<rknpu::Submit>(argument, bytes, [&](auto& arguments) { return submit(fd, arguments); });
        return result < 0 ? fail(-result) : 0;
    }
    if (request_number(code) == request_number(rknpu::ioctl_action)) {
        const int result = with_arguments<rknpu::Action>(argument, bytes, [&](auto& arguments) {
            {
                const std::lock_guard lock(mutex_);
                if (find_file(fd) == nullptr) {
                    return -EBADF;
                }
            }
            return action(arguments);
        });
        return result < 0 ? fail(-result) : 0;
    }
    const std::lock_guard lock(mutex_);
    File* file = find_file(fd);
    if (file == nullptr) {
        return fail(EBADF);
    }
    int result = -EINVAL;  // what DRM answers to a number that no driver knows
    switch (request_number(code)) {
        case request_number(uapi::drm::ioctl_version):
            result = with_arguments<uapi::drm::Version>(argument, bytes, version);
            break;
        case request_number(uapi::drm::ioctl_gem_close):
            result = with_arguments<uapi::drm::GemClose>(
                argument, bytes, [&](auto& arguments) { return release(*file, arguments.handle); });
            break;
        case request_number(rknpu::ioctl_mem_create):
            result = with_arguments<rknpu::MemCreate>(argument, bytes,
                                                      [&](auto& arguments) { return mem_create(*file, arguments); });
            break;
        case request_number(rknpu::ioctl_mem_map):
            result = with_arguments<rknpu::MemMap>(argument, bytes,
                                                   [&](auto& arguments) { return mem_map(*file, arguments); });
            break;
        case request_number(rknpu::ioctl_mem_destroy):
            result = with_arguments<rknpu::MemDestroy>(argument, bytes,
                                                       [&](auto& arguments) { return mem_destroy(*file, arguments); });
            break;
        case request_number(rknpu::ioctl_mem_sync):
            result = with_arguments<rknpu::MemSync>(argument, bytes,
                                                    [&](auto& arguments) { return mem_sync(*file, arguments); });
            break;
        default: break;
    }
    return result < 0 ? fail(-result) : 0;
}

// Numbers without a name in uapi: 19 set nice value, 24/25 get and set the address domain.
int RknpuKernel::action(rknpu::Action& arguments) {
    switch (arguments.flags) {
        case rknpu::action_hw_version: arguments.value = hardware_version; return 0;
        case rknpu::action_driver_version: arguments.value = driver_version; return 0;
        case rknpu::action_get_frequency: arguments.value = frequency_hz; return 0;
        case rknpu::action_iommu_enabled: arguments.value = 1; return 0;
        case rknpu::action_reset: {
            const std::lock_guard device(device_mutex_);
            for (const auto& core : cores_) {
                core->soft_reset();
            }
            return 0;
        }
        case 19: return 0;
        case 24: {
            const std::lock_guard lock(mutex_);
            arguments.value = current_domain_;
            return 0;
        }
        case 25: {
            const std::lock_guard lock(mutex_);
            if (arguments.value >= domains) {
                return -EINVAL;
            }
            current_domain_ = arguments.value;
            return 0;
        }
        default: return -EINVAL;  // power on and off too: 0.9.8 refuses both
    }
}

RknpuKernel::File* RknpuKernel::find_file(int fd) {
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : &found->second;
}

bool RknpuKernel::owns(int fd) const {
    const std::lock_guard lock(mutex_);
    return files_.contains(fd);
}

void RknpuKernel::drain() { const std::lock_guard device(device_mutex_); }

std::uint64_t RknpuKernel::memory_in_use() const {
    const std::lock_guard lock(mutex_);
    return memory_in_use_;
}

}  // namespace npu::sim
