// `npu doctor --fix` and `--undo`: writes settings that a restart forgets anyway, and takes them back. What stood in each file
// is kept in a state file before the first byte is written, so that an interrupted run can be undone; a second run keeps the
// oldest values. A file that somebody else changed since is left alone. The state lies in /run, which a restart empties, too.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "device/board_root.h"
#include "doctor_check.h"

namespace npu::tools {

inline constexpr const char* fix_state_file = "/run/ggml-npu-doctor.json";

struct Change {
    std::string file, from, to;
};

// Applies settings, files in this order. Returns what was written; errors name the file and the reason, and leave in the
// state file what was changed before.
Result<std::vector<Change>> apply_settings(const device::BoardRoot& root, const std::vector<Setting>& settings);

struct Undone {
    std::vector<Change> taken_back;
    std::vector<Change> left;  // changed by somebody else; `from` is what stands there
};

// Error not_found when there is nothing to undo.
Result<Undone> undo(const device::BoardRoot& root);

}  // namespace npu::tools
