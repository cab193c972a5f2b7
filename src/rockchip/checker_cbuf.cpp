// The on-chip buffer (CBUF) of a core: twelve banks that a task divides between features and weights.
// Sources: register manual (size), captured programs (they all fill twelve), published hardware sweeps (the rest).
#include <algorithm>

#include "base/integers.h"
#include "base/result.h"
#include "rockchip/checker_task.h"

namespace npu::rockchip::check {

namespace {

namespace con0 = reg::CNA::CBUF_CON0;

constexpr std::uint32_t entry_bytes = 64;  // unit of CBUF_CON1 (register manual)
constexpr std::uint32_t bank_mask = 0xff;  // both bank counts inside CBUF_CON0

struct Banks {
    std::uint32_t data, weight;
    std::uint64_t data_bytes, weight_bytes;
};

void check_banks(const Convolution& task, const Banks& banks, const ChipProfile& chip, Findings& findings) {
    const auto refuse = [&](const char* consequence, const char* source, const std::string& why) {
        findings.refuse(con0::offset, task.cbuf_con0, consequence, source, why);
    };
    if (const std::uint32_t bank = con0::FC_DATA_BANK.of(task.cbuf_con0); bank != 0) {
        refuse(consequence::corrupts, source::measured,
               format("FC_DATA_BANK is %u; anything but 0 was measured to corrupt most outputs", bank));
    }
    if (banks.data == 0 || banks.weight == 0) {
        refuse(consequence::hangs, source::programs,
               format("DATA_BANK %u and WEIGHT_BANK %u: each needs at least one bank", banks.data, banks.weight));
        return;
    }
    if (banks.data + banks.weight > chip.cbuf_banks) {
        refuse(consequence::hangs, source::manual,
               format("bank overflow: DATA_BANK %u + WEIGHT_BANK %u = %u, the chip has %u", banks.data, banks.weight,
                      banks.data + banks.weight, chip.cbuf_banks));
    }
    if (task.feature_bytes > banks.data_bytes) {
        refuse(
            consequence::hangs, source::measured,
            format("bank overflow: features of %ux%u pixels and %u channels take %llu bytes, %u data banks hold %llu",
                   task.width, task.height, task.channels, static_cast<unsigned long long>(task.feature_bytes),
                   banks.data, static_cast<unsigned long long>(banks.data_bytes)));
    }
}

// The array works on one kernel group at a time, and needs all of it: with one bank for a group of three and a half a
// published matmul hung; every program that works holds a whole group.
void check_group_fits(const Convolution& task, const Banks& banks, Findings& findings) {
    const std::uint64_t bytes = task.kernel_bytes * (task.depthwise ? 1 : std::min(task.kernels, task.group));
    if (banks.weight != 0 && bytes > banks.weight_bytes) {
        findings.refuse(con0::offset, task.cbuf_con0, consequence::hangs, source::inferred,
                        format("one group of kernels takes %llu bytes, %u weight banks hold %llu",
                               static_cast<unsigned long long>(bytes), banks.weight,
                               static_cast<unsigned long long>(banks.weight_bytes)));
    }
}

void check_weight_banks(const Convolution& task, const Banks& banks, const ChipProfile& chip, Findings& findings) {
    if (banks.weight == 0 || banks.weight >= chip.min_weight_banks) {
        return;
    }
    // Published: fp16, K=1024, narrow N (weights within two banks), more than 128 rows hung until power-cycle.
    constexpr std::uint32_t hazard_channels = 1024;
    constexpr std::uint32_t hazard_pixels = 128;
    const bool narrow = task.weight_bytes <= 2ULL * chip.cbuf_bank_bytes;
    if (narrow && task.channels >= hazard_channels && task.width * task.height > hazard_pixels) {
        findings.refuse(
            con0::offset, task.cbuf_con0, consequence::hangs, source::measured,
            format("WEIGHT_BANK %u with narrow N=%u, K=%u and %u rows hung until power-cycle; give at least %u",
                   banks.weight, task.kernels, task.channels, task.width * task.height, chip.min_weight_banks));
    } else {
        findings.warn(con0::offset, task.cbuf_con0, consequence::hangs, source::measured,
                      format("WEIGHT_BANK %u; hangs are published for less than %u with narrow N", banks.weight,
                             chip.min_weight_banks));
    }
}

void check_entries(const Convolution& task, const Banks& banks, Findings& findings) {
    // One line: pixels packed densely, or each rounded up to whole entries; captures and generators lie between.
    const std::uint64_t bits = info(task.input).bits;
    const std::uint64_t pixel_bits = task.channels * bits;
    const std::uint64_t least = ceil_div<std::uint64_t>(task.width * pixel_bits, 8ULL * entry_bytes);
    const std::uint64_t most = task.width * ceil_div<std::uint64_t>(pixel_bits, 8ULL * entry_bytes);
    const std::uint64_t entries = reg::CNA::CBUF_CON1::DATA_ENTRIES.of(task.cbuf_con1);
    if (entries < least || entries > most) {
        findings.refuse(
            reg::CNA::CBUF_CON1::offset, task.cbuf_con1, consequence::corrupts, source::programs,
            format("a line of %u pixels and %u channels needs %llu to %llu entries of 64 bytes", task.width,
                   task.channels, static_cast<unsigned long long>(least), static_cast<unsigned long long>(most)));
    } else if (task.feature_bytes <= banks.data_bytes && entries * entry_bytes * task.height > banks.data_bytes) {
        findings.warn(reg::CNA::CBUF_CON1::offset, task.cbuf_con1, consequence::corrupts, source::inferred,
                      format("%u lines of %llu entries exceed %u data banks, though the bytes alone fit", task.height,
                             static_cast<unsigned long long>(entries), banks.data));
    }
}

// Published sweep: in the one-pixel-wide mapping the int8 feature reader fetches one bank too much when the last
// bank is nearly, but not quite, full; the last rows become garbage. One more data bank cured every case.
void check_slack(const Convolution& task, const Banks& banks, const ChipProfile& chip, Findings& findings) {
    if (task.input != Precision::int8 || task.width != 1 || task.feature_bytes >= banks.data_bytes) {
        return;
    }
    const std::uint64_t spare = banks.data_bytes - task.feature_bytes;
    if (spare < chip.cbuf_bank_bytes / 10) {
        findings.warn(
            con0::offset, task.cbuf_con0, consequence::corrupts, source::measured,
            format("int8 in one-pixel lines leaves %llu bytes of the last data bank; such shapes need one more bank",
                   static_cast<unsigned long long>(spare)));
    }
}

void check_weight_reuse(const Convolution& task, const Convolution& previous, const Banks& banks, Findings& findings) {
    const auto refuse = [&](const std::string& why) {
        findings.refuse(con0::offset, task.cbuf_con0, consequence::corrupts, source::measured, "WEIGHT_REUSE " + why);
    };
    if (task.weight_address != previous.weight_address || task.weight_bytes != previous.weight_bytes ||
        task.stored_weight_bytes != previous.stored_weight_bytes || task.channels != previous.channels ||
        task.input != previous.input) {
        refuse(format("but the task before it used other weights (0x%08x, %llu bytes; now 0x%08x, %llu bytes)",
                      previous.weight_address, static_cast<unsigned long long>(previous.weight_bytes),
                      task.weight_address, static_cast<unsigned long long>(task.weight_bytes)));
    } else if (task.weight_bytes > banks.weight_bytes) {
        refuse(format("but %llu bytes of weights do not stay in %u banks",
                      static_cast<unsigned long long>(task.weight_bytes), banks.weight));
    }
}

void check_data_reuse(const Convolution& task, const Convolution& previous, Findings& findings) {
    if (task.feature_address != previous.feature_address || task.width != previous.width ||
        task.height != previous.height || task.channels != previous.channels || task.input != previous.input ||
        task.single_line != previous.single_line || task.line_stride != previous.line_stride ||
        task.surface_stride != previous.surface_stride) {
        findings.refuse(con0::offset, task.cbuf_con0, consequence::corrupts, source::measured,
                        format("DATA_REUSE but the task before it used other features (0x%08x; now 0x%08x)",
                               previous.feature_address, task.feature_address));
    }
}

// Measured: reuse holds only inside one uninterrupted chain; across submissions 29 of 120 runs were wrong.
void check_reuse(const Convolution& task, const Convolution* previous, const Banks& banks, Findings& findings) {
    const bool weights = con0::WEIGHT_REUSE.of(task.cbuf_con0) != 0;
    const bool data = con0::DATA_REUSE.of(task.cbuf_con0) != 0;
    if (!weights && !data) {
        return;
    }
    if (previous == nullptr) {
        findings.refuse(con0::offset, task.cbuf_con0, consequence::corrupts, source::measured,
                        format("%s on a task with no convolution before it in the chain; nothing known is resident",
                               weights ? "WEIGHT_REUSE" : "DATA_REUSE"));
        return;
    }
    if ((task.cbuf_con0 & bank_mask) != (previous->cbuf_con0 & bank_mask)) {
        findings.refuse(
            con0::offset, task.cbuf_con0, consequence::corrupts, source::inferred,
            format("reuse with another bank split than the task before it (0x%02x)", previous->cbuf_con0 & bank_mask));
        return;
    }
    if (weights) {
        check_weight_reuse(task, *previous, banks, findings);
    }
    if (data) {
        check_data_reuse(task, *previous, findings);
    }
}

}  // namespace

void check_cbuf(const Convolution& task, const Convolution* previous, const ChipProfile& chip, Findings& findings) {
    Banks banks{};
    banks.data = con0::DATA_BANK.of(task.cbuf_con0);
    banks.weight = con0::WEIGHT_BANK.of(task.cbuf_con0);
    banks.data_bytes = std::uint64_t{banks.data} * chip.cbuf_bank_bytes;
    banks.weight_bytes = std::uint64_t{banks.weight} * chip.cbuf_bank_bytes;
    check_banks(task, banks, chip, findings);
    check_group_fits(task, banks, findings);
    check_weight_banks(task, banks, chip, findings);
    check_entries(task, banks, findings);
    check_slack(task, banks, chip, findings);
    check_reuse(task, previous, banks, findings);
}

}  // namespace npu::rockchip::check
