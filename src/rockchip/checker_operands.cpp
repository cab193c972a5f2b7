#include "rockchip/checker_operands.h"

#include <algorithm>

#include "base/integers.h"
#include "base/result.h"

namespace npu::rockchip::check {

namespace {

namespace rdma = reg::DPU_RDMA;
namespace mode = reg::DPU_RDMA::FEATURE_MODE_CFG;
namespace erdma = reg::DPU_RDMA::ERDMA_CFG;
namespace ew = reg::DPU::EW_CFG;

constexpr std::uint32_t combined = 5;       // COMB_USE: MRDMA and ERDMA read one operand
constexpr std::uint32_t least_pixels = 12;  // of a combined operand
constexpr std::uint32_t per_channel = 0;    // data modes
constexpr std::uint32_t per_element = 1;

class OperandReaders {
  public:
    OperandReaders(const Reader& reader, const Pipeline& pipeline, const ElementWise& element_wise,
                   std::vector<Operand>& operands)
        : reader_(reader), pipeline_(pipeline), element_wise_(element_wise), operands_(operands) {}

    void check() {
        check_common();
        if (pipeline_.flying()) {
            check_main();
        } else {
            check_beside_array();
        }
        if (element_wise_.operand_from_memory) {
            check_element_operand();
        } else if (!reader_.is_set(erdma::ERDMA_DISABLE)) {
            reader_.refuse(erdma::ERDMA_DISABLE, consequence::hangs, source::measured,
                           format("ERDMA is left enabled in %s and is never fed",
                                  pipeline_.flying() ? "a task whose EW stage takes no operand" : "a plain matmul"));
        }
    }

  private:
    void check_common();
    void check_main();
    void check_beside_array();
    void check_combined();
    void check_element_operand();
    void add(const Field& base, std::int64_t surfaces, std::int64_t pitch, std::int64_t line, const char* name);

    [[nodiscard]] bool main_enabled() const { return !reader_.is_set(mode::MRDMA_DISABLE); }
    [[nodiscard]] std::uint32_t data_mode() const { return reader_.of(erdma::ERDMA_DATA_MODE); }
    [[nodiscard]] std::int64_t element_bits() const { return std::int64_t{4} << reader_.of(erdma::ERDMA_DATA_SIZE); }
    [[nodiscard]] std::int64_t main_line() const {
        return 16 * (std::int64_t{pipeline_.width} + reader_.of(rdma::SRC_DMA_CFG::LINE_NOTCH_ADDR));
    }
    [[nodiscard]] std::int64_t main_pitch() const {
        return pipeline_.height * main_line() + reader_.value(rdma::SURF_NOTCH::offset);
    }
    [[nodiscard]] std::int64_t element_pitch() const {
        return std::int64_t{reader_.value(rdma::EW_SURF_STRIDE::offset)} + reader_.value(rdma::EW_SURF_NOTCH::offset);
    }
    [[nodiscard]] std::int64_t surfaces_of(std::int64_t bits) const {
        return ceil_div<std::int64_t>(pipeline_.channels * bits, 8 * atom_bytes);
    }

