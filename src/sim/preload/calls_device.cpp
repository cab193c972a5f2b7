// What is done with an open device: ioctl(), mmap() and munmap(). poll() and its relatives, read(), lseek(), dup() and
// fcntl() go to the placeholder (open_files.h) and need nothing here.
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>

#include "base/log.h"
#include "sim/preload/library.h"
#include "sim/preload/next.h"
#include "sim/preload/own_calls.h"
#include "sim/user_memory.h"

using namespace npu::sim;           // NOLINT(google-build-using-namespace)
using namespace npu::sim::preload;  // NOLINT(google-build-using-namespace)

namespace {

constinit Next<int(int, unsigned long, ...)> next_ioctl("ioctl");
constinit Next<void*(void*, std::size_t, int, int, int, off_t)> next_mmap("mmap");
constinit Next<void*(void*, std::size_t, int, int, int, off64_t)> next_mmap64("mmap64");
constinit Next<int(void*, std::size_t)> next_munmap("munmap");

// A call of the simulated kernel. Leaves errno as it was unless the call failed.
class KernelCall {
  public:
    KernelCall() = default;
    ~KernelCall() {
        if (!failed_) {
            errno = error_;
        }
    }
    KernelCall(const KernelCall&) = delete;
    KernelCall& operator=(const KernelCall&) = delete;

    template <typename Answer>
    Answer operator()(Answer answer, Answer failure) {
        failed_ = answer == failure;
        return answer;
    }

  private:
    int error_ = errno;
    bool failed_ = false;
    NotCancelled not_cancelled_;
};

// The two requests of DRM that carry a descriptor: a buffer is exported as one, or imported.
struct PrimeHandle {
    std::uint32_t handle;
    std::uint32_t flags;
    std::int32_t fd;
};
constexpr std::uint32_t export_request = 0xc00c642d;
constexpr std::uint32_t import_request = 0xc00c642e;
static_assert(sizeof(PrimeHandle) == (export_request >> 16 & 0x3fff));

int export_buffer(Library& library, SimulatedKernel& kernel, int kernel_descriptor, unsigned long request,
                  void* argument) {
    const int answer = kernel.ioctl(kernel_descriptor, request, argument);
    PrimeHandle prime{};
    if (answer != 0 || !copy_from_user(&prime, reinterpret_cast<std::uintptr_t>(argument), sizeof prime) ||
        !kernel.owns(prime.fd)) {
        return answer;
    }
    prime.fd = library.files().add_buffer(kernel, prime.fd, (prime.flags & O_CLOEXEC) != 0);
    if (prime.fd < 0) {
        errno = -prime.fd;
        return -1;
    }
    return copy_to_user(reinterpret_cast<std::uintptr_t>(argument), &prime, sizeof prime) ? 0 : -1;
}

int import_buffer(Library& library, SimulatedKernel& kernel, int kernel_descriptor, unsigned long request,
                  void* argument) {
    PrimeHandle prime{};
    if (!copy_from_user(&prime, reinterpret_cast<std::uintptr_t>(argument), sizeof prime)) {
        errno = EFAULT;
        return -1;
    }
    const int program_fd = prime.fd;
    const auto found = library.files().find(program_fd);
    if (found && found->file && found->node == nullptr) {
        prime.fd = found->file->kernel_descriptor();
    }
    const int answer = kernel.ioctl(kernel_descriptor, request, &prime);
    prime.fd = program_fd;
    if (answer == 0 && !copy_to_user(reinterpret_cast<std::uintptr_t>(argument), &prime, sizeof prime)) {
        errno = EFAULT;
        return -1;
    }
    return answer;
}

int device_ioctl(const OpenFile& file, unsigned long request, void* argument) {
    Library& library = Library::get();
    KernelCall call;
    const auto code = static_cast<std::uint32_t>(request);
    int answer = 0;
    if (code == export_request) {
        answer = export_buffer(library, file.kernel(), file.kernel_descriptor(), request, argument);
    } else if (code == import_request) {
        answer = import_buffer(library, file.kernel(), file.kernel_descriptor(), request, argument);
    } else {
        answer = file.kernel().ioctl(file.kernel_descriptor(), request, argument);
    }
    library.report_progress();
    return call(answer, -1);
}

// Requests that the host's kernel answers for any file.
bool is_general(unsigned long request) {
    return request == FIOCLEX || request == FIONCLEX || request == FIONBIO || request == FIOASYNC;
}

// A request for something else. An emulator that does not know the request answers ENOSYS, the host's kernel never.
int foreign_ioctl(int fd, unsigned long request, void* argument) {
    const int answer = next_ioctl(fd, request, argument);
    if (answer < 0 && errno == ENOSYS && (request >> 8 & 0xff) == 'd') {
        struct stat status {};
        errno = raw::fstat(fd, &status) < 0 ? EBADF : ENOTTY;
    }
    return answer;
}

int refuse_inherited() {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) {
        npu::log(
            npu::LogLevel::warning,
            "simulated NPU: a forked process uses a descriptor that its parent opened (ENODEV): a simulated kernel "
            "does not survive a fork. Open the device again in the child");
    }
    errno = ENODEV;
    return -1;
}

// False in a child, however it was made.
bool is_usable(const FoundFile& found) { return found.file && Library::get().is_this_process(); }

std::optional<FoundFile> find_file(int fd) {
    Library* library = Library::get_if_made();
    return library != nullptr ? library->files().find(fd) : std::nullopt;
}

template <typename Call>
void* map_with(void* address, std::size_t length, int protection, int flags, int fd, off_t offset, Call call) {
    if (fd < 0 || (flags & MAP_ANONYMOUS) != 0) {
        return call();
    }
    const auto found = find_file(fd);
    if (!found) {
        return call();
    }
    if (!is_usable(*found)) {
        refuse_inherited();
        return MAP_FAILED;
    }
    KernelCall kernel_call;
    return kernel_call(
        found->file->kernel().mmap(address, length, protection, flags, found->file->kernel_descriptor(), offset),
        MAP_FAILED);
}

}  // namespace

NPU_INTERPOSE int ioctl(int fd, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void* argument = va_arg(arguments, void*);
    va_end(arguments);
    const auto found = find_file(fd);
    if (!found || is_general(request)) {
        return foreign_ioctl(fd, request, argument);
    }
    return is_usable(*found) ? device_ioctl(*found->file, request, argument) : refuse_inherited();
}

NPU_INTERPOSE void* mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
    return map_with(address, length, protection, flags, fd, offset,
                    [=] { return next_mmap(address, length, protection, flags, fd, offset); });
}

NPU_INTERPOSE void* mmap64(void* address, std::size_t length, int protection, int flags, int fd, off64_t offset) {
    return map_with(address, length, protection, flags, fd, offset,
                    [=] { return next_mmap64(address, length, protection, flags, fd, offset); });
}

// The simulated kernel has to know when a mapping of a buffer ends, and takes any range.
NPU_INTERPOSE int munmap(void* address, std::size_t length) {
    Library* library = Library::get_if_made();
    SimulatedKernel* kernel = library != nullptr ? library->kernel_if_made() : nullptr;
    return kernel != nullptr ? kernel->munmap(address, length) : next_munmap(address, length);
}
