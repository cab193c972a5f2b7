#include "gemm/descriptor_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace npu::gemm {

namespace {

std::uint64_t raise() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        log(LogLevel::warning, "the limit of open files is not known: %s", std::strerror(errno));
        return 0;
    }
    const rlim_t before = limit.rlim_cur;
    if (before < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            log(LogLevel::warning, "the limit of open files stays at %llu: %s; raise it with `ulimit -n`",
                static_cast<unsigned long long>(before), std::strerror(errno));
            return before;
        }
    }
    log(LogLevel::info, "limit of open files: %llu (was %llu)", static_cast<unsigned long long>(limit.rlim_cur),
        static_cast<unsigned long long>(before));
    return limit.rlim_cur;
}

}  // namespace

std::uint64_t raise_descriptor_limit() {
    static const std::uint64_t reached = raise();
    return reached;
}

}  // namespace npu::gemm
