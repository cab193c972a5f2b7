#include "rockchip/checker_task.h"

#include <algorithm>
#include <iterator>

#include "base/integers.h"
#include "base/result.h"
#include "rockchip/checker_values.h"

namespace npu::rockchip::check {

namespace {

namespace cna = reg::CNA;
namespace core = reg::CORE;
namespace dpu = reg::DPU;
namespace rdma = reg::DPU_RDMA;

// Output formats that programs or published measurements have shown for each input format. The surfaces of a group
// follow: kernels per group x bytes of an output element / 16, which is SIZE_E + 1.
struct Pair {
    Precision input, output;
};
constexpr Pair pairs[] = {
    {Precision::fp16, Precision::fp16},  {Precision::fp16, Precision::fp32}, {Precision::bf16, Precision::fp32},
    {Precision::tf32, Precision::fp32},  {Precision::int8, Precision::int8}, {Precision::int8, Precision::int16},
    {Precision::int8, Precision::int32}, {Precision::int8, Precision::fp32}, {Precision::int16, Precision::int32},
    {Precision::int4, Precision::int16},
};

class TaskReader {
  public:
    TaskReader(const RegisterFile& file, std::uint32_t enable, const ChipProfile& chip, Findings& findings)
        : file_(file), enable_(enable), chip_(chip), findings_(findings) {}

    std::optional<Matmul> read() {
        if (!check_written(file_, enable_, findings_)) {
            return std::nullopt;
        }
        check_fixed_values(file_, enable_, findings_);
        if (!read_formats()) {
            return std::nullopt;
        }
        read_plane();
        read_channels();
        read_kernels();
        read_output_stage();
        read_addresses();
        if ((enable_ & enable_bit::dpu_rdma) != 0) {
            agree(rdma::DATA_CUBE_WIDTH::WIDTH, task_.width - 1, "output width - 1");
            agree(rdma::DATA_CUBE_HEIGHT::HEIGHT, task_.height - 1, "output height - 1");
            agree(rdma::DATA_CUBE_CHANNEL::CHANNEL, task_.kernels - 1, "N - 1");
        }
        const bool empty = task_.width == 0 || task_.height == 0 || task_.channels == 0 || task_.kernels == 0;
        return empty ? std::nullopt : std::optional<Matmul>(task_);
    }

  private:
    void refuse(const Field& field, const char* consequence, const std::string& why) {
        findings_.refuse(field.offset, file_.value(field.offset), consequence, why);
    }
    void warn(const Field& field, const char* consequence, const std::string& why) {
        findings_.warn(field.offset, file_.value(field.offset), consequence, why);
    }
    void agree(const Field& field, std::uint64_t expected, const char* what) {
        if (const std::uint32_t value = file_.of(field); value != expected) {
            refuse(field, consequence::corrupts,
                   format("%s is %u; %s is %llu by the task's other registers", field.name, value, what,
                          static_cast<unsigned long long>(expected)));
        }
    }

    bool read_formats();
    void read_plane();
    void read_channels();
    void read_kernels();
    void read_output_stage();
    void read_converter();
    void read_addresses();
    void aligned(const Field& field);

