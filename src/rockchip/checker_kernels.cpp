// The kernels of a convolution: how many, how large, in which memory. Weights come as one run of bytes, kernel group by
// kernel group; a compressed run consists of sixteen lanes, each padded to 64 bytes.
#include <algorithm>

#include "base/integers.h"
#include "base/result.h"
#include "rockchip/checker_convolution.h"

namespace npu::rockchip::check {

namespace {

namespace cna = reg::CNA;
namespace core = reg::CORE;
namespace dpu = reg::DPU;

// Kernels that do not fill their last group are sound when the rest of the program counts whole groups and
// ORIG_CHANNEL says how many are real (an open driver does this); otherwise the last group is wrong or never ends.
void check_partial_group(const Reader& reader, const Convolution& task) {
    const std::uint32_t original = reader.of(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL) + 1;
    const bool padded = reader.of(core::DATAOUT_SIZE_1::DATAOUT_CHANNEL) + 1 == task.output_channels;
    const bool real = original == task.kernels || original + 1 == task.kernels;  // kernels may be rounded up to even
    if (padded && real) {
        return;
    }
    const bool requantised =
        task.input == Precision::int8 && reader.of(dpu::DATA_FORMAT::OUT_PRECISION) == info(Precision::int8).dpu_code;
    reader.refuse(
        cna::WEIGHT_SIZE2::WEIGHT_KERNELS, requantised ? consequence::hangs : consequence::corrupts, source::measured,
        format("N %u is no multiple of the kernel group %u of %s; pad with zero kernels, or count %u channels "
               "and name the real ones in ORIG_CHANNEL",
               task.kernels, task.group, info(task.input).name, task.output_channels));
}

void read_number(const Reader& reader, Convolution& task) {
    const Field& field = cna::WEIGHT_SIZE2::WEIGHT_KERNELS;
    const std::uint32_t kernels = reader.of(field);
    task.kernels = kernels;
    if (kernels == 0) {
        reader.refuse(field, consequence::hangs, source::inferred, "N is 0");
        return;
    }
    if (task.depthwise) {
        reader.agree(field, 1, "the number of kernels in a depthwise convolution");
        task.output_channels = align_up(task.channels, task.group);
    } else {
        task.output_channels = align_up(kernels, task.group);
    }
    const std::uint32_t last = task.output_channels - 1;
    if (!task.depthwise && kernels % task.group != 0) {
        check_partial_group(reader, task);
    } else if (reader.of(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL) > last || !task.depthwise) {
        reader.agree(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL, last, "N - 1");
    }
    reader.agree(core::DATAOUT_SIZE_1::DATAOUT_CHANNEL, last, "N in whole kernel groups, minus 1,");
    if (task.output_channels > reader.chip.max_n) {
        reader.refuse(
            field, consequence::corrupts, source::measured,
            format("N %u exceeds %u, where the DPU's channel fields end", task.output_channels, reader.chip.max_n));
    }
}

// Compressed weights: the one codec that is published, for int8 in whole tiles of 32 x 32.
void read_compression(const Reader& reader, Convolution& task) {
    const Field& control = cna::DCOMP_CTRL::DECOMP_CONTROL;
    task.stored_weight_bytes = task.weight_bytes;
    reader.unexplained(cna::DCOMP_CTRL::WT_DEC_BYPASS, "0 in every program");
    const std::uint32_t mode = reader.of(control);
    constexpr std::uint16_t first = cna::DCOMP_AMOUNT0::offset;
    constexpr std::uint16_t last = cna::DCOMP_AMOUNT15::offset;
    if (mode == 0) {
        if (reader.file.written(cna::DCOMP_REGNUM::offset)) {
            reader.unexplained(cna::DCOMP_REGNUM::DCOMP_REGNUM, "DCOMP_CTRL says that there are no compressed weights");
        }
        for (std::uint16_t offset = first; offset <= last; offset += 4) {
            if (reader.file.written(offset) && reader.value(offset) != 0) {
                reader.findings.refuse(offset, reader.value(offset), consequence::not_understood, source::none,
                                       "a lane of compressed weights, but DCOMP_CTRL says that there are none");
            }
        }
        return;
    }
    if (mode != 1 || reader.value(cna::DCOMP_REGNUM::offset) != 0x55555555) {
        reader.refuse(
            control, consequence::not_understood, source::none,
            format("compressed weights with control %u and DCOMP_REGNUM 0x%08x; the published codec has 1 and "
                   "0x55555555",
                   mode, reader.value(cna::DCOMP_REGNUM::offset)));
        return;
    }
    const bool tiles = task.input == Precision::int8 && !task.depthwise && task.kernel_bytes == task.channels &&
                       task.channels % 32 == 0 && task.kernels % 32 == 0;
    if (!tiles) {
        reader.refuse(control, consequence::not_understood, source::none,
                      "compressed weights; the published codec is for int8 matmuls in tiles of 32 channels and 32 "
                      "kernels");
    }
    if (task.weight_address % 64 != 0) {
        reader.refuse(cna::DCOMP_ADDR0::DECOMPRESS_ADDR0, consequence::corrupts, source::measured,
                      "compressed weights begin at a multiple of 64 bytes");
    }
    std::uint64_t bytes = 0;
    for (std::uint16_t offset = first; offset <= last; offset += 4) {
        const std::uint64_t blocks = std::uint64_t{reader.value(offset)} + 1;
        bytes += align_up<std::uint64_t>(16 * blocks, 64);
        if (blocks < 8) {
            reader.findings.refuse(offset, reader.value(offset), consequence::corrupts, source::measured,
                                   format("a lane of %llu blocks; it has at least 8 of 16 bytes",
                                          static_cast<unsigned long long>(blocks)));
        }
    }
    task.stored_weight_bytes = bytes;
}

void check_integer_range(const Reader& reader, const Convolution& task) {
    const std::uint64_t products = 2 * task.kernel_bytes;   // per result
    if (task.input == Precision::int4 && products > 511) {  // 64 x 512 = 32768
        reader.warn(cna::DATA_SIZE1::DATAIN_CHANNEL, consequence::corrupts, source::measured,
                    format("K %llu; int16 sums of int4 products saturate from 512 on for the largest values",
                           static_cast<unsigned long long>(products)));
    }
    // What ran on hardware: up to 512 rows, 4096 kernels, features in eight banks. Wider int4 tasks sometimes never began.
    if (task.input == Precision::int4 && (task.width * task.height > 512 || task.kernels > 4096 ||
                                          task.feature_bytes > std::uint64_t{8} * reader.chip.cbuf_bank_bytes)) {
        reader.warn(
            cna::WEIGHT_SIZE2::WEIGHT_KERNELS, consequence::hangs, source::measured,
            format("int4 with %u rows, %u kernels and %llu bytes of features; tasks of up to 512 rows, 4096 "
                   "kernels and eight banks ran on hardware, wider ones sometimes never began",
                   task.width * task.height, task.kernels, static_cast<unsigned long long>(task.feature_bytes)));
    }
}

}  // namespace

void read_kernels(const Reader& reader, Convolution& task) {
    task.weight_address = reader.value(cna::DCOMP_ADDR0::offset);
    read_number(reader, task);
    if (task.kernels == 0) {
        return;
    }
    const std::uint64_t taps =
        std::uint64_t{reader.of(cna::WEIGHT_SIZE2::WEIGHT_WIDTH)} * reader.of(cna::WEIGHT_SIZE2::WEIGHT_HEIGHT);
    task.kernel_bytes = ceil_div<std::uint64_t>(taps * task.channels * info(task.input).bits, 8);
    task.weight_bytes = task.kernel_bytes * task.kernels;
    reader.agree(cna::WEIGHT_SIZE1::WEIGHT_BYTES_PER_KERNEL, task.kernel_bytes, "kernel plane x K x element size");
    reader.agree(cna::WEIGHT_SIZE0::WEIGHT_BYTES, task.weight_bytes, "N x bytes per kernel");
    if (task.kernel_bytes > reader.chip.max_bytes_per_kernel) {
        reader.refuse(cna::WEIGHT_SIZE1::WEIGHT_BYTES_PER_KERNEL, consequence::corrupts, source::programs,
                      format("%llu bytes per kernel; at most %u were verified",
                             static_cast<unsigned long long>(task.kernel_bytes), reader.chip.max_bytes_per_kernel));
    }
    check_integer_range(reader, task);
    read_compression(reader, task);
}

}  // namespace npu::rockchip::check
