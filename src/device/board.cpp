#include "device/board.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace npu::device {

Result<const rockchip::ChipProfile*> board_chip(const std::string& compatible_path) {
    std::ifstream file(compatible_path, std::ios::binary);
    std::string compatible{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::replace(compatible.begin(), compatible.end(), '\0', ' ');  // the property is a list of C strings
    if (compatible.find("rockchip,rk3588") != std::string::npos) {
        return &rockchip::rk3588();
    }
    return make_error(ErrorCode::unsupported,
                      "the board calls itself '%s' (%s); only the RK3588 family is supported so far. "
                      "GGML_NPU_DEVICE=simulated uses the NPU in software",
                      compatible.empty() ? "nothing" : compatible.c_str(), compatible_path.c_str());
}

}  // namespace npu::device
