#include "compile/task.h"

#include <algorithm>

#include "compile/stages.h"
#include "compile/tiling.h"
#include "compile/writer.h"

namespace npu::compile {

namespace reg = rockchip::reg;
using rockchip::atom_bytes;
using rockchip::info;

namespace {

// Strides of the feature fetch, in atoms.
struct FeatureStrides {
    bool single_line = false;  // GROUP_LINE_OFF
    std::uint32_t line = 0;
    std::int64_t surface = 0;
};

FeatureStrides feature_strides(const TaskSpec& spec, const PlaneSize& plane) {
    switch (spec.mapping) {
        case Mapping::native_tile:  // channel block s of pixel w at s*full_m + w
            return {true, spec.full_m, std::int64_t{spec.full_m} - spec.m};
        case Mapping::row_major:  // line h is a row; its channel blocks follow each other
            return {true, static_cast<std::uint32_t>(packed_bytes(spec.input, spec.full_k) / atom_bytes), 0};
        default:  // lines without gaps, channel block s at s*full_m: 4*W + surface = full_m
            return {false, 4 * plane.width, std::int64_t{spec.full_m} - 4 * std::int64_t{plane.width}};
    }
}

// Strides of the output: bytes, and the gap at the end of a line in atoms.
struct OutputStrides {
    std::uint64_t surface = 0;
    std::uint64_t group = 0;
    std::int64_t notch = 0;
};

// 16-byte surfaces of one kernel group in the output.
std::uint32_t surfaces_per_group(const TaskSpec& spec) {
    return info(spec.input).kernels_per_group * info(spec.output).bits / 8 / atom_bytes;
}

OutputStrides output_strides(const TaskSpec& spec) {
    const std::uint64_t surfaces = surfaces_per_group(spec);
    if (spec.output_arrangement == Arrangement::row_major) {
        const std::int64_t row_atoms = std::int64_t{spec.full_n} * info(spec.output).bits / 8 / atom_bytes;
        return {atom_bytes, surfaces * atom_bytes, row_atoms - 1};
    }
    // Surfaces of an image begin at multiples of four pixels.
    const std::uint64_t pixels = spec.mapping == Mapping::plane ? align_up<std::uint64_t>(spec.full_m, 4) : spec.full_m;
    return {pixels * atom_bytes, surfaces * pixels * atom_bytes, 0};
}

std::uint32_t code(Precision precision) { return static_cast<std::uint32_t>(precision); }

// What the register fields themselves cannot refuse.
Result<void> check_dimensions(const TaskSpec& spec, const ChipProfile& chip) {
    if (!builds(spec.input, spec.output)) {
        return make_error(ErrorCode::unsupported, "task from %s to %s: built are %s", info(spec.input).name,
                          info(spec.output).name, built_pairs);
    }
    const std::uint32_t group = info(spec.input).kernels_per_group;
    const std::uint32_t block = info(spec.input).channels_per_block;
    if (spec.m == 0 || spec.n == 0 || spec.k == 0 || spec.n % group != 0 || spec.k % block != 0) {
        return make_error(ErrorCode::invalid_argument,
                          "task of M=%u N=%u K=%u: %s needs N in multiples of %u and K in multiples of %u, none zero: "
                          "pad them",
                          spec.m, spec.n, spec.k, info(spec.input).name, group, block);
    }
    if (spec.k > chip.max_k || packed_bytes(spec.input, spec.k) > chip.max_bytes_per_kernel) {
        return make_error(ErrorCode::unsupported, "task of K=%u %s channels: at most %u channels and %u bytes: split K",
                          spec.k, info(spec.input).name, chip.max_k, chip.max_bytes_per_kernel);
    }
    if (spec.full_m < spec.m || (spec.mapping == Mapping::native_wide && spec.full_m != spec.m)) {
        return make_error(ErrorCode::invalid_argument, "task of %u rows in matrices of %u: %s", spec.m, spec.full_m,
                          spec.full_m < spec.m ? "they do not fit" : "some rows only need native_tile or native_tall");
    }
    if (spec.mapping == Mapping::plane &&
        (spec.plane_width == 0 || spec.m % spec.plane_width != 0 || spec.full_m % spec.plane_width != 0)) {
        return make_error(ErrorCode::invalid_argument, "plane of %u of %u pixels is not made of lines of %u", spec.m,
                          spec.full_m, spec.plane_width);
    }
    if (spec.mapping == Mapping::row_major && (spec.full_k < spec.k || spec.full_k % block != 0)) {
        return make_error(ErrorCode::invalid_argument, "row-major features with a pitch of %u channels for K=%u: %s",
                          spec.full_k, spec.k, "it must hold K and be a multiple of the channel block");
    }
    return {};
}

Result<void> check_output_and_banks(const TaskSpec& spec, const PlaneSize& plane, const ChipProfile& chip) {
    if (spec.output_arrangement == Arrangement::row_major) {
        if (plane.width != 1) {
            return make_error(ErrorCode::invalid_argument,
                              "row-major output of a plane %u pixels wide: use native_tall or row_major features",
                              plane.width);
        }
        if (spec.full_n < spec.n || spec.full_n % info(spec.input).kernels_per_group != 0) {
            return make_error(ErrorCode::invalid_argument, "row-major output with a pitch of %u channels for N=%u: %s",
                              spec.full_n, spec.n, "it must hold N and be a multiple of the kernel group");
        }
    }
    const PlanOptions no_spare{.int8_slack_bank = false};
    const std::uint32_t needed = data_banks(plane.width, plane.height, spec.k, spec.input, chip, no_spare);
    if (spec.data_banks < needed || spec.data_banks > chip.max_data_banks || spec.weight_banks == 0 ||
        spec.data_banks + spec.weight_banks > chip.cbuf_banks) {
        return make_error(ErrorCode::invalid_argument,
                          "task of M=%u K=%u with %u data and %u weight banks: its features need %u data banks of at "
                          "most %u, and there are %u banks in all: use smaller tiles",
                          spec.m, spec.k, spec.data_banks, spec.weight_banks, needed, chip.max_data_banks,
                          chip.cbuf_banks);
    }
    for (const std::uint64_t address : {spec.addresses.features, spec.addresses.weights, spec.addresses.output}) {
        if (address % atom_bytes != 0) {
            return make_error(ErrorCode::invalid_argument, "address 0x%llx is not a multiple of %u",
                              static_cast<unsigned long long>(address), atom_bytes);
        }
    }
    return {};
}

// What is known to add to partial sums beside the array.
Result<void> check_partial_sums(const TaskSpec& spec) {
    if (!spec.partial_sums) {
        return {};
    }
    if (spec.input != Precision::fp16 || spec.output != Precision::fp16 ||
        spec.output_arrangement != Arrangement::native || !spec.emit_rdma) {
        return make_error(ErrorCode::unsupported,
                          "task that adds partial sums from %s to %s: known from fp16 to fp16, in native order, with "
                          "DPU_RDMA (emit_rdma)",
                          info(spec.input).name, info(spec.output).name);
    }
    const std::uint64_t bytes = std::uint64_t{spec.full_m} * spec.n * sizeof(std::uint16_t);
    const std::uint64_t sums = *spec.partial_sums;
    const std::uint64_t output = spec.addresses.output;
    if (sums % atom_bytes != 0 || (sums < output ? output - sums : sums - output) < bytes) {
        return make_error(ErrorCode::invalid_argument,
                          "partial sums at 0x%llx, results at 0x%llx: they must be aligned to %u bytes and apart by "
                          "%llu, since adding in place corrupts: use two buffers in turn",
                          static_cast<unsigned long long>(sums), static_cast<unsigned long long>(output), atom_bytes,
                          static_cast<unsigned long long>(bytes));
    }
    return {};
}

std::int64_t as_value(std::uint64_t address) { return static_cast<std::int64_t>(address); }

void write_bank_split(CommandWriter& writer, const TaskSpec& spec) {
    writer.write({{reg::CNA::CBUF_CON0::WEIGHT_REUSE, spec.weight_reuse ? 1 : 0},
                  {reg::CNA::CBUF_CON0::DATA_REUSE, spec.data_reuse ? 1 : 0},
                  {reg::CNA::CBUF_CON0::WEIGHT_BANK, spec.weight_banks},
                  {reg::CNA::CBUF_CON0::DATA_BANK, spec.data_banks}});
}

void write_convolution_mode(CommandWriter& writer, const TaskSpec& spec, const FeatureStrides& strides) {
    writer.write({{reg::CNA::CONV_CON1::GROUP_LINE_OFF, strides.single_line ? 1 : 0},
                  {reg::CNA::CONV_CON1::PROC_PRECISION, code(spec.input)},
                  {reg::CNA::CONV_CON1::IN_PRECISION, code(spec.input)}});
}

void write_cna(CommandWriter& writer, const TaskSpec& spec, const PlaneSize& plane) {
    using namespace reg::CNA;
    const FeatureStrides strides = feature_strides(spec, plane);
    const auto kernel_bytes = static_cast<std::uint32_t>(packed_bytes(spec.input, spec.k));
    const std::uint32_t all_lines = std::min(plane.height + 1, CONV_CON2::FEATURE_GRAINS.maximum());
    const std::uint32_t grains = spec.feature_grains != 0 ? spec.feature_grains : all_lines;

    write_convolution_mode(writer, spec, strides);
    writer.write({{CONV_CON2::FEATURE_GRAINS, grains}});
    writer.write({{CONV_CON3::CONV_Y_STRIDE, 1}, {CONV_CON3::CONV_X_STRIDE, 1}});
    writer.write({{DATA_SIZE0::DATAIN_WIDTH, plane.width}, {DATA_SIZE0::DATAIN_HEIGHT, plane.height}});
    writer.write({{DATA_SIZE1::DATAIN_CHANNEL_REAL, spec.k - 1}, {DATA_SIZE1::DATAIN_CHANNEL, spec.k}});
    writer.write({{DATA_SIZE2::DATAOUT_WIDTH, plane.width}});
    writer.write({{DATA_SIZE3::DATAOUT_ATOMICS, spec.m}});
    writer.write({{WEIGHT_SIZE0::WEIGHT_BYTES, std::int64_t{spec.n} * kernel_bytes}});
    writer.write({{WEIGHT_SIZE1::WEIGHT_BYTES_PER_KERNEL, kernel_bytes}});
    writer.write(
        {{WEIGHT_SIZE2::WEIGHT_WIDTH, 1}, {WEIGHT_SIZE2::WEIGHT_HEIGHT, 1}, {WEIGHT_SIZE2::WEIGHT_KERNELS, spec.n}});
    write_bank_split(writer, spec);
    writer.write({{CBUF_CON1::DATA_ENTRIES, line_entries(plane.width, spec.k, spec.input)}});
    writer.write({{CVT_CON0::DATA_SIGN, 1}, {CVT_CON0::CVT_TYPE, 1}, {CVT_CON0::CVT_BYPASS, 1}});
    writer.write({{CVT_CON1::CVT_SCALE0, 1}});
    writer.write({{CVT_CON2::CVT_SCALE1, 1}});
    writer.write({{CVT_CON3::CVT_SCALE2, 1}});
    writer.write({{CVT_CON4::CVT_SCALE3, 1}});
    writer.zero(FC_CON0::offset);
    writer.zero(FC_CON1::offset);
    writer.zero(PAD_CON0::offset);
    writer.write({{FEATURE_DATA_ADDR::FEATURE_BASE_ADDR, as_value(spec.addresses.features)}});
    writer.zero(FC_CON2::offset);
    writer.write({{DMA_CON0::WEIGHT_BURST_LEN, 15}, {DMA_CON0::DATA_BURST_LEN, 15}});
    writer.write({{DMA_CON1::LINE_STRIDE, strides.line}});
    writer.write({{DMA_CON2::SURF_STRIDE, strides.surface, true}});
    writer.write({{FC_DATA_SIZE0::DMA_WIDTH, plane.width}, {FC_DATA_SIZE0::DMA_HEIGHT, plane.height}});
    writer.write({{FC_DATA_SIZE1::DMA_CHANNEL, spec.k}});
    writer.zero(DCOMP_CTRL::offset);
    writer.zero(DCOMP_REGNUM::offset);
    writer.write({{DCOMP_ADDR0::DECOMPRESS_ADDR0, as_value(spec.addresses.weights)}});
    writer.zero(DCOMP_AMOUNT0::offset, DCOMP_AMOUNT15::offset);
    writer.zero(CVT_CON5::offset);
    writer.zero(PAD_CON1::offset);
}

void write_core(CommandWriter& writer, const TaskSpec& spec, const PlaneSize& plane) {
    using namespace reg::CORE;
    writer.write({{MISC_CFG::PROC_PRECISION, code(spec.input)}, {MISC_CFG::QD_EN, spec.qd_en ? 1 : 0}});
    writer.write(
        {{DATAOUT_SIZE_0::DATAOUT_HEIGHT, plane.height - 1}, {DATAOUT_SIZE_0::DATAOUT_WIDTH, plane.width - 1}});
    writer.write({{DATAOUT_SIZE_1::DATAOUT_CHANNEL, spec.n - 1}});
    writer.zero(CLIP_TRUNCATE::offset);
    writer.zero(UNKNOWN_3030::offset);
}

// Every stage between the array and memory is bypassed; fp16 results are narrowed on the way out.
void write_dpu(CommandWriter& writer, const TaskSpec& spec, const PlaneSize& plane) {
    using namespace reg::DPU;
    const OutputStrides strides = output_strides(spec);
    const std::uint32_t size_e = surfaces_per_group(spec) - 1;
    const std::uint32_t array_code = info(spec.input).dpu_code;

    writer.write({{FEATURE_MODE_CFG::BURST_LEN, 15}, {FEATURE_MODE_CFG::OUTPUT_MODE, 2}});
    writer.write({{DATA_FORMAT::OUT_PRECISION, info(spec.output).dpu_code},
                  {DATA_FORMAT::IN_PRECISION, array_code},
                  {DATA_FORMAT::PROC_PRECISION, array_code}});
    writer.zero(OFFSET_PEND::offset);
    writer.write({{DST_BASE_ADDR::DST_BASE_ADDR, as_value(spec.addresses.output)}});
    writer.write({{DST_SURF_STRIDE::DST_SURF_STRIDE, as_value(strides.surface / atom_bytes)}});
    writer.write({{DATA_CUBE_WIDTH::WIDTH, plane.width - 1}});
    writer.write({{DATA_CUBE_HEIGHT::HEIGHT, plane.height - 1}});
    writer.write(
        {{DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_1, strides.notch}, {DATA_CUBE_NOTCH_ADDR::NOTCH_ADDR_0, strides.notch}});
    writer.write({{DATA_CUBE_CHANNEL::ORIG_CHANNEL, spec.n - 1}, {DATA_CUBE_CHANNEL::CHANNEL, spec.n - 1}});
    write_bypassed_bs(writer);
    writer.write({{BS_OW_CFG::SIZE_E_2, size_e},
                  {BS_OW_CFG::SIZE_E_1, size_e},
                  {BS_OW_CFG::SIZE_E_0, size_e},
                  {BS_OW_CFG::OD_BYPASS, 1}});
    writer.zero(BS_OW_OP::offset);
    writer.write({{WDMA_SIZE_0::CHANNEL_WDMA, spec.n - 1}});
    writer.write({{WDMA_SIZE_1::HEIGHT_WDMA, plane.height - 1}, {WDMA_SIZE_1::WIDTH_WDMA, plane.width - 1}});
    write_bypassed_bn(writer);
    if (spec.partial_sums) {  // added as fp32: the live converter widens them
        writer.write({{EW_CFG::EW_DATA_MODE, 1},
                      {EW_CFG::EDATA_SIZE, 2},
                      {EW_CFG::EW_ALU_ALGO, 2},
                      {EW_CFG::EW_RELU_BYPASS, 1},
                      {EW_CFG::EW_LUT_BYPASS, 1},
                      {EW_CFG::EW_OP_SRC, 1}});
    } else {
        writer.write({{EW_CFG::EW_RELU_BYPASS, 1},
                      {EW_CFG::EW_OP_CVT_BYPASS, 1},
                      {EW_CFG::EW_LUT_BYPASS, 1},
                      {EW_CFG::EW_OP_BYPASS, 1},
                      {EW_CFG::EW_BYPASS, 1}});
    }
    writer.zero(EW_CVT_OFFSET_VALUE::offset);
    writer.write({{EW_CVT_SCALE_VALUE::EW_OP_CVT_SCALE, 1}});
    writer.zero(EW_RELUX_CMP_VALUE::offset);
    writer.zero(OUT_CVT_OFFSET::offset);
    writer.write(
        {{OUT_CVT_SCALE::FP32TOFP16_EN, spec.output == Precision::fp16 ? 1 : 0}, {OUT_CVT_SCALE::OUT_CVT_SCALE, 1}});
    if (spec.output == Precision::fp16 && spec.input == Precision::int8) {
        writer.write({{OUT_CVT_SHIFT::CVT_TYPE, 1}, {OUT_CVT_SHIFT::MINUS_EXP, spec.result_shift}});
    } else {
        writer.write({{OUT_CVT_SHIFT::OUT_CVT_SHIFT, spec.result_shift}});
    }
    write_end_of_dpu(writer, as_value(strides.group / atom_bytes));
}

// Both readers off, or both at work on one operand: the main reader takes its even 16-byte surfaces, the other the odd ones,
// so that each steps over two. A program that leaves them as they reset hangs on the mainline driver.
void write_rdma(CommandWriter& writer, const TaskSpec& spec, const PlaneSize& plane) {
    using namespace reg::DPU_RDMA;
    writer.write({{DATA_CUBE_WIDTH::WIDTH, plane.width - 1}});
    writer.write({{DATA_CUBE_HEIGHT::HEIGHT, plane.height - 1}});
    writer.write({{DATA_CUBE_CHANNEL::CHANNEL, spec.n - 1}});
    const bool adds = spec.partial_sums.has_value();
    const std::uint64_t sums = spec.partial_sums.value_or(0);
    // Fields that count atoms. A plane of m of full_m pixels, and then the rest of two surfaces.
    const std::int64_t plane_atoms = adds ? spec.m : 0;
    const std::int64_t notch_atoms = adds ? 2 * std::int64_t{spec.full_m} - spec.m : 0;
    writer.write({{SRC_BASE_ADDR::SRC_BASE_ADDR, as_value(sums)}});
    writer.zero(BRDMA_CFG::offset);
    writer.zero(BS_BASE_ADDR::offset);
    writer.zero(NRDMA_CFG::offset);
    writer.zero(BN_BASE_ADDR::offset);
    writer.write({{ERDMA_CFG::ERDMA_DATA_MODE, adds ? 1 : 0},
                  {ERDMA_CFG::ERDMA_DATA_SIZE, adds ? 2 : 0},
                  {ERDMA_CFG::ERDMA_DISABLE, adds ? 0 : 1}});
    writer.write({{EW_BASE_ADDR::EW_BASE_ADDR, as_value(adds ? sums + std::uint64_t{spec.full_m} * atom_bytes : 0)}});
    writer.write({{EW_SURF_STRIDE::EW_SURF_STRIDE, plane_atoms}});
    writer.write({{FEATURE_MODE_CFG::IN_PRECISION, adds ? info(spec.output).dpu_code : 0},
                  {FEATURE_MODE_CFG::BURST_LEN, 15},
                  {FEATURE_MODE_CFG::COMB_USE, adds ? 5 : 0},
                  {FEATURE_MODE_CFG::PROC_PRECISION, adds ? info(spec.output).dpu_code : 0},
                  {FEATURE_MODE_CFG::MRDMA_DISABLE, adds ? 0 : 1},
                  {FEATURE_MODE_CFG::MRDMA_FP16TOFP32_EN, !adds && spec.output == Precision::fp16 ? 1 : 0}});
    writer.zero(SRC_DMA_CFG::offset);
    writer.write({{SURF_NOTCH::SURF_NOTCH_ADDR, notch_atoms}});
    writer.zero(PAD_CFG::offset);
    writer.write({{WEIGHT::E_WEIGHT, 1}, {WEIGHT::N_WEIGHT, 1}, {WEIGHT::B_WEIGHT, 1}, {WEIGHT::M_WEIGHT, 1}});
    writer.write({{EW_SURF_NOTCH::EW_SURF_NOTCH, notch_atoms}});
}

constexpr std::uint32_t words_plain = 104;
constexpr std::uint32_t words_preamble = 4;
constexpr std::uint32_t words_rdma = 18;

}  // namespace

bool builds(Precision input, Precision output) {
    switch (input) {
        case Precision::int8:
            return output == Precision::int32 || output == Precision::fp32 || output == Precision::int16 ||
                   output == Precision::fp16;
        case Precision::int4: return output == Precision::int16;
        case Precision::fp16: return output == Precision::fp32 || output == Precision::fp16;
        case Precision::bf16:
        case Precision::tf32: return output == Precision::fp32;
        default: return false;
    }
}

PlaneSize plane_size(const TaskSpec& spec) {
    switch (spec.mapping) {
        case Mapping::native_wide:
        case Mapping::native_tile: return {spec.m, 1};
        case Mapping::native_tall:
        case Mapping::row_major: return {1, spec.m};
        case Mapping::plane: return {spec.plane_width, spec.plane_width == 0 ? 0 : spec.m / spec.plane_width};
    }
    return {};
}

std::uint32_t body_words(bool vendor_preamble, bool emit_rdma) {
    return words_plain + (vendor_preamble ? words_preamble : 0) + (emit_rdma ? words_rdma : 0);
}

std::uint32_t enable_bits(const TaskSpec& spec) {
    return spec.emit_rdma ? rockchip::enable_convolution_rdma : rockchip::enable_convolution;
}

Result<std::vector<Command>> emit_task(const TaskSpec& spec, const ChipProfile& chip) {
    NPU_TRY(check_dimensions(spec, chip));
    const PlaneSize plane = plane_size(spec);
    NPU_TRY(check_output_and_banks(spec, plane, chip));
    NPU_TRY(check_partial_sums(spec));

    CommandWriter writer(body_words(spec.vendor_preamble, spec.emit_rdma));
    if (spec.vendor_preamble) {
        write_bank_split(writer, spec);
        writer.zero(reg::CNA::DCOMP_REGNUM::offset);
        writer.zero(reg::CNA::DCOMP_CTRL::offset);
        write_convolution_mode(writer, spec, feature_strides(spec, plane));
    }
    write_pointers(writer, spec.emit_rdma);
    write_cna(writer, spec, plane);
    write_core(writer, spec, plane);
    write_dpu(writer, spec, plane);
    if (spec.emit_rdma) {
        write_rdma(writer, spec, plane);
    }
    return writer.take();
}

}  // namespace npu::compile
