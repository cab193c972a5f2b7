#include "sim/pooling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/float_bits.h"
#include "rockchip/chip.h"

namespace npu::sim {

namespace {

namespace reg = rockchip::reg;

constexpr std::uint64_t atom = rockchip::atom_bytes;
constexpr std::uint32_t atom_channels = 8;  // fp16

Extent extent_of(const PoolingCube& cube, std::uint32_t surfaces) {
    if (surfaces == 0 || cube.width == 0 || cube.height == 0) {
        return {static_cast<std::int64_t>(cube.address), static_cast<std::int64_t>(cube.address)};
    }
    const std::uint64_t reach =
        (surfaces - 1) * cube.surface_bytes + (cube.height - 1) * cube.line_bytes + cube.width * atom;
    return {static_cast<std::int64_t>(cube.address), static_cast<std::int64_t>(cube.address + reach)};
}

double reciprocal_of(std::uint32_t field, std::uint32_t extent, ReciprocalFormat format) {
    if (extent == 1) {
        return 1;
    }
    const double value = format == ReciprocalFormat::integer
                             ? field
                             : static_cast<double>(half_to_float(static_cast<std::uint16_t>(field)));
    return value / 65536;
}

void read_formats(RegisterCheck& check, const Pooling& pooling) {
    using namespace reg::PPU;
    const std::uint32_t format = check.only(DATA_FORMAT::offset, DATA_FORMAT::PROC_PRECISION(7).value,
                                            "index output and data that fly in from the DPU are not modelled");
    const std::uint32_t precision = DATA_FORMAT::PROC_PRECISION.of(format);
    const bool one_by_one = pooling.kernel_width == 1 && pooling.kernel_height == 1;
    constexpr std::uint32_t fp16 = 2;
    if (precision != fp16 && !one_by_one) {
        check.judge.refuse_register(Severity::corrupt, DATA_FORMAT::offset, format,
                                    "precision %u: measured to take the data as fp16 whatever their format is",
                                    precision);
    }
    namespace rdma = reg::PPU_RDMA;
    const std::uint32_t source = check.read(rdma::DATA_FORMAT::offset);
    if (rdma::DATA_FORMAT::IN_PRECISION.of(source) != (precision & 3U)) {
        check.judge.refuse_register(Severity::hang, rdma::DATA_FORMAT::offset, source,
                                    "the PPU's precision is %u: the two blocks must agree", precision);
    }
}

void read_window(RegisterCheck& check, Pooling& pooling, ReciprocalFormat format) {
    using namespace reg::PPU;
    const std::uint32_t mode = check.read(OPERATION_MODE_CFG::offset);
    const std::uint32_t method = OPERATION_MODE_CFG::POOLING_METHOD.of(mode);
    if (method > 2) {
        check.judge.refuse_register(Severity::unmodelled, OPERATION_MODE_CFG::offset, mode,
                                    "method %u has no known meaning (0 average, 1 maximum, 2 minimum)", method);
    }
    pooling.method = static_cast<PoolingMethod>(std::min(method, 2U));
    if (OPERATION_MODE_CFG::FLYING_MODE.of(mode) == 0) {
        check.judge.refuse_register(Severity::hang, OPERATION_MODE_CFG::offset, mode,
                                    "FLYING_MODE = 0 takes data from the DPU, which was not started with it");
    }
    if (OPERATION_MODE_CFG::INDEX_EN.of(mode) != 0 || OPERATION_MODE_CFG::USE_CNT.of(mode) != 0) {
        check.judge.refuse_register(Severity::unmodelled, OPERATION_MODE_CFG::offset, mode,
                                    "INDEX_EN and USE_CNT: no source says what they do");
    }
    const std::uint32_t kernel = check.read(POOLING_KERNEL_CFG::offset);
    pooling.kernel_width = POOLING_KERNEL_CFG::KERNEL_WIDTH.of(kernel) + 1;
    pooling.kernel_height = POOLING_KERNEL_CFG::KERNEL_HEIGHT.of(kernel) + 1;
    pooling.stride_x = POOLING_KERNEL_CFG::KERNEL_STRIDE_WIDTH.of(kernel) + 1;
    pooling.stride_y = POOLING_KERNEL_CFG::KERNEL_STRIDE_HEIGHT.of(kernel) + 1;
    const std::uint32_t padding = check.read(POOLING_PADDING_CFG::offset);
    pooling.pad_left = POOLING_PADDING_CFG::PAD_LEFT.of(padding);
    pooling.pad_top = POOLING_PADDING_CFG::PAD_TOP.of(padding);
    if (padding != 0) {
        pooling.pad_value = static_cast<std::uint16_t>(check.read(PADDING_VALUE_1_CFG::offset));
    }
    if (pooling.method == PoolingMethod::average) {
        pooling.reciprocal = reciprocal_of(check.read(RECIP_KERNEL_WIDTH::offset), pooling.kernel_width, format) *
                             reciprocal_of(check.read(RECIP_KERNEL_HEIGHT::offset), pooling.kernel_height, format);
    }
    // What the windows of the last output line and column reach must be inside the input and its padding.
    const auto reaches = [](std::uint32_t outputs, std::uint32_t stride, std::uint32_t extent) {
        return (outputs - 1) * stride + extent;
    };
    const std::uint32_t wide = pooling.input.width + pooling.pad_left + POOLING_PADDING_CFG::PAD_RIGHT.of(padding);
    const std::uint32_t high = pooling.input.height + pooling.pad_top + POOLING_PADDING_CFG::PAD_BOTTOM.of(padding);
    if (reaches(pooling.output.width, pooling.stride_x, pooling.kernel_width) > wide ||
        reaches(pooling.output.height, pooling.stride_y, pooling.kernel_height) > high) {
        check.judge.refuse_register(Severity::corrupt, POOLING_KERNEL_CFG::offset, kernel,
                                    "windows of the %u x %u outputs reach beyond the padded input of %u x %u",
                                    pooling.output.width, pooling.output.height, wide, high);
    }
}

void read_cubes(RegisterCheck& check, Pooling& pooling) {
    using namespace reg::PPU;
    namespace rdma = reg::PPU_RDMA;
    const auto extent = [&check](std::uint16_t offset) {
        const std::uint32_t value = check.only(offset, 0x1fff, "cube fields have 13 bits");
        if (value == 0x1fff) {
            check.judge.refuse_register(Severity::corrupt, offset, value,
                                        "the largest value of a cube field is measured to corrupt");
        }
        return (value & 0x1fffU) + 1;
    };
    pooling.input.width = extent(DATA_CUBE_IN_WIDTH::offset);
    pooling.input.height = extent(DATA_CUBE_IN_HEIGHT::offset);
    pooling.output.width = extent(DATA_CUBE_OUT_WIDTH::offset);
    pooling.output.height = extent(DATA_CUBE_OUT_HEIGHT::offset);
    const std::uint32_t channels = extent(DATA_CUBE_IN_CHANNEL::offset);
    pooling.surfaces = (channels + atom_channels - 1) / atom_channels;
    const char* disagree = "the two blocks disagree about the input cube";
    check.expect(DATA_CUBE_OUT_CHANNEL::offset, channels - 1, Severity::corrupt, "pooling keeps the channels");
    check.expect(rdma::CUBE_IN_WIDTH::offset, pooling.input.width - 1, Severity::hang, disagree);
    check.expect(rdma::CUBE_IN_HEIGHT::offset, pooling.input.height - 1, Severity::hang, disagree);
    check.expect(rdma::CUBE_IN_CHANNEL::offset, channels - 1, Severity::hang, disagree);

    pooling.input.address = check.only(rdma::SRC_BASE_ADDR::offset, ~0xfU, "addresses are multiples of 16");
    pooling.input.line_bytes = check.only(rdma::SRC_LINE_STRIDE::offset, ~0xfU, "strides are multiples of 16");
    pooling.input.surface_bytes = check.only(rdma::SRC_SURF_STRIDE::offset, ~0xfU, "strides are multiples of 16");
    pooling.output.address = check.only(DST_BASE_ADDR::offset, ~0xfU, "addresses are multiples of 16");
    pooling.output.surface_bytes = check.only(DST_SURF_STRIDE::offset, ~0xfU, "strides are multiples of 16");
    const std::uint64_t notch = OPERATION_MODE_CFG::NOTCH_ADDR.of(check.read(OPERATION_MODE_CFG::offset));
    pooling.output.line_bytes = (pooling.output.width + notch) * atom;
}

class Window {
  public:
    explicit Window(PoolingMethod method) : method_(method) {
        value_ = method == PoolingMethod::average   ? 0.0
                 : method == PoolingMethod::maximum ? -std::numeric_limits<double>::infinity()
                                                    : std::numeric_limits<double>::infinity();
    }
    void add(std::uint16_t half) {
        const double value = half_to_float(half);
        switch (method_) {
            case PoolingMethod::average: value_ += value; break;
            case PoolingMethod::maximum: value_ = std::isnan(value) || value > value_ ? value : value_; break;
            case PoolingMethod::minimum: value_ = std::isnan(value) || value < value_ ? value : value_; break;
        }
    }
    [[nodiscard]] std::uint16_t result(double reciprocal) const {
        const double scaled = method_ == PoolingMethod::average ? value_ * reciprocal : value_;
        return float_to_half(static_cast<float>(scaled));
    }

