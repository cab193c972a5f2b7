// System calls of the simulated rocket driver: files, mappings, which request is which. Jobs are in
// kernel_rocket_submit.cpp, buffers in kernel_rocket_buffers.cpp.
#include "sim/kernel_rocket.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <tuple>
#include <utility>

#include "sim/user_memory.h"

namespace npu::sim {

namespace {

namespace drm = uapi::drm;
namespace rocket = uapi::rocket;

constexpr std::uint32_t request_number(std::uint32_t request) { return request & 0xff; }

int fail(int error) {
    errno = error;
    return -1;
}

void* fail_mapping(int error) {
    errno = error;
    return MAP_FAILED;
}

// The struct of a request. DRM copies in the directions that both the caller's number and its own name, as much as both
// sides know, takes the rest for zero, and copies back whatever the outcome.
template <typename Arguments, typename Call>
int with_arguments(std::uint32_t code, std::uint32_t known, void* argument, Call call) {
    constexpr std::uint32_t from_kernel = rocket::both_ways & ~rocket::to_kernel;
    const std::size_t bytes = std::min<std::size_t>(code >> 16 & 0x3fff, sizeof(Arguments));
    const auto user = reinterpret_cast<std::uintptr_t>(argument);
    Arguments arguments{};
    if ((code & known & rocket::to_kernel) != 0 && !copy_from_user(&arguments, user, bytes)) {
        return -EFAULT;
    }
    const int result = call(arguments);
    if ((code & known & from_kernel) != 0 && !copy_to_user(user, &arguments, bytes)) {
        return -EFAULT;
    }
    return result;
}

bool answer_text(const char* destination, std::uint64_t& length, std::string_view text) {
    const std::size_t bytes = std::min<std::uint64_t>(length, text.size());
    length = text.size();
    return destination == nullptr || copy_to_user(reinterpret_cast<std::uintptr_t>(destination), text.data(), bytes);
}

}  // namespace

RocketKernel::RocketKernel(SimOptions options)
    : options_(std::move(options)),
      journal_(options_.log_findings),
      memory_(std::make_shared<RocketMemory>(options_.memory_bytes, options_.strict_sync)),
      scheduler_(options_, journal_) {}

RocketKernel::~RocketKernel() {
    for (const auto& [fd, file] : files_) {
        ::close(fd);
    }
    files_.clear();  // while the scheduler lives
}

int RocketKernel::open(const char* path, int) {
    if (path == nullptr || (options_.path.empty() ? usual_path(Driver::rocket) : options_.path) != path) {
        return fail(ENOENT);
    }
    // A real descriptor, so that the number is free and close-on-exec works as for a device.
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        auto file = std::make_shared<File>(scheduler_);
        const std::lock_guard lock(mutex_);
        files_.emplace(fd, std::move(file));
    }
    return fd;
}

int RocketKernel::close(int fd) {
    std::shared_ptr<File> file;  // goes without the lock
    {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find(fd);
        if (found == files_.end()) {
            return fail(EBADF);
        }
        file = std::move(found->second);
        files_.erase(found);
    }
    return ::close(fd);
}

void* RocketKernel::mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
    std::shared_ptr<RocketBuffer> buffer;
    {
        const std::lock_guard lock(mutex_);
        const auto own = files_.find(fd);
        if (own == files_.end()) {
            return fail_mapping(EBADF);
        }
        const auto has_offset = [offset](const auto& entry) {
            return entry.second->fake_offset() == static_cast<std::uint64_t>(offset);
        };
        const auto found = std::ranges::find_if(own->second->buffers, has_offset);
        if (found == own->second->buffers.end()) {
            const bool foreign = std::ranges::any_of(
                files_, [&](const auto& file) { return std::ranges::any_of(file.second->buffers, has_offset); });
            return fail_mapping(foreign ? EACCES : EINVAL);
        }
        buffer = found->second;
    }
    const int type = flags & MAP_TYPE;
    if (length == 0 || length > buffer->bytes() || (type != MAP_SHARED && type != MAP_SHARED_VALIDATE)) {
        return fail_mapping(EINVAL);
    }
    void* mapped = ::mmap(address, length, protection, flags, memory_->descriptor(),
                          static_cast<off_t>(buffer->object().file_offset()));
    if (mapped != MAP_FAILED) {
        (void)mappings_.add(mapped, length, std::move(buffer));
    }
    return mapped;
}

