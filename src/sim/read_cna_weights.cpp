// Reader of the CNA registers that describe the weights.
#include <algorithm>

#include "sim/read_cna_parts.h"
#include "sim/weight_decompressor.h"

namespace npu::sim {

namespace reg = rockchip::reg;
using rockchip::Precision;

namespace {

void read_compression(RegisterCheck& check, Convolution& convolution) {
    using namespace reg::CNA;
    // A program for dense weights has to write 0: an earlier compressed task leaves it on.
    const std::uint32_t control = known_bits(check, DCOMP_CTRL::offset, DCOMP_CTRL::DECOMP_CONTROL(1).value,
                                             "0 (dense) and 1 (compressed) are the known values");
    convolution.compressed = DCOMP_CTRL::DECOMP_CONTROL.of(control) == 1;
    if (!convolution.compressed) {
        return;
    }
    constexpr std::uint32_t known_codec = 0x55555555;
    const std::uint32_t codec = check.read(DCOMP_REGNUM::offset);
    if (codec != known_codec) {
        check.judge.refuse_register(Severity::unmodelled, DCOMP_REGNUM::offset, codec,
                                    "compressed weights are known with 0x%x only", known_codec);
    }
    if (convolution.input != Precision::int8 || convolution.depthwise) {
        check.judge.refuse_register(Severity::unmodelled, DCOMP_CTRL::offset, control,
                                    "compressed weights are known for direct int8 convolutions only");
    }
    if (convolution.channels % 32 != 0 || convolution.kernels % 32 != 0) {
        check.judge.refuse_register(
            Severity::corrupt, DCOMP_CTRL::offset, control,
            "compressed weights come in tiles of 32 kernels x 32 channels, and there are %u x %u", convolution.kernels,
            convolution.channels);
    }
    if (convolution.weight_address % 64 != 0) {
        check.judge.refuse_register(Severity::corrupt, DCOMP_ADDR0::offset,
                                    static_cast<std::uint32_t>(convolution.weight_address),
                                    "compressed weights start at a multiple of 64");
    }
    for (std::size_t lane = 0; lane < compressed_lanes; ++lane) {
        const auto offset = static_cast<std::uint16_t>(DCOMP_AMOUNT0::offset + 4 * lane);
        const std::uint32_t amount = check.read(offset);
        if (amount > 0x00ffffff) {
            check.judge.stop(Severity::hang, "%s: a lane of that many blocks is larger than the address window",
                             register_text(offset, amount).c_str());
        }
        convolution.lane_blocks[lane] = (amount & 0x00ffffff) + 1;
    }
    convolution.weight_memory_bytes = compressed_bytes(convolution.lane_blocks);
}

void check_sizes(RegisterCheck& check, const rockchip::ChipProfile& chip, const Convolution& convolution) {
    using namespace reg::CNA;
    // Every matmul program has exactly these; for windows no source says that silicon minds.
    const bool product = convolution.positions() == 1 && !convolution.depthwise && !convolution.compressed;
    const auto compare = [&](std::uint16_t offset, std::uint64_t wanted, const char* why) {
        const std::uint32_t value = check.read(offset);
        if (value == wanted) {
            return;
        }
        if (product) {
            check.judge.refuse_register(Severity::hang, offset, value, "must be 0x%llx: %s",
                                        static_cast<unsigned long long>(wanted), why);
        } else {
            check.judge.warn("%s should be 0x%llx: %s", register_text(offset, value).c_str(),
                             static_cast<unsigned long long>(wanted), why);
        }
    };
    const std::uint64_t kernel_bytes = convolution.kernel_bytes();
    compare(WEIGHT_SIZE1::offset, kernel_bytes, "bytes per kernel are K times the window times the element size");
    compare(WEIGHT_SIZE0::offset, convolution.weight_bytes, "weight bytes are N times the bytes per kernel");
    const std::uint32_t value = check.read(WEIGHT_SIZE1::offset);
    if (kernel_bytes > WEIGHT_SIZE1::WEIGHT_BYTES_PER_KERNEL.maximum()) {
        check.judge.stop(Severity::corrupt, "%s: %llu bytes per kernel do not fit 19 bits; larger values wrap silently",
                         register_text(WEIGHT_SIZE1::offset, value).c_str(),
                         static_cast<unsigned long long>(kernel_bytes));
    } else if (kernel_bytes > chip.max_bytes_per_kernel && product) {
        check.judge.refuse_register(Severity::corrupt, WEIGHT_SIZE1::offset, value,
                                    "a kernel may have at most %u bytes", chip.max_bytes_per_kernel);
    } else if (kernel_bytes > chip.max_bytes_per_kernel && !convolution.depthwise) {
        check.judge.warn("%llu bytes per kernel: published matrix products have at most %u",
                         static_cast<unsigned long long>(kernel_bytes), chip.max_bytes_per_kernel);
    }
}

}  // namespace

void read_weights(RegisterCheck& check, const rockchip::ChipProfile& chip, Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t shape = known_bits(check, WEIGHT_SIZE2::offset, 0x1f1f3fff, "unknown bits");
    convolution.kernel_width = WEIGHT_SIZE2::WEIGHT_WIDTH.of(shape);
    convolution.kernel_height = WEIGHT_SIZE2::WEIGHT_HEIGHT.of(shape);
    convolution.kernels = WEIGHT_SIZE2::WEIGHT_KERNELS.of(shape);
    if (convolution.kernel_width == 0 || convolution.kernel_height == 0 || convolution.kernels == 0) {
        check.judge.stop(Severity::hang, "%s: N = %u kernels of %u x %u have no weights",
                         register_text(WEIGHT_SIZE2::offset, shape).c_str(), convolution.kernels,
                         convolution.kernel_width, convolution.kernel_height);
    }
    if (convolution.kernels > chip.max_n) {
        check.judge.refuse_register(Severity::corrupt, WEIGHT_SIZE2::offset, shape,
                                    "N = %u is more than %u: published as silently wrong", convolution.kernels,
                                    chip.max_n);
    } else if (convolution.kernels == chip.max_n && convolution.input == Precision::fp16) {
        check.judge.warn("fp16 with N = %u: published to be right itself and to make the next int8 task time out",
                         convolution.kernels);
    }
    if (convolution.depthwise && convolution.kernels != 1) {
        check.judge.warn(
            "CNA.WEIGHT_SIZE2 = 0x%08x: a depthwise convolution counts as one kernel in known programs, not "
            "%u",
            shape, convolution.kernels);
        convolution.kernels = 1;
    }
    convolution.weight_address = check.only(DCOMP_ADDR0::offset, ~0xfU, "addresses are multiples of 16");
    convolution.weight_bytes = convolution.kernel_bytes() * convolution.kernels;
    convolution.weight_memory_bytes = convolution.weight_bytes;
    read_compression(check, convolution);
    check_sizes(check, chip, convolution);
}

}  // namespace npu::sim
