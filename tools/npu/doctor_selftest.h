// `npu doctor --self-test`: multiplies small matrices on the NPU in each number format, with one core, then two, then three, and
// compares with sums in double precision. That is how a driver or a core shows that answers promptly and wrongly: zeros in fp16
// under an old driver, a core that does not come back. Operands are whole numbers of which each row holds the largest, so
// int8 loses nothing and has to be exact; fp16 and bf16 may differ by the order of sums; formats of 4 bits choose their scales
// and lose some. All have K over several tiles where their tiles are short.
#pragma once

#include <string>

#include "device/board_facts.h"
#include "doctor_check.h"

namespace npu::tools {

// `device`: real, simulated or simulated-rocket (the NPU in software behind either driver, with GGML_NPU_SIM_FAULTS). A
// real one is not touched while another process uses it.
Finding self_test(const std::string& device, const device::BoardFacts& facts);

}  // namespace npu::tools
