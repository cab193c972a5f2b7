// Sharing buffers of the simulated rknpu driver between files: DRM's PRIME. HANDLE_TO_FD makes a descriptor (a dma-buf)
// for an object, FD_TO_HANDLE a handle for a descriptor; MEM_CREATE with that handle then tells its addresses. A buffer
// of this driver comes back as the very same object, in the domain where it was made, and as the same handle in a file
// that has one. Memory of another exporter (a dma-heap on boards; here any memory file) is mapped for the NPU in the
// domain that is live at that moment. Source: the kernel's DRM core; public reports of imports on boards.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "sim/kernel_rknpu.h"

namespace npu::sim {

namespace {

namespace drm = uapi::drm;

// A dma-buf tells its size by lseek and fstat, as a memory file does.
int make_descriptor(std::uint64_t bytes, bool close_on_exec) {
    const int fd = ::memfd_create("dmabuf", close_on_exec ? MFD_CLOEXEC : 0);
    if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
        ::close(fd);
        return -1;
    }
    return fd;
}

bool is_memory_file(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }

std::uint64_t inode_of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

int RknpuKernel::handle_to_fd(RknpuFile& file, drm::PrimeHandle& arguments) {
    const Lock lock(mutex_);
    if ((arguments.flags & ~(drm::prime_close_on_exec | drm::prime_read_write)) != 0) {
        return -EINVAL;
    }
    const auto object = file.find(arguments.handle);
    if (!object) {
        return -ENOENT;
    }
    const bool close_on_exec = (arguments.flags & drm::prime_close_on_exec) != 0;
    const int fd = object->imported() ? ::fcntl(object->exporter, close_on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, 0)
                                      : make_descriptor(object->buffer->bytes(), close_on_exec);
    if (fd < 0) {
        return -errno;
    }
    if (!object->imported()) {  // an imported one is its exporter's business again
        memory_.hold(*object);
        forget(fd);
        exports_.emplace(fd, Export{object, (arguments.flags & drm::prime_read_write) != 0});
    }
    arguments.fd = fd;
    return 0;
}

int RknpuKernel::fd_to_handle(RknpuFile& file, drm::PrimeHandle& arguments) {
    const Lock lock(mutex_);
    const auto exported = exports_.find(arguments.fd);
    std::shared_ptr<RknpuObject> object;
    if (exported != exports_.end()) {
        object = exported->second.object;
    } else if (::fcntl(arguments.fd, F_GETFD) < 0) {
        return -EBADF;
    } else if (files_.contains(arguments.fd) || !is_memory_file(arguments.fd)) {
        return -EINVAL;
    } else if (object = file.find_imported(inode_of(arguments.fd)); !object) {
        const std::uint32_t domain = domain_.live();
        const bool first = domain != 0 && memory_.objects_in(domain) == 0;
        if (const int error = memory_.import(arguments.fd, domain, object); error != 0) {
            return -error;
        }
        if (first) {
            journal_.complain(
                Severity::corrupt,
                format("the first thing in domain %u is an import: reported of boards, its addresses then "
                       "overlap others; create an object of 64 KiB there first",
                       domain));
        }
    }
    arguments.handle = file.handle_of(*object);
    if (arguments.handle == 0) {
        memory_.hold(*object);
        arguments.handle = file.add(std::move(object));
    }
    return 0;
}

int RknpuKernel::dma_buf_sync(int fd, const drm::DmaBufSync& arguments) {
    constexpr std::uint64_t accesses = drm::dma_buf_sync_read | drm::dma_buf_sync_write;
    const Lock lock(mutex_);
    const auto exported = exports_.find(fd);
    if (exported == exports_.end() || (arguments.flags & ~(accesses | drm::dma_buf_sync_end)) != 0 ||
        (arguments.flags & accesses) == 0) {
        return -EINVAL;
    }
    const bool end = (arguments.flags & drm::dma_buf_sync_end) != 0;
    const bool writes = (arguments.flags & drm::dma_buf_sync_write) != 0;
    RknpuObject& object = *exported->second.object;
    synchronise(object, end && writes, !end, 0, object.buffer->bytes());
    return 0;
}

}  // namespace npu::sim
