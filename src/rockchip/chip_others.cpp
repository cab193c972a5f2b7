// The other NPUs of the family: the one that can be replayed, and those of which too little is known. A chip moves from
// the second table to a profile when its missing part is found.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "rockchip/chip.h"

namespace npu::rockchip {

namespace {

struct KnownChip {
    std::string_view name;  // as it is sold
    const ChipProfile& (*profile)();
};
constexpr std::array known_chips{
    KnownChip{"RK3588", rk3588}, KnownChip{"RK3588S", rk3588},  // the same NPU in a smaller package
    KnownChip{"RV1106", rv1106},
    KnownChip{"RV1103", rv1106},  // the board whose output bytes are published is an RV1103
};

struct UnsupportedChip {
    std::string_view name;
    const char* known;
    const char* missing;
};

// Published measurements on one RK3576 board; its registers from vendor programs that others decoded.
constexpr const char* rk3576_known =
    "2 cores (two jobs in flight corrupt 96-100 % of the results, so one may be used); CBUF of 16 banks of 64 "
    "KiB; CNA registers are packed differently, only CONV_CON3 (0x1014) and DCOMP_ADDR0 (0x1110) are where the "
    "RK3588 has them: feature address at 0x1088, line stride at 0x1090, input converter at 0x1048, padding as "
    "four bytes at 0x1080, output converter at 0x40ac..0x40b4, an address at 0x4018; 16-bit task number; "
    "layouts as on the RK3588, K segments of 4096; int8 with int8 outputs works up to 4608 input channels times "
    "kernel positions and 2048 output channels";
constexpr const char* rk3576_missing =
    "the fields of its CNA, CORE and DPU registers, a program with the tensors it read and wrote, and the rule by "
    "which int32 outputs lose atoms and wide outputs spoil the next submission";
// Nothing of these was measured in public: vendor documents of the matmul interface, and one register dump.
constexpr const char* rk356x_known =
    "1 core of 0.8-1 TOPS; 32-bit addresses; a block of its own at 0x2000 (command target 0x0401) that the RK3588 "
    "does not have; the enable word goes to 0x000c, not 0x0008 (a kernel proposal); int8 layouts with 8 input "
    "channels to an atom and kernel groups of 16 (fp16: 4 and 8); K in multiples of 32 (fp16: 16)";
constexpr const char* rk356x_missing =
    "the fields of its registers, the number and size of its CBUF banks, any measurement of a program";
constexpr const char* rk3562_known =
    "1 core; int8 layouts with 16 input channels to an atom and kernel groups of 16 (fp16: 8 and 8); K in "
    "multiples of 32; multiplies int8 by int4, which the RK3588 does not";
constexpr const char* rk3562_missing = "its register map, its CBUF, any captured or measured program";

constexpr std::array unsupported_chips{
    UnsupportedChip{"RK3576", rk3576_known, rk3576_missing},
    UnsupportedChip{"RK3568", rk356x_known, rk356x_missing},
    UnsupportedChip{"RK3566", rk356x_known, rk356x_missing},
    UnsupportedChip{"RK3562", rk3562_known, rk3562_missing},
};

bool same_name(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b,
                              [](unsigned char x, unsigned char y) { return std::toupper(x) == std::toupper(y); });
}

std::string all_names() {
    std::string text;
    for (const KnownChip& chip : known_chips) {
        text += text.empty() ? "" : ", ";
        text += chip.name;
    }
    return text;
}

}  // namespace

const ChipProfile& rv1106() {
    static const ChipProfile profile = [] {
        ChipProfile chip{};
        chip.name = "RV1106";
        chip.registers = RegisterMap::rv1106;
        chip.cores = 1;            // published: single core, the sub-core list is ignored
        chip.cbuf_banks = 8;       // CNA.CBUF_CON0 is 8 in every program; that it counts banks is our reading
        chip.cbuf_bank_bytes = 0;  // not known
        chip.max_data_banks = 8;
        chip.min_weight_banks = 0;  // features and weights are not told apart there
        chip.max_k = 16;            // from here on: the largest that a program with known outputs has
        chip.max_n = 4;
        chip.max_extent = 8;
        chip.max_bytes_per_kernel = 16;
        chip.max_tasks_per_submit = 4095;  // as the RK3588; published chains have a dozen
        // Only the clock is published. The rest is the RK3588's, so that a prediction is a number at all; none means
        // anything.
        chip.timing = rk3588().timing;
        chip.timing.clock_hz = 420e6;
        chip.timing.boot_clock_hz = 420e6;
        chip.timing.patched_clock_hz = 420e6;
        return chip;
    }();
    return profile;
}

Result<const ChipProfile*> find_chip(std::string_view name) {
    for (const KnownChip& chip : known_chips) {
        if (same_name(chip.name, name)) {
            return &chip.profile();
        }
    }
    for (const UnsupportedChip& chip : unsupported_chips) {
        if (same_name(chip.name, name)) {
            return make_error(ErrorCode::unsupported,
                              "%.*s is not supported. Known: %s. Missing: %s. The chips that can be simulated are %s",
                              static_cast<int>(chip.name.size()), chip.name.data(), chip.known, chip.missing,
                              all_names().c_str());
        }
    }
    return make_error(ErrorCode::invalid_argument, "no NPU is called '%.*s'; the chips that can be simulated are %s",
                      static_cast<int>(name.size()), name.data(), all_names().c_str());
}

}  // namespace npu::rockchip