int RocketKernel::munmap(void* address, std::size_t length) {
    const auto owners = mappings_.remove(address, length);  // dropped when nothing is mapped any more
    return ::munmap(address, length);
}

int RocketKernel::ioctl(int fd, unsigned long request, void* argument) {
    const auto code = static_cast<std::uint32_t>(request);
    const std::shared_ptr<File> file = find_file(fd);
    if (!file) {
        return fail(EBADF);
    }
    if ((code >> 8 & 0xff) != 'd') {
        return fail(ENOTTY);
    }
    const int result = dispatch(*file, code, argument);
    return result < 0 ? fail(-result) : 0;
}

// DRM looks only at the number to find out what is asked.
int RocketKernel::dispatch(File& file, std::uint32_t code, void* argument) {
    switch (request_number(code)) {
        case request_number(drm::ioctl_version):
            return with_arguments<drm::Version>(code, drm::ioctl_version, argument,
                                                [&](auto& arguments) { return version(arguments); });
        case request_number(drm::ioctl_gem_close):
            return with_arguments<drm::GemClose>(code, drm::ioctl_gem_close, argument, [&](const auto& arguments) {
                return gem_close(file, arguments.handle);
            });
        case request_number(rocket::ioctl_create_bo):
            return with_arguments<rocket::CreateBo>(code, rocket::ioctl_create_bo, argument,
                                                    [&](auto& arguments) { return create_bo(file, arguments); });
        case request_number(rocket::ioctl_submit):
            return with_arguments<rocket::Submit>(code, rocket::ioctl_submit, argument,
                                                  [&](const auto& arguments) { return submit(file, arguments); });
        case request_number(rocket::ioctl_prep_bo):
            return with_arguments<rocket::PrepBo>(code, rocket::ioctl_prep_bo, argument, [&](const auto& arguments) {
                return arguments.reserved != 0 ? -EINVAL
                                               : prep_bo(file, arguments.handle, arguments.timeout_ns, nullptr, 0);
            });
        case request_number(rocket::ioctl_fini_bo):
            return with_arguments<rocket::FiniBo>(code, rocket::ioctl_fini_bo, argument, [&](const auto& arguments) {
                return arguments.reserved != 0 ? -EINVAL : fini_bo(file, arguments.handle, nullptr, 0);
            });
        default: break;
    }
    if (!offers(1, 5)) {
        return -EINVAL;  // what DRM answers to a number that no driver knows
    }
    switch (request_number(code)) {
        case request_number(rocket::ioctl_prep_bo_range):
            return with_arguments<rocket::PrepBoRange>(
                code, rocket::ioctl_prep_bo_range, argument, [&](const auto& arguments) {
                    return arguments.reserved != 0 ? -EINVAL
                                                   : prep_bo(file, arguments.handle, arguments.timeout_ns,
                                                             &arguments.offset, arguments.size);
                });
        case request_number(rocket::ioctl_fini_bo_range):
            return with_arguments<rocket::FiniBoRange>(
                code, rocket::ioctl_fini_bo_range, argument, [&](const auto& arguments) {
                    return arguments.reserved != 0 ? -EINVAL
                                                   : fini_bo(file, arguments.handle, &arguments.offset, arguments.size);
                });
        default: return -EINVAL;
    }
}

int RocketKernel::version(drm::Version& answer) const {
    answer.major = static_cast<std::int32_t>(options_.rocket.major);
    answer.minor = static_cast<std::int32_t>(options_.rocket.minor);
    answer.patch = 0;
    // Recent kernels answer "0" for the date of every driver.
    const bool copied = answer_text(answer.name, answer.name_length, rocket::driver_name) &&
                        answer_text(answer.date, answer.date_length, "0") &&
                        answer_text(answer.description, answer.description_length, "rocket DRM");
    return copied ? 0 : -EFAULT;
}

bool RocketKernel::offers(std::uint32_t major, std::uint32_t minor) const {
    return std::tie(options_.rocket.major, options_.rocket.minor) >= std::tie(major, minor);
}

std::shared_ptr<RocketKernel::File> RocketKernel::find_file(int fd) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : found->second;
}

bool RocketKernel::owns(int fd) const {
    const std::lock_guard lock(mutex_);
    return files_.contains(fd);
}

}  // namespace npu::sim
