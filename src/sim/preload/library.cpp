#include "sim/preload/library.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "sim/preload/own_calls.h"
#include "sim/preload/report.h"
#include "sim/preload/settings.h"

namespace npu::sim::preload {

namespace {

constinit std::atomic<Library*> current{nullptr};
constinit pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string text_of(const Result<SimulationOptions>& options, std::string SimulationOptions::*member) {
    return options ? (*options).*member : std::string();
}

// The folder's path without links and without a slash at the end, as the host's kernel shows it for open files.
std::string real_folder(const std::string& folder) {
    const int fd = raw::open(AT_FDCWD, folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return folder;
    }
    std::string path(PATH_MAX, '\0');
    const int bytes = raw::readlink(format("/proc/self/fd/%d", fd).c_str(), path.data(), PATH_MAX);
    raw::close(fd);
    path.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return path.empty() ? folder : path;
}

// Writes a file that is never seen half written.
void replace_file(const std::string& path, const std::string& contents) {
    const std::string unfinished = path + ".part";
    const int fd = ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return;
    }
    const bool written = ::write(fd, contents.data(), contents.size()) == static_cast<ssize_t>(contents.size());
    ::close(fd);
    if (written) {
        std::rename(unfinished.c_str(), path.c_str());
    }
}

__attribute__((constructor)) void at_load() { Library::get(); }

__attribute__((destructor)) void at_exit() {
    if (Library* library = Library::get_if_made(); library != nullptr) {
        library->finish(true);
    }
}

}  // namespace

