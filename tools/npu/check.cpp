#include "commands.h"

namespace npu::tools {

void add_check(CLI::App&) {}

}  // namespace npu::tools
