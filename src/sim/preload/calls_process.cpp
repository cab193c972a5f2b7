// The end of a process that runs no destructors.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "sim/preload/library.h"
#include "sim/preload/next.h"

using namespace npu::sim::preload;  // NOLINT(google-build-using-namespace)

namespace {

constinit Next<void(int)> next_exit("_exit");
constinit std::atomic<int> exit_status{0};

void give_up(int) { syscall(SYS_exit_group, exit_status.load()); }

// _exit() may be called in a signal handler, at a moment when the interrupted code holds the locks of malloc or of the
// simulated kernel; then the report cannot be written. So the process ends after a second in any case.
void write_report(Library& library, int status) {
    exit_status = status;
    struct sigaction action {};
    action.sa_handler = give_up;
    sigaction(SIGALRM, &action, nullptr);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
    const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = 1, .tv_usec = 0}};
    setitimer(ITIMER_REAL, &limit, nullptr);
    library.finish(false);
}

[[noreturn]] void end_process(int status) {
    if (Library* library = Library::get_if_made(); library != nullptr && library->has_something_to_finish()) {
        write_report(*library, status);
    }
    next_exit(status);
    __builtin_unreachable();
}

}  // namespace

NPU_INTERPOSE void _exit(int status) { end_process(status); }

NPU_INTERPOSE void _Exit(int status) noexcept { end_process(status); }
