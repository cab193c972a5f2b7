// The table of checks. Figures are those of docs/doctor.md, which names their sources.
#include <array>

#include "base/result.h"
#include "doctor_check.h"

namespace npu::tools {

namespace {

// Nothing that files say: doctor_selftest.h replaces it when it is asked for.
Finding examine_self_test(const device::BoardFacts&) {
    Finding finding;
    finding.summary = "not asked for";
    finding.remedy = "npu doctor --self-test";
    return finding;
}

constexpr std::array checks{
    Check{"chip", "Is this a chip that the plugin knows?",
          "The RK3588 family is supported so far; elsewhere the NPU runs in software, for tests.",
          "use a board with RK3588 or RK3588S", examine_chip},
    Check{"driver", "Which driver runs the NPU?",
          "Vendor kernels bring rknpu, mainline brings rocket since 6.18; without either the NPU is not used, and two "
          "that serve one NPU exclude each other.",
          "sudo modprobe rocket; or a kernel with a driver", examine_driver},
    Check{"driver-version", "Is this version of the driver known to work?",
          "rknpu before 0.9.6 fails in several ways (0.8.2 gives zeros, 0.9.3 fails to submit); domains, which models "
          "over 4 GiB need, are repaired in 0.9.8. Some builds lock up when cores 1 and 2 are used.",
          "a kernel whose rknpu is 0.9.8", examine_driver_version},
    Check{"nodes", "May this user open the device files?",
          "The files belong to root and a group; on some boards a render node of rknpu accepts jobs and runs none, so "
          "the card node is needed.",
          "sudo usermod -aG GROUP USER, and log in again", examine_nodes},
    Check{"iommu", "Does the NPU have an IOMMU?",
          "Without one its memory is what was reserved at start, 12 MB in two reports. RK3568 with more than 4 GiB "
          "fails at the first job on kernels whose page tables lie above 4 GiB.",
          "enable the iommu node of the NPU in the device tree", examine_iommu},
    Check{"npu-clock", "How fast does the NPU run?",
          "Mainline leaves it at the 200 MHz of the start; 600 MHz makes a prompt 1.43 times as fast. The vendor's "
          "governor parks an idle NPU at about 300 of 1000 MHz.",
          "echo performance | sudo tee /sys/class/devfreq/*.npu/governor; on mainline a patched kernel",
          examine_npu_clock},
    Check{"npu-power", "Is the NPU kept on while it works?",
          "Above 200 MHz mainline's autosuspend after 50 ms can race the power controller and stop the whole chip.",
          "echo 3600000 into power/autosuspend_delay_ms of each core, or a patched kernel", examine_npu_power},
    Check{
        "ddr", "Is the memory clock parked?",
        "Decoding waits for memory: with DDR at 528 of 2112 MHz a 1.7B model decoded 5.5 tokens per second instead of "
        "11.2, and 2 to 6 times slower was reported.",
        "echo performance | sudo tee /sys/class/devfreq/dmc/governor", examine_ddr},
    Check{"cpu-governors", "Do the CPU's governors let it run at full clock?",
          "Attention, conversion and small batches run on the CPU, in bursts too short for a governor that ramps up. "
          "Governors are forgotten at each start.",
          "echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
          examine_cpu_governors},
    Check{"big-cores", "Are the four big cores there and allowed?",
          "The host's part belongs on the Cortex-A76 cores; an interrupt on an A55 makes a submission 51 instead of "
          "27 us.",
          "echo 1 into cpuN/online; start without taskset", examine_big_cores},
    Check{"clock-limits", "Does something hold clocks below what the hardware offers?",
          "A limit that was set by hand, by a power profile or by throttling costs in proportion.",
          "write the highest frequency into scaling_max_freq or max_freq", examine_clock_limits},
    Check{"thermal", "Is the board throttled, or about to be?",
          "A measurement of a hot board says nothing; 40 to 47 degrees were published for a board under load.",
          "cool the board", examine_thermal},
    Check{"open-files", "May a process open enough files?",
          "librknnrt and librkllmrt take a file for each buffer: handle 1020 and errno 24 are what 1024 files give. "
          "The plugin's own engine needs few.",
          "ulimit -n 65536", examine_open_files},
    Check{"cma", "Is contiguous memory left for an NPU without an IOMMU?",
          "Only then does the NPU depend on it, and 12 MB were not enough for a model of 56 MB.",
          "cma=512M on the kernel's command line", examine_cma},
    Check{"ggml", "Was the plugin built for the llama.cpp beside it?",
          "ggml's interfaces change from version to version; the plugin refuses another one than its own.",
          "build the plugin against the installed ggml", examine_ggml},
    Check{
        "librknnrt", "Is Rockchip's library usable for GGML_NPU_ENGINE=rknn?",
        "1.6 and 2.0 to 2.3 have interfaces that the engine knows; 2.3.0 and later are recommended. The native engine "
        "does not need it.",
        "install librknnrt 2.3.2", examine_librknnrt},
    Check{"axcl", "Does an Axera card have its driver and runtime?",
          "A card on PCIe (1f4b:0650) needs the module axcl_host and libaxcl_rt.so.",
          "install the axcl package, then sudo modprobe axcl_host", examine_axcl},
    Check{"other-process", "Does another process use the NPU?",
          "Two processes stall or wedge the vendor's driver, and before 0.9.8 with domains they panicked the kernel.",
          "end the other process", examine_other_process},
    Check{"self-test", "Does the NPU multiply correctly, in each format and with each number of cores?",
          "Old drivers answer with zeros and report success; some boards fail with more than one core. Made on "
          "request only, because it uses the NPU.",
          "npu doctor --self-test", examine_self_test},
};

}  // namespace

std::span<const Check> doctor_checks() { return checks; }

const char* verdict_name(Verdict verdict) {
    switch (verdict) {
        case Verdict::ok: return "ok";
        case Verdict::warning: return "warning";
        case Verdict::problem: return "problem";
        case Verdict::unknown: return "unknown";
    }
    return "unknown";
}

Evidence evidence(const device::Text& fact) {
    return {fact.file, fact ? fact->empty() ? "(empty)" : *fact : "(no answer)"};
}

Evidence evidence(const device::Number& fact) { return {fact.file, fact ? std::to_string(*fact) : "(no answer)"}; }

const device::Software* find_software(const device::BoardFacts& facts, const std::string& name) {
    for (const device::Software& software : facts.software) {
        if (software.name == name) {
            return &software;
        }
    }
    return nullptr;
}

std::string megahertz(std::int64_t hertz) { return format("%.0f MHz", static_cast<double>(hertz) * 1e-6); }

}  // namespace npu::tools
