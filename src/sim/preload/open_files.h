// What a descriptor of the program means. A program may copy a descriptor in many ways, some of which no library sees
// (dup of a shell, fork, a message over a socket), and may close all copies in any order. Counting them here would go
// wrong; the host's kernel counts them already. So the program gets a descriptor of a real file, a placeholder, and two
// things are asked of the host's kernel instead:
//
// - Which open file is this? The placeholder's inode number says it, whatever number the descriptor has.
// - Was the last copy closed? The placeholder of a device is the reading end of a pipe whose writing end this library
//   holds: poll() on that reports an error when no reader is left, in this process or in one that inherited it. It also
//   polls as a DRM device does, never readable. The placeholder of an exported buffer (dma-buf) is a memory file of the
//   buffer's size, because programs ask for the size with lseek; for those the process's descriptors are looked through.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/kernel.h"
#include "sim/preload/board_tree.h"

namespace npu::sim::preload {

// An open device file or an exported buffer. Its destructor is the last close, as the simulated kernel sees it.
class OpenFile {
  public:
    OpenFile(SimulatedKernel& kernel, int kernel_descriptor, const DeviceNode* node, int lookout)
        : kernel_(kernel), kernel_descriptor_(kernel_descriptor), node_(node), lookout_(lookout) {}
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    [[nodiscard]] SimulatedKernel& kernel() const { return kernel_; }
    // The number by which the simulated kernel knows the file.
    [[nodiscard]] int kernel_descriptor() const { return kernel_descriptor_; }
    // nullptr for an exported buffer.
    [[nodiscard]] const DeviceNode* node() const { return node_; }
    // The writing end of the pipe; -1 for an exported buffer.
    [[nodiscard]] int lookout() const { return lookout_; }

  private:
    SimulatedKernel& kernel_;
    int kernel_descriptor_;
    const DeviceNode* node_;
    int lookout_;
};

// A descriptor of the program that belongs to the simulated NPU.
struct FoundFile {
    std::shared_ptr<OpenFile> file;  // empty when the parent opened it, before a fork
    const DeviceNode* node;          // nullptr for an exported buffer
};

// The files of one process. Thread-safe. find() is safe in signal handlers: its lock is held only with signals blocked and
// for moments in which nothing else is waited for, memory allocation included.
class OpenFiles {
  public:
    // In a forked child: knows the placeholders of `parent` as inherited ones. `parent` is never destroyed.
    explicit OpenFiles(const OpenFiles* parent = nullptr);

    // Opens the device of `kernel` through `node` and returns the program's descriptor, or a negative errno. `path` is
    // what the kernel knows its device by; `flags` are those of open().
    int open_device(SimulatedKernel& kernel, const char* path, const DeviceNode& node, int flags);
    // Takes `kernel_descriptor`, which the kernel just exported, and returns a descriptor for the program; or a negative
    // errno, and the export is undone.
    int add_buffer(SimulatedKernel& kernel, int kernel_descriptor, bool close_on_exec);

    [[nodiscard]] std::optional<FoundFile> find(int fd) const;
    [[nodiscard]] bool empty() const { return used_.load(std::memory_order_acquire) == 0; }

    // Closes devices that no process has open any more. Called when a descriptor of one was closed, and before another is
    // opened, in case a close was not seen.
    void release_closed_devices();
    // The same for exported buffers; only looks at this process.
    void release_closed_buffers();

    // For fork: held across it, so that the child sees a whole table.
    void lock() const;
    void unlock() const;

  private:
    static constexpr std::size_t capacity = 8192;
    struct Slot {
        std::atomic<ino_t> inode{0};  // 0: free
        dev_t device = 0;
        const DeviceNode* node = nullptr;
        std::shared_ptr<OpenFile> file;
    };

    Slot* slots();
    bool add(int placeholder, std::shared_ptr<OpenFile> file);
    template <typename Closed>
    void release_if(Closed closed);

    mutable std::mutex mutex_;
    mutable sigset_t signals_{};         // what the thread that holds mutex_ had blocked before
    std::atomic<Slot*> slots_{nullptr};  // made with the first file and never freed
    std::atomic<std::size_t> used_{0};   // slots from here on were never used
};

}  // namespace npu::sim::preload
