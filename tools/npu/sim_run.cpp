#include "sim_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace npu::tools {

namespace {

std::atomic<pid_t> running{0};

void pass_on(int signal) {
    if (const pid_t child = running; child > 0) {
        ::kill(child, signal);
    }
}

// SIGINT and SIGQUIT of a terminal reach the program by themselves; this process only has to live on to sum up.
void live_through_signals() {
    for (const int ignored : {SIGINT, SIGQUIT}) {
        ::signal(ignored, SIG_IGN);
    }
    for (const int passed : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
        struct sigaction action {};
        action.sa_handler = pass_on;
        action.sa_flags = SA_RESTART;
        ::sigaction(passed, &action, nullptr);
    }
}

// In the child. Returns only if the program cannot be started.
void become(const std::vector<std::string>& command, const std::vector<std::pair<std::string, std::string>>& variables,
            const std::array<struct sigaction, 2>& dispositions) {
    ::sigaction(SIGINT, &dispositions[0], nullptr);
    ::sigaction(SIGQUIT, &dispositions[1], nullptr);
    for (const auto& [name, value] : variables) {
        ::setenv(name.c_str(), value.c_str(), 1);
    }
    std::vector<char*> arguments;
    for (const std::string& argument : command) {
        arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    ::execv(arguments.front(), arguments.data());
}

}  // namespace

Result<int> run_program(const std::vector<std::string>& command,
                        const std::vector<std::pair<std::string, std::string>>& variables) {
    std::array<int, 2> failed{};  // a pipe that closes when the program has started, or says why it has not
    if (::pipe2(failed.data(), O_CLOEXEC) != 0) {
        return make_error(ErrorCode::device_failure, "no pipe: %s", std::strerror(errno));
    }
    std::array<struct sigaction, 2> dispositions{};
    ::sigaction(SIGINT, nullptr, &dispositions[0]);
    ::sigaction(SIGQUIT, nullptr, &dispositions[1]);
    live_through_signals();
    const pid_t child = ::fork();
    if (child == 0) {
        become(command, variables, dispositions);
        const int error = errno;
        [[maybe_unused]] const ssize_t written = ::write(failed[1], &error, sizeof error);
        ::_exit(127);
    }
    ::close(failed[1]);
    int error = child < 0 ? errno : 0;
    running = child;
    if (child > 0) {
        ssize_t bytes = 0;
        do {
            bytes = ::read(failed[0], &error, sizeof error);
        } while (bytes < 0 && errno == EINTR);
    }
    ::close(failed[0]);
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (error != 0) {
        return make_error(ErrorCode::device_failure, "%s cannot be started: %s", command.front().c_str(),
                          std::strerror(error));
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace npu::tools
