#include "commands.h"

namespace npu::tools {

void add_disasm(CLI::App&) {}

}  // namespace npu::tools
