#include "sim/user_memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace npu::sim {

namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

enum class Outcome { copied, fault, unavailable };

Outcome transfer(Transfer call, void* own, std::uint64_t user, std::size_t bytes) {
    const iovec local{.iov_base = own, .iov_len = bytes};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that only the kernel follows
    const iovec remote{.iov_base = reinterpret_cast<void*>(user), .iov_len = bytes};
    const ssize_t copied = call(::getpid(), &local, 1, &remote, 1, 0);
    if (copied < 0 && errno != EFAULT) {
        return Outcome::unavailable;
    }
    return copied == static_cast<ssize_t>(bytes) ? Outcome::copied : Outcome::fault;
}

// Copies through a pipe, whose ends fail with EFAULT at a bad address.
bool copy_through_pipe(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
    constexpr std::size_t piece = 4096;  // a pipe always holds a page
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    bool good = true;
    for (std::size_t done = 0; good && done < bytes;) {
        const std::size_t count = std::min(piece, bytes - done);
        // NOLINTBEGIN(performance-no-int-to-ptr)
        const ssize_t in = ::write(ends[1], reinterpret_cast<const void*>(from + done), count);
        const ssize_t out = in > 0 ? ::read(ends[0], reinterpret_cast<void*>(to + done), in) : -1;
        // NOLINTEND(performance-no-int-to-ptr)
        good = in > 0 && out == in;
        done += good ? static_cast<std::size_t>(in) : 0;
    }
    ::close(ends[0]);
    ::close(ends[1]);
    return good;
}

}  // namespace

bool copy_from_user(void* to, std::uint64_t user, std::size_t bytes) {
    if (bytes == 0) {
        return true;
    }
    const Outcome outcome = transfer(::process_vm_readv, to, user, bytes);
    return outcome == Outcome::unavailable ? copy_through_pipe(reinterpret_cast<std::uintptr_t>(to), user, bytes)
                                           : outcome == Outcome::copied;
}

bool copy_to_user(std::uint64_t user, const void* from, std::size_t bytes) {
    if (bytes == 0) {
        return true;
    }
    const Outcome outcome = transfer(::process_vm_writev, const_cast<void*>(from), user, bytes);
    return outcome == Outcome::unavailable ? copy_through_pipe(user, reinterpret_cast<std::uintptr_t>(from), bytes)
                                           : outcome == Outcome::copied;
}

}  // namespace npu::sim
