#include "commands.h"

namespace npu::tools {

void add_sim(CLI::App&) {}

}  // namespace npu::tools