Library& Library::get() {
    if (Library* made = current.load(std::memory_order_acquire); made != nullptr) {
        return *made;
    }
    const SignalsBlocked blocked;  // a handler may need what its thread is making
    pthread_mutex_lock(&making);
    Library* made = current.load();
    if (made == nullptr) {
        made = new Library(nullptr);
        current.store(made, std::memory_order_release);
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
    pthread_mutex_unlock(&making);
    return *made;
}

Library* Library::get_if_made() { return current.load(std::memory_order_acquire); }

Library::Library(const Library* parent)
    : options_(parent != nullptr ? parent->options_ : simulation_options()),
      driver_(options_ ? driver_of(*options_) : Driver::rknpu),
      process_(raw::getpid()),
      files_(parent != nullptr ? &parent->files_ : nullptr),
      root_(text_of(options_, &SimulationOptions::root)) {
    if (!root_.empty()) {  // a path may lead into it before one below /dev was asked for
        root();
    }
    if (const std::string reports = text_of(options_, &SimulationOptions::reports); !reports.empty()) {
        report_path_ = format("%s/%d-%lld.json", reports.c_str(), process_, static_cast<long long>(now_ns()));
        // Tells `npu sim` that the library was loaded at all.
        raw::close(raw::open(AT_FDCWD, (reports + "/loaded").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
}

bool Library::is_this_process() const { return raw::getpid() == process_; }

void Library::before_fork() {
    Library& library = *current.load();
    library.report_mutex_.lock();
    library.mutex_.lock();
    library.files_.lock();
}

void Library::after_fork_in_parent() {
    Library& library = *current.load();
    library.files_.unlock();
    library.mutex_.unlock();
    library.report_mutex_.unlock();
}

void Library::after_fork_in_child() {
    Library& parent = *current.load();
    current.store(new Library(&parent), std::memory_order_release);
    parent.files_.unlock();
    close_own_descriptors();
}

// The kernel, made at the first call; nullptr when the options cannot be used, which is said once.
SimulatedKernel* Library::kernel() {
    const std::lock_guard lock(mutex_);
    if (kernel_ == nullptr && !complained_) {
        Result<SimOptions> settings = options_ ? simulation_settings(*options_) : options_.error();
        if (!settings) {
            complained_ = true;
            log(LogLevel::error, "there is no simulated NPU: %s", settings.error().message.c_str());
            return nullptr;
        }
        faults_ = settings->faults;
        kernel_.store(make_simulated_kernel(std::move(settings).value()).release(), std::memory_order_release);
    }
    return kernel_;
}

int Library::open_device(const DeviceNode& node, int flags) {
    if (!is_this_process()) {
        errno = ENODEV;
        return -1;
    }
    const NotCancelled not_cancelled;
    files_.release_closed_devices();
    SimulatedKernel* made = kernel();
    const int fd = made != nullptr ? files_.open_device(*made, usual_path(driver_), node, flags) : -ENODEV;
    if (fd >= 0) {
        report_progress();
        return fd;
    }
    errno = -fd;
    return -1;
}

const std::string& Library::root() {
    if (root_made_.load(std::memory_order_acquire)) {
        return root_;
    }
    const SignalsBlocked blocked;
    std::call_once(root_once_, [this] {
        if (root_.empty()) {
            std::string folder = temporary_folder() + "/npu-sim-XXXXXX";
            owns_root_ = mkdtemp(folder.data()) != nullptr;
            root_ = folder;
        }
        find_nodes();
        if (nodes_.empty()) {  // not `npu sim`'s: nobody has filled it yet
            const std::string chip = text_of(options_, &SimulationOptions::chip);
            if (const Result<void> written = write_board_tree(root_, driver_, chip); !written) {
                log(LogLevel::error, "there is no simulated NPU: %s", written.error().message.c_str());
            }
            find_nodes();
        }
        root_ = real_folder(root_);
        root_made_.store(true, std::memory_order_release);
    });
    return root_;
}

std::string_view Library::root_if_made() const {
    return root_made_.load(std::memory_order_acquire) ? std::string_view(root_) : std::string_view();
}

void Library::find_nodes() {
    for (const DeviceNode& node : device_nodes(driver_)) {
        struct stat status {};
        if (raw::stat(AT_FDCWD, (root_ + node.path).c_str(), &status, 0) == 0) {
            nodes_.push_back({status.st_ino, status.st_dev, &node});
        }
    }
}

const DeviceNode* Library::node_of(const struct stat& status) {
    if (!S_ISREG(status.st_mode)) {
        return nullptr;
    }
    root();
    for (const NodeFile& file : nodes_) {
        if (file.inode == status.st_ino && file.device == status.st_dev) {
            return file.node;
        }
    }
    return nullptr;
}

void Library::write_report(SimulatedKernel& kernel, bool complete) {
    ProcessReport report;
    report.process = process_;
    report.program = program_invocation_short_name;
    report.complete = complete;
    report.statistics = kernel.statistics();
    report.memory_in_use = kernel.memory_in_use();
    report.findings = kernel.findings();
    report.faults = faults_.report();
    replace_file(report_path_, to_json(report));
    reported_submissions_ = report.statistics.submissions;
    reported_findings_ = report.findings.size();
}

void Library::report_progress() {
    if (report_path_.empty()) {
        return;
    }
    SimulatedKernel* made = kernel_if_made();
    const std::unique_lock lock(report_mutex_, std::try_to_lock);
    if (made == nullptr || !lock || finished_) {
        return;
    }
    const int error = errno;
    const std::int64_t begin = now_ns();
    if (report_begin_ns_ == 0) {
        report_begin_ns_ = begin;
        write_report(*made, false);
    }
    constexpr std::int64_t free_ns = 20'000'000;  // short programs are reported exactly
    if (report_spent_ns_ < free_ns + (begin - report_begin_ns_) / 20 &&
        (made->statistics().submissions != reported_submissions_ || made->findings().size() != reported_findings_)) {
        write_report(*made, false);
    }
    report_spent_ns_ += now_ns() - begin;
    errno = error;
}

void Library::finish(bool wait_for_jobs) {
    if (!has_something_to_finish()) {
        return;
    }
    if (SimulatedKernel* made = kernel_if_made(); made != nullptr && !report_path_.empty()) {
        if (wait_for_jobs) {
            made->drain();
        }
        const std::lock_guard lock(report_mutex_);
        if (!finished_) {
            finished_ = true;
            write_report(*made, true);
        }
    }
    if (owns_root_.exchange(false)) {
        remove_board_tree(root_);
    }
}

}  // namespace npu::sim::preload
