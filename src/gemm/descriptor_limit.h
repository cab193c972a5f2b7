// How many files a process may have open. Runtimes that give every buffer and every context a file descriptor run out of
// the usual 1024 with the weights of a small model, and then fail with messages about memory (reported by users of the
// vendor's runtime, errno 24). A process may raise its own soft limit up to the hard one.
#pragma once

#include <cstdint>

namespace npu::gemm {

// Raises the soft limit of this process to its hard limit, the first time it is called, and logs what was reached. Returns
// the limit that holds; 0 when it is not known. Never fails: a limit that stays low shows when it is hit. Thread-safe.
std::uint64_t raise_descriptor_limit();

}  // namespace npu::gemm
