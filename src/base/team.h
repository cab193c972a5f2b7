// Work that several threads of the host do at once. Rooms that have such work take a team from whoever owns the
// threads, so that a process has one set of them.
#pragma once

#include <functional>

namespace npu {

// Called with 0 to count - 1, from one thread each.
using TeamWork = std::function<void(unsigned index, unsigned count)>;

// Calls the work once for every thread of the team and returns when all have returned. The work must not throw.
using Team = std::function<void(const TeamWork& work)>;

// The team of the calling thread alone.
inline void work_alone(const TeamWork& work) { work(0, 1); }

}  // namespace npu