  private:
    PoolingMethod method_;
    double value_;
};

}  // namespace

std::uint64_t Pooling::bytes_read() const { return std::uint64_t{input.width} * input.height * surfaces * atom; }
std::uint64_t Pooling::bytes_written() const { return std::uint64_t{output.width} * output.height * surfaces * atom; }

Pooling read_pooling(RegisterCheck& check, ReciprocalFormat format) {
    Pooling pooling;
    read_cubes(check, pooling);
    read_window(check, pooling, format);
    read_formats(check, pooling);
    check.only(reg::PPU::MISC_CTRL::offset, reg::PPU::MISC_CTRL::BURST_LEN(15).value,
               "only the burst length is understood");
    return pooling;
}

MemoryAccess pooling_reads(const Pooling& pooling) {
    return {extent_of(pooling.input, pooling.surfaces), "pooling inputs", reg::PPU_RDMA::SRC_BASE_ADDR::offset};
}

MemoryAccess pooling_writes(const Pooling& pooling) {
    return {extent_of(pooling.output, pooling.surfaces), "pooled outputs", reg::PPU::DST_BASE_ADDR::offset};
}

void run_pooling(const Pooling& pooling, const Memory& memory) {
    const std::byte* source = memory.from(pooling.input.address).data();
    std::byte* destination = memory.from(pooling.output.address).data();
    const auto inside = [](std::int64_t position, std::uint32_t extent) {
        return position >= 0 && position < std::int64_t{extent};
    };
    for (std::uint32_t s = 0; s < pooling.surfaces; ++s) {
        const std::byte* in = source + s * pooling.input.surface_bytes;
        std::byte* out = destination + s * pooling.output.surface_bytes;
        for (std::uint32_t oy = 0; oy < pooling.output.height; ++oy) {
            for (std::uint32_t ox = 0; ox < pooling.output.width; ++ox) {
                std::array<Window, atom_channels> windows{
                    Window(pooling.method), Window(pooling.method), Window(pooling.method), Window(pooling.method),
                    Window(pooling.method), Window(pooling.method), Window(pooling.method), Window(pooling.method)};
                for (std::uint32_t ky = 0; ky < pooling.kernel_height; ++ky) {
                    for (std::uint32_t kx = 0; kx < pooling.kernel_width; ++kx) {
                        const std::int64_t y = std::int64_t{oy} * pooling.stride_y + ky - pooling.pad_top;
                        const std::int64_t x = std::int64_t{ox} * pooling.stride_x + kx - pooling.pad_left;
                        std::array<std::uint16_t, atom_channels> values;
                        values.fill(pooling.pad_value);
                        if (inside(y, pooling.input.height) && inside(x, pooling.input.width)) {
                            std::memcpy(values.data(),
                                        in + y * static_cast<std::int64_t>(pooling.input.line_bytes) +
                                            x * static_cast<std::int64_t>(atom),
                                        atom);
                        }
                        for (std::uint32_t c = 0; c < atom_channels; ++c) {
                            windows[c].add(values[c]);
                        }
                    }
                }
                std::array<std::uint16_t, atom_channels> results;
                for (std::uint32_t c = 0; c < atom_channels; ++c) {
                    results[c] = windows[c].result(pooling.reciprocal);
                }
                std::memcpy(out + oy * pooling.output.line_bytes + ox * atom, results.data(), atom);
            }
        }
    }
}

}  // namespace npu::sim
