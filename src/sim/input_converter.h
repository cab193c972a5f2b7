// The converter on the way from memory to the on-chip buffer: lets a program read images of unsigned bytes, or subtract a
// zero point. Four sets of constants, channel c uses set c % 4 (an image has up to four channels). With x the input,
// signed or unsigned as DATA_SIGN says, and the order that CVT_TYPE says:
//
//   multiply first   y = round(x * scale >> truncate) + offset
//   add first        y = round((x + offset) * scale >> truncate)
//
// then saturated to the input format. CNA.CVT_CON5 has one bit per channel (c % 32) that switches it on. Programs known
// to use it read one-channel images: scale 2^14, truncate 14, offset -128, multiply first, all channels on; both orders
// give the same there. That the shift comes before the addition when multiplying first follows from that program (with
// the offset added before, it would change nothing) and from the output converter of the DPU, which is measured to work
// so. Which bit belongs to which channel beyond 32, and images proper (several channels packed in memory), no source
// tells.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/convolution.h"

namespace npu::sim {

// One input of channel `channel`; `value` is the bits in memory, sign-extended. Returns what the array sees.
std::int32_t convert_input(const InputConversion& conversion, unsigned bits, std::uint32_t channel, std::int32_t value);

// Converts all pixels in place. int8 and int16.
void convert_inputs(const Convolution& convolution, std::byte* pixels);

}  // namespace npu::sim
