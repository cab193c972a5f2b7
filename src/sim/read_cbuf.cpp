// Whether a convolution fits the on-chip buffer (CBUF). Its 12 banks of 32 KiB are split by CNA.CBUF_CON0: so many for
// features, so many for weights. Plain byte accounting explains every bank split of captured programs, and the fitted
// formulas that others published (tiles of 65 to 127 rows need ceil(M / 64) banks, and so on).
#include <algorithm>
#include <array>
#include <cinttypes>

#include "base/integers.h"
#include "sim/convolution.h"

namespace npu::sim {

namespace reg = rockchip::reg;
using rockchip::Precision;

namespace {

// Published sweep: int8, width 1, one bank more was needed although the bytes fit; the last rows were garbage.
struct SlackShape {
    std::uint32_t rows;
    std::uint32_t blocks;  // K / 32
};
constexpr std::array slack_shapes{SlackShape{144, 7},  SlackShape{144, 21}, SlackShape{144, 35}, SlackShape{192, 5},
                                  SlackShape{192, 21}, SlackShape{192, 37}, SlackShape{240, 17}, SlackShape{240, 21},
                                  SlackShape{240, 25}, SlackShape{240, 29}};

// A line takes whole entries of 64 bytes. That explains all published shapes (their K is an odd multiple of 32, so each row
// wastes half an entry) and why fp16 is immune (its K is a multiple of 32) and full banks are fine. It is a warning all the
// same, because another project runs such shapes on boards without a slack bank.
void check_slack(RegisterCheck& check, const rockchip::ChipProfile& chip, const Convolution& convolution) {
    constexpr std::uint64_t entry = 64;
    const std::uint64_t capacity = std::uint64_t{convolution.data_banks} * chip.cbuf_bank_bytes;
    const std::uint64_t padded =
        align_up(std::uint64_t{convolution.width} * convolution.row_bytes(), entry) * convolution.height;
    if (convolution.feature_bytes() > capacity || padded <= capacity) {
        return;
    }
    const bool published = convolution.input == Precision::int8 && convolution.width == 1 &&
                           std::ranges::any_of(slack_shapes, [&](const SlackShape& shape) {
                               return shape.rows == convolution.height && shape.blocks * 32 == convolution.channels;
                           });
    check.judge.warn("%s, W = %u, H = %u, K = %u: %" PRIu64
                     " bytes of features fit the data banks, but with each line padded "
                     "to 64 bytes they take %" PRIu64 " of %" PRIu64
                     " bytes, and there is no slack bank; published as garbage in the last rows%s",
                     rockchip::info(convolution.input).name, convolution.width, convolution.height,
                     convolution.channels, convolution.feature_bytes(), padded, capacity,
                     published ? " for this very shape" : " for some shapes like this");
}

void check_weights(RegisterCheck& check, const rockchip::ChipProfile& chip, const Convolution& convolution,
                   std::uint32_t banks) {
    const auto refuse = [&](Severity severity, const char* why, std::uint64_t have, std::uint64_t bound) {
        check.judge.refuse_register(severity, reg::CNA::CBUF_CON0::offset, banks, "%s: %" PRIu64 " against %" PRIu64,
                                    why, have, bound);
    };
    const std::uint64_t capacity = std::uint64_t{convolution.weight_banks} * chip.cbuf_bank_bytes;
    const std::uint64_t group_bytes =
        convolution.kernel_bytes() * std::min(convolution.kernels, convolution.kernels_per_group());
    // Weights stream through their banks group by group. That one group has to fit follows from how the array consumes
    // them; a product that hung on a board breaks it, and all that ran keep it. Nothing is known about windows.
    if (group_bytes > capacity && !convolution.compressed) {
        if (convolution.positions() == 1) {
            refuse(Severity::hang, "one kernel group does not fit the weight banks (bytes)", group_bytes, capacity);
        } else {
            check.judge.warn("one kernel group of %" PRIu64 " bytes does not fit the weight banks of %" PRIu64
                             " bytes, as it does in every known program",
                             group_bytes, capacity);
        }
    }
    if (convolution.weight_reuse && convolution.weight_bytes > capacity) {
        refuse(Severity::corrupt, "WEIGHT_REUSE needs all weights in the weight banks (bytes)",
               convolution.weight_bytes, capacity);
    }
    if (convolution.weight_banks < chip.min_weight_banks) {
        // The shape that hung: fp16, K = 1024, N = 16, more than 128 rows; its only kernel group fills the bank.
        if (convolution.input == Precision::fp16 && convolution.rows() > 128 && group_bytes == capacity &&
            convolution.weight_bytes <= 2 * capacity) {
            refuse(Severity::hang,
                   "weight_bank = 1 with narrow N: published to hang until power-cycle (bytes of all weights)",
                   convolution.weight_bytes, capacity);
        } else {
            check.judge.warn("weight_bank = %u: published to hang until power-cycle with narrow N",
                             convolution.weight_banks);
        }
    }
}

}  // namespace

void check_cbuf(RegisterCheck& check, const rockchip::ChipProfile& chip, const Convolution& convolution) {
    using namespace reg::CNA;
    const std::uint32_t banks = check.read(CBUF_CON0::offset);
    const auto refuse = [&](const char* why, std::uint64_t have, std::uint64_t bound) {
        check.judge.refuse_register(Severity::hang, CBUF_CON0::offset, banks, "%s: %" PRIu64 " against %" PRIu64, why,
                                    have, bound);
    };
    if (convolution.data_banks + convolution.weight_banks > chip.cbuf_banks) {
        refuse("data and weight banks together exceed the buffer", convolution.data_banks + convolution.weight_banks,
               chip.cbuf_banks);
    }
    if (convolution.data_banks == 0 || convolution.weight_banks == 0) {
        refuse("features and weights need at least one bank each (data against weight banks)", convolution.data_banks,
               convolution.weight_banks);
        return;
    }
    const std::uint64_t capacity = std::uint64_t{convolution.data_banks} * chip.cbuf_bank_bytes;
    if (convolution.feature_bytes() > capacity) {
        refuse("the features do not fit the data banks (bytes)", convolution.feature_bytes(), capacity);
    }
    if (convolution.input == Precision::int4 && convolution.data_banks > 8 &&
        convolution.feature_bytes() > std::uint64_t{8} * chip.cbuf_bank_bytes) {
        check.judge.warn("int4, %" PRIu64
                         " bytes of features: published to work up to 8 data banks; taller tiles were "
                         "seen to compute wrong rows or never to start",
                         convolution.feature_bytes());
    }
    check_slack(check, chip, convolution);
    check_weights(check, chip, convolution, banks);

    // A line in units of 64 bytes. Programs round it in different ways.
    const std::uint64_t line_bytes = convolution.width * convolution.row_bytes();
    const std::uint32_t entries = check.read(CBUF_CON1::offset);
    const std::uint64_t at_least = (line_bytes + 63) / 64;
    const std::uint64_t at_most = convolution.width * ((convolution.row_bytes() + 63) / 64);
    if (entries < at_least || entries > at_most) {
        check.judge.warn("CNA.CBUF_CON1 = %u: a line of features takes %" PRIu64 "..%" PRIu64
                         " entries of 64 bytes; the effect of another value is unknown",
                         entries, at_least, at_most);
    }
}

}  // namespace npu::sim
