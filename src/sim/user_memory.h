// Arguments that a client passes by pointer, read and written the way a kernel does: a bad pointer makes the call fail
// with EFAULT and does nothing else. The simulated kernel lives in the client's own process, where following a bad
// pointer would end it, so the host's kernel is asked to copy: by process_vm_readv() on ourselves, or, where that call
// does not exist (user-mode emulators), through a pipe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::sim {

// Both return false where a kernel would answer EFAULT; a part may have been copied then. Thread-safe.
[[nodiscard]] bool copy_from_user(void* to, std::uint64_t user, std::size_t bytes);
[[nodiscard]] bool copy_to_user(std::uint64_t user, const void* from, std::size_t bytes);

}  // namespace npu::sim