    const Reader& reader_;
    const Pipeline& pipeline_;
    const ElementWise& element_wise_;
    std::vector<Operand>& operands_;
};

void OperandReaders::check_common() {
    reader_.agree(rdma::DATA_CUBE_WIDTH::WIDTH, std::uint64_t{pipeline_.width} - 1, "output width - 1");
    reader_.agree(rdma::DATA_CUBE_HEIGHT::HEIGHT, std::uint64_t{pipeline_.height} - 1, "output height - 1");
    reader_.agree(rdma::DATA_CUBE_CHANNEL::CHANNEL, std::uint64_t{pipeline_.channels} - 1, "output channels - 1");
    for (const Field& field :
         {rdma::SRC_DMA_CFG::POOLING_METHOD, rdma::SRC_DMA_CFG::UNPOOLING_EN, rdma::SRC_DMA_CFG::KERNEL_STRIDE_HEIGHT,
          rdma::SRC_DMA_CFG::KERNEL_STRIDE_WIDTH, rdma::SRC_DMA_CFG::KERNEL_HEIGHT, rdma::SRC_DMA_CFG::KERNEL_WIDTH}) {
        reader_.unexplained(field, "unpooling of the operand");
    }
    for (const Field& field : {rdma::PAD_CFG::PAD_VALUE, rdma::PAD_CFG::PAD_TOP, rdma::PAD_CFG::PAD_LEFT}) {
        reader_.unexplained(field, "padding of the operand reader");
    }
    for (const Field& field : {erdma::ERDMA_SURF_MODE, erdma::ERDMA_NONALIGN, erdma::OV4K_BYPASS}) {
        reader_.unexplained(field, "0 in every program");
    }
    const bool depthwise = !pipeline_.flying() && pipeline_.convolution->depthwise;
    if (const std::uint32_t kind = reader_.of(mode::CONV_MODE); kind != 0 && !(depthwise && kind == 3)) {
        reader_.refuse(mode::CONV_MODE, consequence::not_understood, source::none,
                       format("CONV_MODE %u of the operand reader; 0, or 3 in a depthwise convolution", kind));
    }
}

// Flying: the main operand takes the place of the array.
void OperandReaders::check_main() {
    if (!main_enabled()) {
        reader_.refuse(mode::MRDMA_DISABLE, consequence::hangs, source::inferred,
                       "flying mode without its main operand: MRDMA is disabled");
        return;
    }
    if (!reader_.is_set(mode::FLYING_MODE)) {
        reader_.refuse(mode::FLYING_MODE, consequence::not_understood, source::programs,
                       "the DPU flies and DPU_RDMA does not; every program sets both");
    }
    reader_.agree(mode::IN_PRECISION, info(pipeline_.input).dpu_code, "the DPU's input precision");
    reader_.agree(mode::PROC_PRECISION, info(pipeline_.input).dpu_code, "the DPU's input precision");
    const std::uint32_t combination = reader_.of(mode::COMB_USE);
    if ((combination & 1U) != 0) {
        reader_.refuse(mode::COMB_USE, consequence::hangs, source::measured,
                       format("COMB_USE %u in flying mode; with bit 0 set the task never completes", combination));
    } else if (combination != 0 && combination != 4) {
        reader_.refuse(mode::COMB_USE, consequence::not_understood, source::none,
                       format("COMB_USE %u in flying mode; known: 0 and 4", combination));
    }
    add(rdma::SRC_BASE_ADDR::SRC_BASE_ADDR, surfaces_of(info(pipeline_.input).bits), main_pitch(), main_line(),
        "main operands");
}

void OperandReaders::check_beside_array() {
    if (reader_.is_set(mode::FLYING_MODE)) {
        reader_.refuse(mode::FLYING_MODE, consequence::not_understood, source::none,
                       "DPU_RDMA flies beside the array; no program has this");
    }
    const std::uint32_t combination = reader_.of(mode::COMB_USE);
    const bool takes = element_wise_.operand_from_memory && data_mode() != per_channel;
    if (takes && main_enabled() && combination == combined) {
        check_combined();
        return;
    }
    if (takes) {
        const bool narrow = pipeline_.width == 1;
        reader_.refuse(mode::COMB_USE, narrow ? consequence::hangs : consequence::not_understood,
                       narrow ? source::measured : source::none,
                       format("an element-wise operand beside the array comes through MRDMA and ERDMA together "
                              "(COMB_USE 5); here COMB_USE is %u and MRDMA is %s",
                              combination, main_enabled() ? "on" : "off"));
        return;
    }
    if (main_enabled()) {
        reader_.refuse(mode::MRDMA_DISABLE, consequence::hangs, source::measured,
                       "MRDMA is left enabled in a plain matmul and is never fed");
    }
    if (combination != 0) {
        reader_.refuse(mode::COMB_USE, consequence::not_understood, source::none,
                       format("combined operands (COMB_USE %u) without an element-wise operand", combination));
    }
}

// One operand of the output's shape: MRDMA reads surfaces 0, 2, 4 ..., ERDMA 1, 3, 5 ...
void OperandReaders::check_combined() {
    const std::uint32_t precision = reader_.of(mode::IN_PRECISION);
    const std::optional<Precision> operand = precision_from_dpu_code(precision);
    // Beside float sums an operand of their format; beside integer sums one of any integer format.
    const bool fits = operand && info(*operand).floating == pipeline_.floating() &&
                      (!pipeline_.floating() || *operand == pipeline_.output || *operand == pipeline_.input);
    if (!fits || info(*operand).bits != element_bits()) {
        reader_.refuse(mode::IN_PRECISION, consequence::corrupts, source::programs,
                       format("the operand has precision code %u for MRDMA, and ERDMA reads elements of %lld bits; the "
                              "result is %s",
                              precision, static_cast<long long>(element_bits()), info(pipeline_.output).name));
    }
    reader_.agree(mode::PROC_PRECISION, precision, "the operand's precision code");
    const std::int64_t surfaces = surfaces_of(element_bits());
    for (const Field& gap : {rdma::SURF_NOTCH::SURF_NOTCH_ADDR, rdma::EW_SURF_NOTCH::EW_SURF_NOTCH}) {
        if (surfaces > 2 && !reader_.is_set(gap)) {
            reader_.refuse(gap, consequence::corrupts, source::measured,
                           format("%s is 0: each reader must skip the other's surface, or the first atom is used for "
                                  "all",
                                  gap.name));
        }
    }
    // They read alternate surfaces, so they must step equally far.
    if (surfaces > 2 && main_pitch() != element_pitch()) {
        reader_.refuse(rdma::EW_SURF_STRIDE::EW_SURF_STRIDE, consequence::corrupts, source::inferred,
                       format("MRDMA steps %lld bytes from one of its surfaces to the next and ERDMA %lld; they read "
                              "alternate surfaces of one operand",
                              static_cast<long long>(main_pitch()), static_cast<long long>(element_pitch())));
    } else if (pipeline_.pixels() < least_pixels) {
        reader_.warn(rdma::EW_SURF_STRIDE::EW_SURF_STRIDE, consequence::corrupts, source::measured,
                     format("an element-wise operand of %u pixels; from %u on one project found it right",
                            pipeline_.pixels(), least_pixels));
    }
    add(rdma::SRC_BASE_ADDR::SRC_BASE_ADDR, (surfaces + 1) / 2, main_pitch(), main_line(), "element-wise operands");
}

void OperandReaders::check_element_operand() {
    if (reader_.is_set(erdma::ERDMA_DISABLE)) {
        reader_.refuse(erdma::ERDMA_DISABLE, consequence::hangs, source::measured,
                       "the element-wise stage (EW) waits for an operand, and ERDMA is disabled");
        return;
    }
    reader_.agree(ew::EDATA_SIZE, reader_.of(erdma::ERDMA_DATA_SIZE), "ERDMA's element size");
    if (reader_.of(ew::EW_DATA_MODE) != data_mode()) {
        reader_.warn(ew::EW_DATA_MODE, consequence::not_understood, source::programs,
                     format("EW_DATA_MODE is %u and ERDMA_DATA_MODE %u; they agree in every program known whole",
                            reader_.of(ew::EW_DATA_MODE), data_mode()));
    }
    const Field& base = rdma::EW_BASE_ADDR::EW_BASE_ADDR;
    switch (data_mode()) {
        case per_channel: {
            if (!element_wise_.multiplies && pipeline_.pixels() > 1) {
                reader_.refuse(erdma::ERDMA_DATA_MODE, consequence::corrupts, source::measured,
                               "one operand per channel can be multiplied, not added");
            }
            const std::int64_t address = reader_.value(base.offset);
            const std::int64_t bytes = ceil_div<std::int64_t>(pipeline_.channels * element_bits(), 8);
            operands_.push_back({{address, address + bytes}, base, "per-channel operands"});
            return;
        }
        case per_element: {
            const std::int64_t line =
                16 * (std::int64_t{pipeline_.width} + reader_.of(rdma::DATA_CUBE_HEIGHT::EW_LINE_NOTCH_ADDR));
            const std::int64_t surfaces = surfaces_of(element_bits());
            add(base, pipeline_.flying() ? surfaces : surfaces / 2, element_pitch(), line, "element-wise operands");
            return;
        }
        default:
            reader_.refuse(erdma::ERDMA_DATA_MODE, consequence::hangs, source::measured,
                           format("ERDMA_DATA_MODE %u; 2 and 3 never complete", data_mode()));
    }
}

void OperandReaders::add(const Field& base, std::int64_t surfaces, std::int64_t pitch, std::int64_t line,
                         const char* name) {
    const std::int64_t address = reader_.value(base.offset);
    if (address % atom_bytes != 0) {
        reader_.refuse(base, consequence::corrupts, source::manual, format("%s is no multiple of 16 bytes", base.name));
    }
    if (surfaces == 0) {
        return;
    }
    const std::int64_t last_line = (std::int64_t{pipeline_.height} - 1) * line + 16 * std::int64_t{pipeline_.width};
    // Adding in place works in flying mode, where a result replaces the element it was made of; beside the array it was
    // measured to corrupt.
    operands_.push_back({{address, address + (surfaces - 1) * pitch + last_line}, base, name, pipeline_.flying()});
}

}  // namespace

void check_operand_readers(const Reader& reader, const Pipeline& pipeline, const ElementWise& element_wise,
                           std::vector<Operand>& operands) {
    OperandReaders(reader, pipeline, element_wise, operands).check();
}

}  // namespace npu::rockchip::check