    const RegisterFile& file_;
    std::uint32_t enable_;
    const ChipProfile& chip_;
    Findings& findings_;
    Matmul task_;
};

bool TaskReader::read_formats() {
    const std::uint32_t code = file_.of(cna::CONV_CON1::IN_PRECISION);
    const std::optional<Precision> input = precision_from_cna_code(code);
    if (!input) {
        refuse(cna::CONV_CON1::IN_PRECISION, consequence::corrupts,
               format("input precision code %u means nothing", code));
        return false;
    }
    task_.input = *input;
    const PrecisionInfo& in = info(*input);
    const std::size_t before = findings_.refusals();
    agree(cna::CONV_CON1::PROC_PRECISION, code, "the input precision code");
    agree(core::MISC_CFG::PROC_PRECISION, code, "the input precision code");
    agree(dpu::DATA_FORMAT::IN_PRECISION, in.dpu_code, "the DPU's code for the input precision");
    agree(dpu::DATA_FORMAT::PROC_PRECISION, in.dpu_code, "the DPU's code for the input precision");

    const std::uint32_t out_code = file_.of(dpu::DATA_FORMAT::OUT_PRECISION);
    const std::optional<Precision> output = precision_from_dpu_code(out_code);
    const bool known = output && std::any_of(std::begin(pairs), std::end(pairs), [&](const Pair& pair) {
                           return pair.input == *input && pair.output == *output;
                       });
    if (!known) {
        refuse(dpu::DATA_FORMAT::OUT_PRECISION, consequence::not_understood,
               format("output precision code %u after %s input was seen in no program", out_code, in.name));
        return false;
    }
    task_.output = *output;
    task_.surfaces_per_group = std::uint32_t{in.kernels_per_group} * info(*output).bits / 8 / atom_bytes;
    return findings_.refusals() == before;
}

void TaskReader::read_plane() {
    const auto extent = [&](const Field& field) {
        const std::uint32_t value = file_.of(field);
        if (value == 0) {
            refuse(field, consequence::hangs, format("%s is 0", field.name));
        }
        return value;
    };
    task_.width = extent(cna::DATA_SIZE0::DATAIN_WIDTH);
    task_.height = extent(cna::DATA_SIZE0::DATAIN_HEIGHT);
    const std::uint32_t width = task_.width;
    const std::uint32_t height = task_.height;
    agree(cna::FC_DATA_SIZE0::DMA_WIDTH, width, "input width");
    agree(cna::FC_DATA_SIZE0::DMA_HEIGHT, height, "input height");
    agree(cna::DATA_SIZE2::DATAOUT_WIDTH, width, "output width");
    agree(cna::DATA_SIZE3::DATAOUT_ATOMICS, std::uint64_t{width} * height, "width x height");
    agree(core::DATAOUT_SIZE_0::DATAOUT_WIDTH, width - 1, "output width - 1");
    agree(core::DATAOUT_SIZE_0::DATAOUT_HEIGHT, height - 1, "output height - 1");
    agree(dpu::DATA_CUBE_WIDTH::WIDTH, width - 1, "output width - 1");
    agree(dpu::DATA_CUBE_HEIGHT::HEIGHT, height - 1, "output height - 1");
    agree(dpu::WDMA_SIZE_1::WIDTH_WDMA, width - 1, "output width - 1");
    agree(dpu::WDMA_SIZE_1::HEIGHT_WDMA, height - 1, "output height - 1");
    if (width > chip_.max_extent || height > chip_.max_extent) {
        refuse(cna::DATA_SIZE0::DATAIN_WIDTH, consequence::corrupts,
               format("plane %ux%u; the chip's fields end at %u", width, height, chip_.max_extent));
    }
    if (file_.of(cna::CONV_CON2::FEATURE_GRAINS) == 0) {
        refuse(cna::CONV_CON2::FEATURE_GRAINS, consequence::not_understood,
               "FEATURE_GRAINS is 0; every program writes at least 2, and too small a value corrupts some K");
    }
}

void TaskReader::read_channels() {
    const std::uint32_t channels = file_.of(cna::DATA_SIZE1::DATAIN_CHANNEL);
    const PrecisionInfo& in = info(task_.input);
    task_.channels = channels;
    if (channels == 0) {
        refuse(cna::DATA_SIZE1::DATAIN_CHANNEL, consequence::hangs, "K is 0");
        return;
    }
    agree(cna::FC_DATA_SIZE1::DMA_CHANNEL, channels, "K");
    const std::uint32_t real = file_.of(cna::DATA_SIZE1::DATAIN_CHANNEL_REAL);
    if (real != channels - 1 && real != ((channels - 1) & 63U)) {  // vendor convolutions keep the low six bits only
        refuse(cna::DATA_SIZE1::DATAIN_CHANNEL_REAL, consequence::corrupts,
               format("DATAIN_CHANNEL_REAL is %u; K - 1 is %u", real, channels - 1));
    }
    if (channels % in.channels_per_block != 0) {
        refuse(cna::DATA_SIZE1::DATAIN_CHANNEL, consequence::corrupts,
               format("K %u is no multiple of %u for %s; the chip does not mask the rest", channels,
                      in.channels_per_block, in.name));
    }
    if (channels > chip_.max_k) {
        refuse(cna::DATA_SIZE1::DATAIN_CHANNEL, consequence::corrupts,
               format("K %u exceeds %u, the most that sources verified", channels, chip_.max_k));
    }
    if (channels > chip_.hazard_k_low && channels < chip_.hazard_k_high && task_.width * task_.height > 4) {
        warn(cna::DATA_SIZE1::DATAIN_CHANNEL, consequence::hangs,
             format("K %u lies between %u and %u, where two sources saw failures and timeouts with more than 4 rows",
                    channels, chip_.hazard_k_low, chip_.hazard_k_high));
    }
    if (task_.input == Precision::tf32 && channels > 4096) {
        warn(cna::DATA_SIZE1::DATAIN_CHANNEL, consequence::corrupts,
             format("K %u; tf32 was verified up to 4096", channels));
    }
    if (task_.input == Precision::int4 && channels > 511) {  // 64 x 512 = 32768
        warn(cna::DATA_SIZE1::DATAIN_CHANNEL, consequence::corrupts,
             format("K %u; int16 sums of int4 products saturate from 512 on for the largest values", channels));
    }
    const std::uint64_t pixels = std::uint64_t{task_.width} * task_.height;
    task_.feature_bytes = ceil_div<std::uint64_t>(pixels * channels * in.bits, 8);
}

void TaskReader::read_kernels() {
    const std::uint32_t kernels = file_.of(cna::WEIGHT_SIZE2::WEIGHT_KERNELS);
    const PrecisionInfo& in = info(task_.input);
    task_.kernels = kernels;
    if (kernels == 0) {
        refuse(cna::WEIGHT_SIZE2::WEIGHT_KERNELS, consequence::hangs, "N is 0");
        return;
    }
    agree(core::DATAOUT_SIZE_1::DATAOUT_CHANNEL, kernels - 1, "N - 1");
    agree(dpu::DATA_CUBE_CHANNEL::CHANNEL, kernels - 1, "N - 1");
    agree(dpu::DATA_CUBE_CHANNEL::ORIG_CHANNEL, kernels - 1, "N - 1");
    agree(dpu::WDMA_SIZE_0::CHANNEL_WDMA, kernels - 1, "N - 1");
    if (kernels > chip_.max_n) {
        refuse(cna::WEIGHT_SIZE2::WEIGHT_KERNELS, consequence::corrupts,
               format("N %u exceeds %u, where the DPU's channel fields end", kernels, chip_.max_n));
    } else if (kernels - 1 == dpu::DATA_CUBE_CHANNEL::CHANNEL.maximum()) {
        warn(dpu::DATA_CUBE_CHANNEL::CHANNEL, consequence::corrupts,
             "CHANNEL is at the field's maximum 8191, which corrupts a tail in some passes");
    }
    if (kernels % in.kernels_per_group != 0) {
        refuse(cna::WEIGHT_SIZE2::WEIGHT_KERNELS,
               task_.input == Precision::int8 && task_.output == Precision::int8 ? consequence::hangs
                                                                                 : consequence::corrupts,
               format("N %u is no multiple of the kernel group %u of %s; pad with zero kernels", kernels,
                      in.kernels_per_group, in.name));
    }
    const std::uint64_t per_kernel = ceil_div<std::uint64_t>(std::uint64_t{task_.channels} * in.bits, 8);
    task_.weight_bytes = per_kernel * kernels;
    agree(cna::WEIGHT_SIZE1::WEIGHT_BYTES_PER_KERNEL, per_kernel, "K x element size");
    agree(cna::WEIGHT_SIZE0::WEIGHT_BYTES, task_.weight_bytes, "N x bytes per kernel");
    if (per_kernel > chip_.max_bytes_per_kernel) {
        refuse(cna::WEIGHT_SIZE1::WEIGHT_BYTES_PER_KERNEL, consequence::corrupts,
               format("%llu bytes per kernel; at most %u", static_cast<unsigned long long>(per_kernel),
                      chip_.max_bytes_per_kernel));
    }
}

void TaskReader::read_output_stage() {
    const std::uint32_t expected = task_.surfaces_per_group - 1;
    for (const Field& size : {dpu::BS_OW_CFG::SIZE_E_0, dpu::BS_OW_CFG::SIZE_E_1, dpu::BS_OW_CFG::SIZE_E_2}) {
        if (const std::uint32_t value = file_.of(size); value != expected) {
            refuse(size, task_.input == Precision::int16 ? consequence::hangs : consequence::corrupts,
                   format("%s is %u; %s to %s has %u surfaces in a group, so it must be %u", size.name, value,
                          info(task_.input).name, info(task_.output).name, task_.surfaces_per_group, expected));
            break;
        }
    }
    if (file_.of(dpu::BS_OW_CFG::OD_BYPASS) == 0 &&
        (file_.of(dpu::BS_OW_CFG::OW_SRC) != 0 || file_.value(dpu::BS_OW_OP::offset) != 0)) {
        refuse(dpu::BS_OW_CFG::OD_BYPASS, consequence::not_understood,
               "the weight zero-point stage is live with an operand; bypass it (OD_BYPASS) or write BS_OW_OP 0");
    }
    const std::uint32_t notch = file_.of(dpu::DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_0);
    agree(dpu::DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_1, notch, "NOTCH_ADDR_0");
    task_.output_notch = notch;
    read_converter();
}

void TaskReader::read_converter() {
    namespace scale = dpu::OUT_CVT_SCALE;
    const bool narrow = file_.of(scale::FP32TOFP16_EN) != 0;
    if (narrow != (task_.output == Precision::fp16)) {
        refuse(scale::FP32TOFP16_EN, narrow ? consequence::not_understood : consequence::hangs,
               narrow ? format("FP32TOFP16_EN with %s output", info(task_.output).name)
                      : std::string("fp16 output without FP32TOFP16_EN"));
    }
    const bool requantises =
        task_.input == Precision::int8 && (task_.output == Precision::int8 || task_.output == Precision::int16);
    const std::uint32_t factor = file_.of(scale::OUT_CVT_SCALE);
    if (file_.of(dpu::OUT_CVT_SHIFT::CVT_TYPE) != 0 || file_.of(dpu::OUT_CVT_SHIFT::MINUS_EXP) != 0) {
        refuse(dpu::OUT_CVT_SHIFT::CVT_TYPE, consequence::not_understood, "float scaling of the output");
    }
    if (requantises) {
        if (factor == 0) {
            refuse(scale::OUT_CVT_SCALE, consequence::corrupts, "output scale 0 makes every result the offset");
        }
        return;
    }
    const bool ignored = factor == 0 && task_.output == Precision::fp32;  // published: works, so fp32 ignores it
    if (factor != 1 && !ignored) {
        refuse(scale::OUT_CVT_SCALE, consequence::not_understood,
               format("output scale %u; only int8 and int16 results of int8 are scaled, others take 1", factor));
    }
    if (file_.value(dpu::OUT_CVT_SHIFT::offset) != 0) {
        refuse(dpu::OUT_CVT_SHIFT::OUT_CVT_SHIFT, consequence::not_understood,
               "output shift; only int8 and int16 results of int8 are shifted");
    }
    if (file_.value(dpu::OUT_CVT_OFFSET::offset) != 0) {
        refuse(dpu::OUT_CVT_OFFSET::OUT_CVT_OFFSET, consequence::not_understood,
               "output offset; only int8 and int16 results of int8 have one");
    }
}

void TaskReader::aligned(const Field& field) {
    if (const std::uint32_t value = file_.value(field.offset); value % atom_bytes != 0) {
        refuse(field, consequence::corrupts, format("%s is no multiple of 16 bytes", field.name));
    }
}

void TaskReader::read_addresses() {
    aligned(cna::FEATURE_DATA_ADDR::FEATURE_BASE_ADDR);
    aligned(cna::DCOMP_ADDR0::DECOMPRESS_ADDR0);
    aligned(dpu::DST_BASE_ADDR::DST_BASE_ADDR);
    task_.single_line = file_.of(cna::CONV_CON1::GROUP_LINE_OFF) != 0;
    task_.line_stride = file_.of(cna::DMA_CON1::LINE_STRIDE);
    const Field& surface = cna::DMA_CON2::SURF_STRIDE;
    const std::int64_t raw = file_.of(surface);
    const std::int64_t span = static_cast<std::int64_t>(surface.maximum()) + 1;
    task_.surface_stride = raw >= span / 2 ? raw - span : raw;  // two's complement in 28 bits
    task_.feature_address = file_.value(cna::FEATURE_DATA_ADDR::offset);
    task_.weight_address = file_.value(cna::DCOMP_ADDR0::offset);
    task_.output_address = file_.value(dpu::DST_BASE_ADDR::offset);
    task_.output_surface_stride = file_.value(dpu::DST_SURF_STRIDE::offset);
    task_.output_group_stride = file_.value(dpu::SURFACE_ADD::offset);
    task_.cbuf_con0 = file_.value(cna::CBUF_CON0::offset);
    task_.cbuf_con1 = file_.value(cna::CBUF_CON1::offset);
    if (!task_.single_line && task_.height < 4 && task_.height > 0 && task_.surface_stride == 0 &&
        task_.channels > channels_per_atom(task_.input)) {
        // Published as "height < 4 is broken": the generator clamped the negative stride that short planes need.
        warn(surface, consequence::corrupts,
             format("surface stride 0 with %u lines in groups of four: channel blocks are read %u atoms apart; a dense "
                    "plane needs %lld",
                    task_.height, 4 * task_.width,
                    static_cast<long long>(task_.width) * (static_cast<long long>(task_.height) - 4)));
    }
}

}  // namespace

std::optional<Matmul> read_matmul(const RegisterFile& file, std::uint32_t enable, const ChipProfile& chip,
                                  Findings& findings) {
    return TaskReader(file, enable, chip, findings).read();
}

}  // namespace npu::rockchip::check
