// System calls of the simulated rknpu driver: files, mappings, and which handler a request goes to. Answers about itself
// are in kernel_rknpu_action.cpp, buffer objects in kernel_rknpu_memory.cpp, their sharing in kernel_rknpu_prime.cpp, jobs
// in kernel_rknpu_submit.cpp.
#include "sim/kernel_rknpu.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "sim/user_memory.h"

namespace npu::sim {

namespace {

namespace rknpu = uapi::rknpu;
namespace drm = uapi::drm;

constexpr std::uint32_t request_in = 1U << 30;   // the client passes data
constexpr std::uint32_t request_out = 1U << 31;  // the kernel passes data back

constexpr std::uint32_t number_of(std::uint32_t code) { return code & 0xff; }
constexpr std::uint32_t type_of(std::uint32_t code) { return (code >> 8) & 0xff; }
constexpr std::size_t size_of(std::uint32_t code) { return (code >> 16) & 0x3fff; }

int fail(int error) {
    errno = error;
    return -1;
}

// DRM's way with arguments: as much as the client's request says is copied in, zeroes follow, the driver's struct is the
// beginning of it, and all of it is copied back whatever the outcome; each direction only if both sides have it.
template <typename Arguments, typename Handler>
int with_arguments(std::uint32_t code, std::uint32_t driver_code, std::uint64_t user, Handler handler) {
    std::array<std::byte, 1 << 14> buffer;  // the size field of a request has 14 bits
    const std::uint32_t directions = code & driver_code;
    const std::size_t in = (directions & request_in) != 0 ? size_of(code) : 0;
    const std::size_t out = (directions & request_out) != 0 ? size_of(code) : 0;
    const std::size_t bytes = std::max({in, out, sizeof(Arguments)});
    if (!copy_from_user(buffer.data(), user, in)) {
        return -EFAULT;
    }
    std::memset(buffer.data() + in, 0, bytes - in);
    Arguments arguments;
    std::memcpy(&arguments, buffer.data(), sizeof arguments);
    const int result = handler(arguments);
    std::memcpy(buffer.data(), &arguments, sizeof arguments);
    return copy_to_user(user, buffer.data(), out) ? result : -EFAULT;
}

bool answer_text(char* destination, std::uint64_t& length, std::string_view text) {
    const std::size_t copied = std::min<std::size_t>(length, text.size());
    length = text.size();
    return destination == nullptr || copy_to_user(reinterpret_cast<std::uintptr_t>(destination), text.data(), copied);
}

int version(drm::Version& answer) {
    answer.major = 0;
    answer.minor = 9;
    answer.patch = 8;
    const bool copied = answer_text(answer.name, answer.name_length, rknpu::driver_name) &&
                        answer_text(answer.date, answer.date_length, "20240828") &&
                        answer_text(answer.description, answer.description_length, "RKNPU driver");
    return copied ? 0 : -EFAULT;
}

// A driver without displays answers these and refuses the rest.
int get_cap(drm::GetCap& arguments) {
    switch (arguments.capability) {
        case drm::cap_prime: arguments.value = drm::prime_import | drm::prime_export; return 0;
        case drm::cap_timestamp_monotonic: arguments.value = 1; return 0;
        case drm::cap_sync_objects:
        case drm::cap_timeline_sync_objects: arguments.value = 0; return 0;
        default: return -EOPNOTSUPP;
    }
}

}  // namespace

// Keeps the file open for the duration of a system call, whatever other threads close meanwhile.
class RknpuKernel::Call {
  public:
    Call(RknpuKernel& kernel, int fd) : kernel_(kernel) {
        const std::lock_guard lock(kernel_.mutex_);
        file_ = kernel_.find_file(fd);
        if (file_) {
            ++file_->calls;
        }
    }
    ~Call() {
        if (file_) {
            const std::lock_guard lock(kernel_.mutex_);
            if (--file_->calls == 0 && file_->closed) {
                kernel_.release_all(*file_);
            }
        }
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    [[nodiscard]] const FilePointer& file() const { return file_; }

  private:
    RknpuKernel& kernel_;
    FilePointer file_;
};

class RknpuKernel::Mapping {
  public:
    Mapping(RknpuKernel& kernel, std::shared_ptr<RknpuObject> object, FilePointer file)
        : kernel_(kernel), object_(std::move(object)), file_(std::move(file)) {}
    ~Mapping() {
        const std::lock_guard lock(kernel_.mutex_);
        if (file_) {
            file_->lose(object_);
        }
        kernel_.drop_holder(object_);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

  private:
    RknpuKernel& kernel_;
    std::shared_ptr<RknpuObject> object_;
    FilePointer file_;  // nullptr: mapped by an exported descriptor
};

RknpuKernel::RknpuKernel(SimOptions options, RknpuBoard board)
    : options_(std::move(options)),
      board_(board),
      journal_(options_.log_findings),
      memory_(options_, board_.sram_bytes),
      queue_(options_, journal_, domain_, mutex_, changed_) {}

RknpuKernel::~RknpuKernel() {
    for (const auto& [fd, file] : files_) {
        ::close(fd);
    }
    for (const auto& [fd, exported] : exports_) {
        ::close(fd);
    }
}

int RknpuKernel::open(const char* path, int) {
    if (path == nullptr || (options_.path.empty() ? usual_path(Driver::rknpu) : options_.path) != path) {
        return fail(ENOENT);
    }
    // A real descriptor, so that the number is free and close-on-exec works as for a device.
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return fd;
    }
    const std::lock_guard lock(mutex_);
    auto file = std::make_shared<RknpuFile>();
    file->runs_nothing =
        board_.render_node_runs_nothing && std::string_view(path).find("renderD") != std::string_view::npos;
    forget(fd);
    files_.emplace(fd, std::move(file));
    return fd;
}

int RknpuKernel::close(int fd) {
    {
        const std::lock_guard lock(mutex_);
        if (!forget(fd)) {
            return fail(EBADF);
        }
    }
    return ::close(fd);
}

// False: no descriptor of this kernel. Also called for a number that the kernel gets anew: the client has then closed
// the old descriptor behind its back.
bool RknpuKernel::forget(int fd) {
    if (const auto exported = exports_.extract(fd)) {
        drop_holder(exported.mapped().object);
        return true;
    }
    const auto entry = files_.extract(fd);
    if (!entry) {
        return false;
    }
    RknpuFile& file = *entry.mapped();
    file.closed = true;
    if (file.jobs_in_flight != 0) {
        journal_.complain(Severity::warning,
                          "a file is closed, or its process ends, while its jobs are in the NPU: the driver frees what "
                          "they use; published reports of boards that did not come back");
    }
    if (file.calls == 0) {
        release_all(file);
    }
    return true;
}

void* RknpuKernel::mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
    std::shared_ptr<RknpuObject> object;
    FilePointer file;
    std::uint64_t inside = 0;  // of the object
    int error = 0;
    {
        const std::lock_guard lock(mutex_);
        file = find_file(fd);
        const auto exported = exports_.find(fd);
        if (exported != exports_.end()) {
            object = exported->second.object;
            inside = static_cast<std::uint64_t>(offset);
        } else if (file) {
            object = memory_.find_offset(static_cast<std::uint64_t>(offset));
        } else {
            error = EBADF;
        }
        const auto outside = [&] {
            return inside % page_bytes != 0 || inside > object->buffer->bytes() ||
                   length > object->buffer->bytes() - inside;
        };
        if (error == 0 && (!object || length == 0 || outside() || (flags & MAP_SHARED) == 0)) {
            error = EINVAL;
        } else if (error == 0 && file && file->handle_of(*object) == 0) {
            error = EACCES;  // an object of another file
        } else if (error == 0 && !file && !exported->second.writable && (protection & PROT_WRITE) != 0) {
            error = EACCES;
        }
        if (error == 0) {
            memory_.hold(*object);
            if (file) {
                file->reach(object);
            }
        }
    }
    if (error != 0) {
        errno = error;
        return MAP_FAILED;
    }
    auto mapping = std::make_shared<Mapping>(*this, object, file);
    void* mapped = ::mmap(address, length, protection, flags, memory_.descriptor(),
                          static_cast<off_t>(object->buffer->file_offset() + inside));
    if (mapped != MAP_FAILED) {
        (void)mappings_.add(mapped, length, std::move(mapping));
    }
    return mapped;
}

int RknpuKernel::munmap(void* address, std::size_t length) {
    const int result = ::munmap(address, length);
    if (result == 0) {
        (void)mappings_.remove(address, length);
    }
    return result;
}

int RknpuKernel::ioctl(int fd, unsigned long request, void* argument) {
    const auto code = static_cast<std::uint32_t>(request);
    const auto user = reinterpret_cast<std::uintptr_t>(argument);
    const Call call(*this, fd);
    int result = -EBADF;
    if (call.file()) {
        result = dispatch(call.file(), code, user);
    } else if (owns(fd)) {
        result = code == drm::ioctl_dma_buf_sync
                     ? with_arguments<drm::DmaBufSync>(
                           code, code, user, [&](const auto& arguments) { return dma_buf_sync(fd, arguments); })
                     : -ENOTTY;
    }
    return result < 0 ? fail(-result) : 0;
}

int RknpuKernel::dispatch(const FilePointer& file, std::uint32_t code, std::uint64_t user) {
    if (type_of(code) != 'd') {
        return -ENOTTY;
    }
    const auto is = [&](std::uint32_t known) { return number_of(code) == number_of(known); };
    const auto with = [&]<typename Arguments>(std::uint32_t known,
                                              int (RknpuKernel::*handler)(RknpuFile&, Arguments&)) {
        return with_arguments<Arguments>(code, known, user,
                                         [&](auto& arguments) { return (this->*handler)(*file, arguments); });
    };
    if (is(drm::ioctl_version)) {
        return with_arguments<drm::Version>(code, drm::ioctl_version, user, version);
    }
    if (is(drm::ioctl_get_cap)) {
        return with_arguments<drm::GetCap>(code, drm::ioctl_get_cap, user, get_cap);
    }
    if (is(rknpu::ioctl_submit)) {
        return with_arguments<rknpu::Submit>(code, rknpu::ioctl_submit, user,
                                             [&](auto& arguments) { return submit(file, arguments); });
    }
    if (is(rknpu::ioctl_action)) {
        return with(rknpu::ioctl_action, &RknpuKernel::action);
    }
    if (is(rknpu::ioctl_mem_create)) {
        return with(rknpu::ioctl_mem_create, &RknpuKernel::mem_create);
    }
    if (is(rknpu::ioctl_mem_map)) {
        return with(rknpu::ioctl_mem_map, &RknpuKernel::mem_map);
    }
    if (is(rknpu::ioctl_mem_destroy)) {
        return with(rknpu::ioctl_mem_destroy, &RknpuKernel::mem_destroy);
    }
    if (is(rknpu::ioctl_mem_sync)) {
        return with(rknpu::ioctl_mem_sync, &RknpuKernel::mem_sync);
    }
    if (is(drm::ioctl_gem_close)) {
        return with(drm::ioctl_gem_close, &RknpuKernel::gem_close);
    }
    if (is(drm::ioctl_prime_handle_to_fd)) {
        return with(drm::ioctl_prime_handle_to_fd, &RknpuKernel::handle_to_fd);
    }
    if (is(drm::ioctl_prime_fd_to_handle)) {
        return with(drm::ioctl_prime_fd_to_handle, &RknpuKernel::fd_to_handle);
    }
    return -EINVAL;  // what DRM answers to a number that no driver knows
}

RknpuKernel::FilePointer RknpuKernel::find_file(int fd) const {
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : found->second;
}

void RknpuKernel::release_all(RknpuFile& file) {
    while (file.first_handle() != 0) {
        drop_handle(file, file.first_handle());
    }
}

bool RknpuKernel::owns(int fd) const {
    const std::lock_guard lock(mutex_);
    return files_.contains(fd) || exports_.contains(fd);
}

void RknpuKernel::drain() {
    Lock lock(mutex_);
    queue_.drain(lock);
}

std::uint64_t RknpuKernel::memory_in_use() const {
    const std::lock_guard lock(mutex_);
    return memory_.in_use();
}

}  // namespace npu::sim
