// Checks of the NPU, its driver, its device files, and who else uses it.
#include <algorithm>

#include "base/result.h"
#include "doctor_check.h"

namespace npu::tools {

namespace {

constexpr std::int64_t oldest_that_works = 906;  // 0.9.6, as src/device/rknpu_device.cpp
constexpr std::int64_t domains_repaired = 908;   // 0.9.8
constexpr std::int64_t mainline_has_rocket = 61800;
constexpr std::int64_t four_gib = std::int64_t{4} << 30;

bool contains(const device::Text& text, const char* part) { return text && text->find(part) != std::string::npos; }

bool known_chip(const device::BoardFacts& facts) { return contains(facts.compatible, "rockchip,rk3588"); }

bool rk356x(const device::BoardFacts& facts) {
    return contains(facts.compatible, "rockchip,rk3568") || contains(facts.compatible, "rockchip,rk3566");
}

// Without a driver: what would bring one.
Finding no_driver(const device::BoardFacts& facts) {
    Finding finding;
    finding.evidence = {evidence(facts.kernel), {"/sys/class/drm, /sys/class/accel", "no device of rknpu or rocket"}};
    if (!facts.compatible) {
        finding.verdict = Verdict::warning;
        finding.summary = "no NPU here: the plugin uses the one in software";
        return finding;
    }
    finding.verdict = Verdict::problem;
    const auto kernel = device::version_number(facts.kernel.value.value_or(""));
    if (facts.npu.tree_enabled && !*facts.npu.tree_enabled) {
        finding.summary = "no driver, because the device tree disables the NPU";
        finding.evidence.push_back({facts.npu.tree_enabled.file, "disabled"});
        finding.remedy = "enable the npu@ nodes with an overlay of your distribution, or in the board's device tree";
    } else if (kernel && *kernel >= mainline_has_rocket) {
        finding.summary = "no driver runs the NPU; this kernel may have rocket as a module";
        finding.remedy = "sudo modprobe rocket (CONFIG_DRM_ACCEL_ROCKET=m)";
    } else if (facts.npu.tree_enabled) {
        finding.summary = "this kernel describes an NPU, but has no driver for it";
        finding.remedy = "a kernel of the board's vendor with rknpu 0.9.8, or mainline 6.18 or later with rocket";
    } else {
        finding.summary = "this kernel knows no NPU";
        finding.remedy = "a kernel of the board's vendor with rknpu 0.9.8, or mainline 6.18 or later with rocket";
    }
    return finding;
}

}  // namespace

Finding examine_chip(const device::BoardFacts& facts) {
    Finding finding;
    finding.evidence = {evidence(facts.compatible)};
    if (facts.model) {
        finding.evidence.push_back(evidence(facts.model));
    }
    if (known_chip(facts)) {
        finding.verdict = Verdict::ok;
        finding.summary = "RK3588 family";
    } else {
        finding.verdict = Verdict::warning;
        finding.summary = facts.compatible ? "a chip whose NPU is not supported yet" : "not a board with a device tree";
        finding.remedy = "GGML_NPU_DEVICE=simulated runs models on the NPU in software";
    }
    return finding;
}

Finding examine_driver(const device::BoardFacts& facts) {
    const device::NpuFacts& npu = facts.npu;
    if (!npu.vendor && !npu.rocket) {
        return no_driver(facts);
    }
    Finding finding;
    for (const std::string& file : {npu.vendor_file, npu.rocket_file}) {
        if (!file.empty()) {
            finding.evidence.push_back({file, file == npu.vendor_file ? "rknpu" : "rocket"});
        }
    }
    if (npu.vendor && npu.rocket) {
        finding.verdict = Verdict::problem;
        finding.summary = "both rknpu and rocket are loaded; only one of them can drive the NPU";
        const bool rocket_works = std::any_of(npu.nodes.begin(), npu.nodes.end(),
                                              [](const device::DeviceNode& node) { return node.driver == "rocket"; });
        const char* other = rocket_works ? "rknpu" : "rocket";
        finding.remedy = format("echo 'blacklist %s' | sudo tee /etc/modprobe.d/ggml-npu.conf, and restart", other);
        return finding;
    }
    if (npu.nodes.empty()) {
        finding.verdict = Verdict::problem;
        finding.summary = std::string(npu.vendor ? "rknpu" : "rocket") + " is loaded but offers no device";
        finding.evidence.push_back({"/sys/class/drm, /sys/class/accel", "no device of it"});
        if (npu.tree_enabled) {
            finding.evidence.push_back({npu.tree_enabled.file, *npu.tree_enabled ? "okay" : "disabled"});
        }
        finding.remedy = npu.tree_enabled && !*npu.tree_enabled
                             ? "enable the npu@ nodes and their iommu in the device tree"
                             : "sudo dmesg | grep -i -e rknpu -e rocket -e npu says why it did not start";
        return finding;
    }
    finding.verdict = Verdict::ok;
    finding.summary = npu.vendor ? "rknpu, the vendor's" : "rocket, mainline's";
    if (facts.preload) {
        finding.summary += ", simulated by libnpu-preload.so";
        finding.evidence.push_back(evidence(facts.preload));
    }
    return finding;
}

Finding examine_driver_version(const device::BoardFacts& facts) {
    Finding finding;
    const device::NpuFacts& npu = facts.npu;
    finding.evidence = {evidence(facts.kernel)};
    const auto kernel = device::version_number(facts.kernel.value.value_or(""));
    if (!npu.vendor) {
        if (!npu.rocket) {
            finding.summary = "no driver";
        } else if (kernel && *kernel < mainline_has_rocket) {
            finding.verdict = Verdict::warning;
            finding.summary =
                "rocket on a kernel older than 6.18, where it is not part of the kernel: nobody published "
                "results with it";
            finding.remedy = "mainline 6.18 or later";
        } else if (kernel) {
            finding.verdict = Verdict::ok;
            finding.summary = "rocket, as part of this kernel";
        }
        return finding;
    }
    finding.evidence.insert(finding.evidence.begin(), evidence(npu.vendor_version));
    const auto version = device::version_number(npu.vendor_version.value.value_or(""));
    if (!version) {
        finding.summary = "the version can be read by root only";
        finding.remedy = "sudo cat /sys/kernel/debug/rknpu/version, or run this command with sudo";
    } else if (*version < oldest_that_works) {
        finding.verdict = Verdict::problem;
        finding.summary = "older than 0.9.6, the oldest that was published as working; the plugin refuses it";
        finding.remedy = "install a kernel whose rknpu is 0.9.8";
    } else if (contains(facts.kernel, "6.1.99") && contains(facts.compatible, "orangepi")) {
        finding.verdict = Verdict::warning;
        finding.summary = "some Orange Pi builds of 6.1.99 lock up when jobs go to cores 1 and 2";
        finding.evidence.push_back(evidence(facts.compatible));
        finding.remedy = "export GGML_NPU_CORES=1, or a newer kernel";
    } else if (*version < domains_repaired) {
        finding.verdict = Verdict::warning;
        finding.summary = "works for models up to 4 GiB; domains are repaired in 0.9.8";
        finding.remedy = "install a kernel whose rknpu is 0.9.8";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = *version == domains_repaired ? "0.9.8, the version that most results were published with"
                                                       : "newer than 0.9.8, which the plugin is written for";
    }
    return finding;
}

Finding examine_nodes(const device::BoardFacts& facts) {
    Finding finding;
    bool any = false;
    bool all_allowed = true;
    bool only_render = true;
    bool present = false;
    std::string group;
    std::string path;
    for (const device::DeviceNode& node : facts.npu.nodes) {
        const std::string owner = node.group_name.empty() ? std::to_string(node.group) : node.group_name;
        finding.evidence.push_back({node.path, node.present
                                                   ? format("mode %04o, group %s: %s", node.mode, owner.c_str(),
                                                            node.allowed ? "may be opened" : "may not be opened")
                                                   : "missing"});
        present = present || node.present;
        any = any || node.allowed;
        only_render = only_render && (node.render || !node.allowed);
        all_allowed = all_allowed && node.allowed;
        if (node.present && !node.allowed && path.empty()) {
            path = node.path;
            group = (node.mode & 0060) == 0060 && node.group != 0 ? owner : "";
        }
    }
    const std::string join = group.empty() ? format(
                                                 "sudo chgrp render %s && sudo chmod 660 %s, then sudo usermod -aG "
                                                 "render $USER, and log in again; a udev rule keeps it",
                                                 path.c_str(), path.c_str())
                                           : format("sudo usermod -aG %s $USER, and log in again", group.c_str());
    if (facts.npu.nodes.empty()) {
        finding.summary = "no device of an NPU driver";
    } else if (!present) {
        finding.verdict = Verdict::problem;
        finding.summary = "the driver runs, but its device files are missing";
        finding.remedy =
            format("in a container: --device %s; else sudo udevadm trigger", facts.npu.nodes.front().path.c_str());
    } else if (!facts.user.id) {
        finding.summary = "who you are cannot be read";
        finding.evidence.push_back(evidence(facts.user.id));
    } else if (!any) {
        finding.verdict = Verdict::problem;
        finding.summary = "this user may open none of the NPU's device files";
        finding.remedy = join;
    } else if (only_render && !all_allowed) {
        finding.verdict = Verdict::warning;
        finding.summary = "only the render node may be opened, which on some boards accepts jobs and runs none";
        finding.remedy = join;
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = "this user may use the NPU";
    }
    return finding;
}

Finding examine_iommu(const device::BoardFacts& facts) {
    Finding finding;
    const device::Fact<bool>& iommu = facts.npu.iommu;
    finding.evidence = {{iommu.file, !iommu ? "(cannot be read)" : *iommu ? "there" : "not there, or disabled"}};
    if (!iommu) {
        finding.summary = "no file says whether the NPU has an IOMMU";
        finding.remedy = "sudo dmesg | grep -i 'rknpu.*iommu'";
    } else if (!*iommu) {
        finding.verdict = Verdict::problem;
        finding.summary = "without an IOMMU the NPU has only memory that was reserved at start";
        finding.remedy = "enable the NPU's iommu node in the device tree (status = \"okay\"), with the iommus property";
    } else if (rk356x(facts) && facts.npu.vendor && facts.memory && *facts.memory > four_gib) {
        finding.verdict = Verdict::problem;
        finding.summary = "RK356x with more than 4 GiB: page tables of the IOMMU may lie where it cannot read them";
        finding.evidence.push_back(evidence(facts.memory));
        finding.remedy = "a kernel that keeps IOMMU page tables below 4 GiB, or mem=4G on its command line";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = "memory of models can lie anywhere";
    }
    return finding;
}

Finding examine_other_process(const device::BoardFacts& facts) {
    Finding finding;
    if (facts.npu.nodes.empty()) {
        finding.summary = "no device of an NPU driver";
        return finding;
    }
    for (const device::NpuUser& user : facts.users) {
        finding.evidence.push_back({user.file, format("%s, open in process %lld (%s)", user.node.c_str(),
                                                      static_cast<long long>(user.process), user.name.c_str())});
    }
    if (!facts.users.empty()) {
        const auto version = device::version_number(facts.npu.vendor_version.value.value_or(""));
        const bool harmless = !facts.npu.vendor || (version && *version >= domains_repaired);
        finding.verdict = harmless ? Verdict::warning : Verdict::problem;
        finding.summary = harmless ? "another process uses the NPU: measurements will be wrong, and rknpu may stall"
                                   : "another process uses the NPU, and this driver is not known to survive two";
        finding.remedy = format("end process %lld (%s), unless you need it",
                                static_cast<long long>(facts.users.front().process), facts.users.front().name.c_str());
    } else if (facts.hidden_processes > 0 || facts.processes == 0) {
        finding.summary = facts.processes == 0 ? "no process can be seen"
                                               : format("%lld of %lld processes may not be looked into",
                                                        static_cast<long long>(facts.hidden_processes),
                                                        static_cast<long long>(facts.processes));
        finding.evidence = {{"/proc/*/fd", "(cannot be read)"}};
        finding.remedy = "run this command with sudo";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = "nobody else";
        finding.evidence = {
            {"/proc/*/fd", format("%lld processes, none of them", static_cast<long long>(facts.processes))}};
    }
    return finding;
}

}  // namespace npu::tools
