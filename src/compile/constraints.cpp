#include "compile/constraints.h"

#include <algorithm>
#include <array>
#include <string>

namespace npu::compile {

namespace {

constexpr std::array all{
    Constraint{"k-hazard", "no task of 3072 < K < 4096", "two projects: time-outs and wrong results at K = 3840, M > 4",
               &PlanOptions::avoid_k_hazard},
    Constraint{"k-limit", "at most 8192 input channels per task",
               "verified by three projects; 11008 was garbage for one, 10240 fine for another", &PlanOptions::limit_k},
    Constraint{"int8-slack-bank", "one data bank more than int8 features need",
               "a sweep on hardware lost the last rows of some tiles; whole 64-byte entries explain it",
               &PlanOptions::int8_slack_bank},
    Constraint{"two-weight-banks", "at least two weight banks",
               "one bank with narrow N hung the NPU until power-cycle (one project)", &PlanOptions::two_weight_banks},
    Constraint{"group-in-banks", "weight banks hold a whole kernel group",
               "two generators size them so; nobody reports success with less", &PlanOptions::group_in_weight_banks},
    Constraint{"rows-in-fours", "M a multiple of 4, or 1 (mainline driver)",
               "two generators for that driver keep to it; the vendor's programs do not", &PlanOptions::rows_in_fours},
    Constraint{"small-adds", "tasks that add partial sums have at most 1024 channels of 128 pixels",
               "the one library that chains them keeps to both; the fields hold 8192", &PlanOptions::small_adds},
    Constraint{"twelve-rows-to-accumulate", "at least 12 rows in a task that adds to an fp16 partial sum",
               "one project found fewer wrong, with strides of 12 rows; another runs 4",
               &PlanOptions::twelve_rows_to_accumulate},
};

}  // namespace

std::span<const Constraint> constraints() { return all; }

Result<void> take_away(std::string_view names, PlanOptions& options) {
    while (!names.empty()) {
        const std::size_t comma = std::min(names.find(','), names.size());
        const std::string_view name = names.substr(0, comma);
        names.remove_prefix(std::min(comma + 1, names.size()));
        const auto found = std::ranges::find(all, name, &Constraint::name);
        if (found == all.end()) {
            std::string known;
            for (const Constraint& constraint : all) {
                known += (known.empty() ? "" : ", ") + std::string(constraint.name);
            }
            return make_error(ErrorCode::invalid_argument, "there is no constraint '%.*s'; there are %s",
                              static_cast<int>(name.size()), name.data(), known.c_str());
        }
        options.*(found->active) = false;
    }
    return {};
}

rockchip::ChipProfile with_limits_of_k(rockchip::ChipProfile chip, const PlanOptions& options) {
    if (!options.limit_k) {
        chip.max_k = chip.max_bytes_per_kernel * 2;  // of 4 bits each; max_bytes_per_kernel limits the wider formats
    }
    if (!options.avoid_k_hazard) {
        chip.hazard_k_low = chip.hazard_k_high = 0;
    }
    return chip;
}

}  // namespace npu::compile
