#include "commands.h"

namespace npu::tools {

void add_asm(CLI::App&) {}

}  // namespace npu::tools
