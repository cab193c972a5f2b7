// Starts a program and waits for it, as a wrapper should: signals for the program reach it, and its end is passed on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace npu::tools {

// Runs `command` with these variables added to the environment, and returns the exit status that a shell would show: the
// program's own, or 128 and the number of the signal that ended it. Errors: device_failure when it cannot be started.
Result<int> run_program(const std::vector<std::string>& command,
                        const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace npu::tools
