// The state of libnpu-preload.so in one process: what to simulate, the tree of files that stands for the board, the
// simulated kernel once the device was opened, and the report about it.
//
// fork() copies the process but not its threads, so the copy of a kernel with jobs on its cores is of no use. The child
// gets a new state: its own kernel when it opens the device, and the parent's open files as inherited ones, which answer
// ENODEV to everything but close. That refuses the parent's buffers to the child. A child made by vfork() shares the
// parent's memory; what it usually does (close, dup2, exec) changes nothing here.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "sim/kernel.h"
#include "sim/preload/open_files.h"
#include "sim/sim.h"

namespace npu::sim::preload {

// Thread-safe. There is one per process at a time; none is ever destroyed, because other threads may still use it while
// the process ends.
class Library {
  public:
    // The state of this process; made at the first call.
    static Library& get();
    // The same, or nullptr when it was not made yet: nothing of the simulated NPU can be open then.
    static Library* get_if_made();

    // Opens a node as open() does: a descriptor, or -1 with errno.
    int open_device(const DeviceNode& node, int flags);
    OpenFiles& files() { return files_; }
    // False in a child made by vfork(), or by fork in a way that the C library did not see.
    [[nodiscard]] bool is_this_process() const;
    // The kernel, if a device was opened.
    SimulatedKernel* kernel_if_made() const { return kernel_.load(std::memory_order_acquire); }

    // The folder with the board's files, without a slash at the end; made at the first call. Empty when that failed.
    const std::string& root();
    // The same, empty as long as nobody asked for it.
    [[nodiscard]] std::string_view root_if_made() const;
    // False if the tree cannot have anything at this path; does not make the tree for the question.
    [[nodiscard]] bool may_have(std::string_view path) const {
        return !root_if_made().empty() || is_in_board_table(path, driver_);
    }
    // The node whose file in the tree this is, or nullptr.
    const DeviceNode* node_of(const struct stat& status);

    // Writes the report if something happened since it was last written. Called after each ioctl, so that a program that
    // is killed is reported, too; spends no more than a twentieth of the time on it.
    void report_progress();
    // For the end of the process: waits for running jobs if asked to, writes the last report, and removes the tree if it
    // is this process's. Does nothing when called again.
    void finish(bool wait_for_jobs);
    // False if finish() would do nothing. Safe in signal handlers.
    [[nodiscard]] bool has_something_to_finish() const {
        return is_this_process() && (kernel_if_made() != nullptr || owns_root_);
    }

  private:
    explicit Library(const Library* parent);
    static void before_fork();
    static void after_fork_in_parent();
    static void after_fork_in_child();

    SimulatedKernel* kernel();
    void find_nodes();
    void write_report(SimulatedKernel& kernel, bool complete);

    const Result<SimulationOptions> options_;
    const Driver driver_;
    const int process_;
    OpenFiles files_;

    std::mutex mutex_;  // what follows
    std::atomic<SimulatedKernel*> kernel_{nullptr};
    Faults faults_;
    bool complained_ = false;  // that the options cannot be used

    std::once_flag root_once_;
    std::string root_;
    std::atomic<bool> root_made_{false};
    std::atomic<bool> owns_root_{false};  // made here, to be removed here
    struct NodeFile {
        ino_t inode;
        dev_t device;
        const DeviceNode* node;
    };
    std::vector<NodeFile> nodes_;

    std::mutex report_mutex_;
    std::string report_path_;
    std::uint64_t reported_submissions_ = 0;
    std::size_t reported_findings_ = 0;
    std::int64_t report_begin_ns_ = 0;  // of the first report
    std::int64_t report_spent_ns_ = 0;  // on all reports
    bool finished_ = false;
};

}  // namespace npu::sim::preload
