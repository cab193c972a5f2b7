// What the readers of the CNA and CORE registers share. Not for others.
#pragma once

#include "sim/convolution.h"
#include "sim/register_check.h"

namespace npu::sim {

// Bits of a register that no known program sets and no source explains.
std::uint32_t known_bits(RegisterCheck& check, std::uint16_t offset, std::uint32_t known, const char* why);

// Bits beside a field: a value too large for it has spilled, and silicon works with what is left.
std::uint32_t unspilled(RegisterCheck& check, std::uint16_t offset, std::uint32_t fields, const char* why);

// A register that is 0 in nearly every program and that published hardware-tested programs leave unwritten: they live on
// its value after reset. Never written it counts as 0, with a warning, because silicon would use what an earlier client
// left there.
std::uint32_t zero_if_unwritten(RegisterCheck& check, std::uint16_t offset);

void read_features(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution);
void read_window(RegisterCheck& check, Convolution& convolution, const CnaReadings& readings);
void read_conversion(RegisterCheck& check, Convolution& convolution);
void read_weights(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution);

}  // namespace npu::sim
