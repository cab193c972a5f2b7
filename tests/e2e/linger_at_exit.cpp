// Preloaded into llama.cpp's programs by lib.sh. Their log is printed by a thread that nobody waits for at exit, so that
// a program which fails at once may end before it has said why. This keeps the process until every other thread sleeps,
// that is, until the log has nothing left to print.
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// Whether a thread of this process other than the calling one wants to run.
bool somebody_runs() {
    DIR* tasks = opendir("/proc/self/task");
    if (tasks == nullptr) {
        return false;
    }
    bool found = false;
    while (const dirent* entry = readdir(tasks)) {
        const int thread = std::atoi(entry->d_name);
        if (thread == 0 || thread == gettid()) {
            continue;
        }
        char path[64];
        std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
        char line[512] = {};
        if (std::FILE* file = std::fopen(path, "r")) {
            if (std::fgets(line, sizeof line, file) != nullptr) {
                const char* name_end = std::strrchr(line, ')');
                found = found || (name_end != nullptr && name_end[1] == ' ' && name_end[2] == 'R');
            }
            std::fclose(file);
        }
    }
    closedir(tasks);
    return found;
}

[[gnu::destructor]] void linger() {
    constexpr int quiet_checks = 3;
    constexpr int most_checks = 2000;
    for (int check = 0, quiet = 0; check < most_checks && quiet < quiet_checks; ++check) {
        quiet = somebody_runs() ? 0 : quiet + 1;
        usleep(1000);
    }
}

}  // namespace
