#include "compile/limits.h"

namespace npu::compile {

using rockchip::info;

Limits limits(const MatmulShape& shape, std::uint32_t cores, const ChipProfile& chip,
              const rockchip::Conditions& conditions) {
    const double m = shape.m;
    const double n = shape.n;
    const double k = shape.k;
    const double rate = chip.macs_per_cycle(shape.input) * conditions.clock_hz * cores;
    const double bits = (m * k + n * k) * info(shape.input).bits + m * n * info(shape.output).bits;
    const double bandwidth = chip.timing.shared_bytes_per_second * conditions.memory_hz / chip.timing.memory_hz;
    return {rate == 0 ? 0 : m * n * k / rate, bits / 8 / bandwidth};
}

}  // namespace npu::compile
