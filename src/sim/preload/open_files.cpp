#include "sim/preload/open_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sim/preload/own_calls.h"

namespace npu::sim::preload {

namespace {

class Locked {
  public:
    explicit Locked(const OpenFiles& files) : files_(files) { files_.lock(); }
    ~Locked() { files_.unlock(); }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

  private:
    const OpenFiles& files_;
};

struct Placeholder {
    int descriptor;  // or a negative errno
    int lookout;
};

// A pipe whose reading end has the lowest free number and the given flags of open().
Placeholder make_placeholder(int flags) {
    const int kept_flags = flags & (O_CLOEXEC | O_NONBLOCK);
    std::array<int, 2> ends{};
    if (syscall(SYS_pipe2, ends.data(), kept_flags) != 0) {
        return {-errno, -1};
    }
    const int lookout = keep_descriptor(ends[1]);
    if ((flags & O_ACCMODE) != O_RDONLY) {
        // Open the pipe once more, for both directions, so that the program finds the access mode that it asked for. It
        // stays a reader in any case: without one the lookout would report it closed.
        std::array<char, 32> path{};
        std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", ends[0]);
        const int both = raw::open(AT_FDCWD, path.data(), O_RDWR | kept_flags);
        if (both >= 0) {
            syscall(SYS_dup3, both, ends[0], flags & O_CLOEXEC);
            raw::close(both);
        }
    }
    return {ends[0], lookout};
}

// Calls visit(inode, device) for each descriptor of this process that is not the library's own.
template <typename Visit>
void for_each_descriptor(Visit visit) {
    const int folder = raw::open(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return;
    }
    struct Entry {  // what getdents64 writes
        std::uint64_t inode;
        std::int64_t offset;
        std::uint16_t length;
        std::uint8_t type;
        char name[1];
    };
    alignas(Entry) std::array<char, 4096> buffer;
    long bytes = 0;
    while ((bytes = syscall(SYS_getdents64, folder, buffer.data(), buffer.size())) > 0) {
        for (long at = 0; at < bytes;) {
            const auto* entry = reinterpret_cast<const Entry*>(buffer.data() + at);
            at += entry->length;
            int fd = -1;
            struct stat status {};
            if (std::sscanf(entry->name, "%d", &fd) == 1 && fd != folder && !is_own_descriptor(fd) &&
                raw::fstat(fd, &status) == 0) {
                visit(status.st_ino, status.st_dev);
            }
        }
    }
    raw::close(folder);
}

}  // namespace

OpenFile::~OpenFile() {
    kernel_.close(kernel_descriptor_);
    if (lookout_ >= 0) {
        ::close(lookout_);
    }
}

OpenFiles::OpenFiles(const OpenFiles* parent) {
    if (parent == nullptr || parent->empty()) {
        return;
    }
    auto* slots = new Slot[capacity];
    const Slot* from = parent->slots_;
    const std::size_t count = parent->used_;
    for (std::size_t i = 0; i < count; ++i) {
        slots[i].inode = from[i].inode.load();
        slots[i].device = from[i].device;
        slots[i].node = from[i].node;
    }
    slots_ = slots;
    used_ = count;
}

void OpenFiles::lock() const {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    mutex_.lock();
    signals_ = before;
}

void OpenFiles::unlock() const {
    const sigset_t before = signals_;
    mutex_.unlock();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

OpenFiles::Slot* OpenFiles::slots() {
    Slot* slots = slots_;
    if (slots == nullptr) {
        auto made = std::make_unique<Slot[]>(capacity);
        if (slots_.compare_exchange_strong(slots, made.get())) {
            slots = made.release();
        }
    }
    return slots;
}

bool OpenFiles::add(int placeholder, std::shared_ptr<OpenFile> file) {
    struct stat status {};
    if (raw::fstat(placeholder, &status) != 0) {
        return false;
    }
    Slot* all = slots();
    const Locked lock(*this);
    const std::size_t used = used_;
    for (std::size_t i = 0; i < capacity; ++i) {
        Slot& slot = all[i];
        // An inherited placeholder whose number is used again is gone.
        if (slot.inode == 0 || (slot.inode == status.st_ino && slot.device == status.st_dev)) {
            slot.device = status.st_dev;
            slot.node = file->node();
            slot.file = std::move(file);
            slot.inode = status.st_ino;
            if (i >= used) {
                used_.store(i + 1, std::memory_order_release);
            }
            return true;
        }
    }
    return false;
}

int OpenFiles::open_device(SimulatedKernel& kernel, const char* path, const DeviceNode& node, int flags) {
    const Placeholder placeholder = make_placeholder(flags);
    if (placeholder.descriptor < 0) {
        return placeholder.descriptor;
    }
    const int kernel_descriptor = kernel.open(path, flags);
    if (kernel_descriptor < 0) {
        const int error = errno;
        raw::close(placeholder.descriptor);
        ::close(placeholder.lookout);
        return -error;
    }
    if (!add(placeholder.descriptor,
             std::make_shared<OpenFile>(kernel, kernel_descriptor, &node, placeholder.lookout))) {
        raw::close(placeholder.descriptor);
        return -ENFILE;
    }
    return placeholder.descriptor;
}

int OpenFiles::add_buffer(SimulatedKernel& kernel, int kernel_descriptor, bool close_on_exec) {
    struct stat exported {};
    raw::fstat(kernel_descriptor, &exported);
    auto file = std::make_shared<OpenFile>(kernel, kernel_descriptor, nullptr, -1);
    adopt_descriptor(kernel_descriptor);
    const auto placeholder = static_cast<int>(syscall(SYS_memfd_create, "dmabuf", close_on_exec ? MFD_CLOEXEC : 0U));
    if (placeholder < 0) {
        return -errno;
    }
    if (::ftruncate(placeholder, exported.st_size) != 0 || !add(placeholder, std::move(file))) {
        raw::close(placeholder);
        return -ENFILE;
    }
    return placeholder;
}

std::optional<FoundFile> OpenFiles::find(int fd) const {
    struct stat status {};
    const std::size_t used = used_.load(std::memory_order_acquire);
    if (used == 0 || raw::fstat(fd, &status) != 0 || !(S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode))) {
        return {};
    }
    const Slot* slots = slots_;
    for (std::size_t i = 0; i < used; ++i) {
        if (slots[i].inode != status.st_ino) {
            continue;
        }
        const Locked lock(*this);
        if (slots[i].inode == status.st_ino && slots[i].device == status.st_dev) {
            return FoundFile{slots[i].file, slots[i].node};
        }
    }
    return {};
}

template <typename Closed>
void OpenFiles::release_if(Closed closed) {
    std::array<std::shared_ptr<OpenFile>, 16> released;  // destroyed without the lock: the kernel may take its time
    std::size_t count = 0;
    do {
        count = 0;
        const Locked lock(*this);
        for (std::size_t i = 0; i < used_ && count < released.size(); ++i) {
            Slot& slot = slots_.load()[i];
            if (slot.inode != 0 && slot.file && closed(slot)) {
                slot.inode = 0;
                released[count++].swap(slot.file);
            }
        }
    } while (count == released.size());
}

void OpenFiles::release_closed_devices() {
    if (empty()) {
        return;
    }
    const int error = errno;
    release_if([](const Slot& slot) {
        pollfd entry{.fd = slot.file->lookout(), .events = 0, .revents = 0};
        return entry.fd >= 0 && raw::poll(&entry, 1) == 1 && (entry.revents & POLLERR) != 0;
    });
    errno = error;
}

void OpenFiles::release_closed_buffers() {
    const int error = errno;
    std::vector<std::pair<ino_t, dev_t>> open;
    for_each_descriptor([&](ino_t inode, dev_t device) { open.emplace_back(inode, device); });
    release_if([&](const Slot& slot) {
        if (slot.node != nullptr) {
            return false;
        }
        for (const auto& [inode, device] : open) {
            if (inode == slot.inode && device == slot.device) {
                return false;
            }
        }
        return true;
    });
    errno = error;
}

}  // namespace npu::sim::preload
