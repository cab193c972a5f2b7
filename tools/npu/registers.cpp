#include "commands.h"

namespace npu::tools {

void add_registers(CLI::App&) {}

}  // namespace npu::tools
