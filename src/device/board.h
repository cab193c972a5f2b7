// Which chip this board carries, read from the device tree. A driver's node does not tell: the vendor's driver
// serves several chips with incompatible register layouts.
#pragma once

#include <string>

#include "base/result.h"
#include "rockchip/chip.h"

namespace npu::device {

// Profile of the chip that the device tree names. Errors: unsupported, with what the tree says and what is known.
Result<const rockchip::ChipProfile*> board_chip(const std::string& compatible_path = "/proc/device-tree/compatible");

}  // namespace npu::device
