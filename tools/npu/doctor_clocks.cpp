// Checks of clocks, their governors and limits, and temperature. A clock is read at one moment: a governor that follows the
// load may have parked it because nothing runs. That is not excused where published measurements found it parked under load,
// too (DDR), and is a warning elsewhere.
#include <algorithm>
#include <cstdlib>

#include "base/result.h"
#include "doctor_check.h"

namespace npu::tools {

namespace {

constexpr double near = 0.95;                      // of the highest clock: as good as
constexpr std::int64_t start_clock = 200'000'000;  // Hz, of the NPU on mainline
constexpr std::int64_t safe_without_voltage = 600'000'000;
constexpr std::int64_t short_autosuspend = 1000;  // ms; mainline has 50, the published remedy an hour
constexpr std::int64_t margin = 10'000;           // thousandths of a degree below throttling
constexpr double big_core = 0.85;                 // of the fastest core's clock

bool below(const device::Number& value, const device::Number& most) {
    return value && most && static_cast<double>(*value) < near * static_cast<double>(*most);
}

bool performance(const device::GovernedClock& clock) { return clock.governor && *clock.governor == "performance"; }

bool offers_performance(const device::GovernedClock& clock) {
    return std::find(clock.governors.begin(), clock.governors.end(), "performance") != clock.governors.end();
}

std::string command(const Setting& setting) {
    return format("echo %s | sudo tee %s", setting.value.c_str(), setting.file.c_str());
}

// Adds the command that sets this governor to performance, and the setting for --fix.
void set_performance(const device::GovernedClock& clock, Finding& finding) {
    const Setting setting{clock.governor.file, "performance"};
    finding.remedy += (finding.remedy.empty() ? "" : "; ") + command(setting);
    if (clock.governor && offers_performance(clock)) {  // what cannot be read could not be put back
        finding.settings.push_back(setting);
    }
}

void add_evidence(const device::GovernedClock& clock, Finding& finding) {
    finding.evidence.push_back(evidence(clock.governor));
    finding.evidence.push_back(evidence(clock.current));
    if (clock.highest) {
        finding.evidence.push_back(evidence(clock.highest));
    }
}

bool is_big(const device::BoardFacts& facts, const device::GovernedClock& clock) {
    std::int64_t fastest = 0;
    for (const device::GovernedClock& other : facts.cpus) {
        fastest = std::max(fastest, other.highest.value.value_or(0));
    }
    return clock.highest && static_cast<double>(*clock.highest) >= big_core * static_cast<double>(fastest);
}

// Whether a list such as "0-3,6" names a CPU.
bool in_list(const std::string& list, int cpu) {
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        const std::string range = list.substr(begin, end - begin);
        char* rest = nullptr;
        const long first = std::strtol(range.c_str(), &rest, 10);
        const long last = *rest == '-' ? std::strtol(rest + 1, nullptr, 10) : first;
        if (rest != range.c_str() && cpu >= first && cpu <= last) {
            return true;
        }
        begin = end + 1;
    }
    return false;
}

Finding mainline_clock(const device::BoardFacts& facts) {
    Finding finding;
    const device::Number& rate = facts.npu.fixed_clock;
    finding.evidence = {evidence(rate)};
    if (!rate) {
        finding.summary = "the clock can be read by root only";
        finding.remedy = "sudo cat /sys/kernel/debug/clk/scmi_clk_npu/clk_rate, or run this command with sudo";
    } else if (*rate <= start_clock) {
        finding.verdict = Verdict::problem;
        finding.summary = megahertz(*rate) +
                          ": the clock of the start, which rocket never raises; 600 MHz is 1.43 times "
                          "as fast, and the hardware does 1000 MHz";
        finding.remedy = "a kernel with operating points for the NPU (voltage first); never raise the clock alone";
    } else if (*rate > safe_without_voltage && !(facts.npu.operating_points && *facts.npu.operating_points)) {
        finding.verdict = Verdict::warning;
        finding.summary =
            megahertz(*rate) + " without operating points: the voltage does not follow; 900 MHz stopped a board";
        finding.evidence.push_back({facts.npu.operating_points.file, "not there"});
        finding.remedy = "a kernel with operating points for the NPU, or at most 600 MHz";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = megahertz(*rate);
    }
    return finding;
}

}  // namespace

Finding examine_npu_clock(const device::BoardFacts& facts) {
    if (!facts.npu.clock) {
        if (facts.npu.rocket) {
            return mainline_clock(facts);
        }
        Finding finding;
        finding.summary = "no file says";
        finding.evidence = {{"/sys/class/devfreq/*.npu", "not there"}};
        return finding;
    }
    const device::GovernedClock& clock = *facts.npu.clock;
    Finding finding;
    add_evidence(clock, finding);
    if (!clock.current || !clock.highest) {
        finding.summary = "the clock cannot be read";
    } else if (!below(clock.current, clock.highest)) {
        finding.verdict = Verdict::ok;
        finding.summary = megahertz(*clock.current);
    } else {
        const bool stays = clock.governor && (*clock.governor == "powersave" || *clock.governor == "userspace");
        finding.verdict = stays || performance(clock) ? Verdict::problem : Verdict::warning;
        finding.summary = format("%s of %s%s", megahertz(*clock.current).c_str(), megahertz(*clock.highest).c_str(),
                                 stays ? ", and the governor keeps it there" : " when nothing runs, or always");
        if (performance(clock)) {
            finding.summary = format("%s of %s, although the governor asks for all: a limit or heat holds it",
                                     megahertz(*clock.current).c_str(), megahertz(*clock.highest).c_str());
            finding.remedy = format("cat %s/max_freq; see clock-limits and thermal", clock.folder.c_str());
        } else {
            set_performance(clock, finding);
        }
    }
    return finding;
}

Finding examine_npu_power(const device::BoardFacts& facts) {
    Finding finding;
    const device::NpuFacts& npu = facts.npu;
    if (!npu.rocket) {
        if (npu.vendor) {
            finding.verdict = Verdict::ok;
            finding.summary = "rknpu keeps it on for 3 s after each call";
        } else {
            finding.summary = "no driver";
        }
        finding.evidence = {{npu.vendor ? npu.vendor_file : "/sys/class/accel", npu.vendor ? "rknpu" : "no rocket"}};
        return finding;
    }
    finding.evidence = {evidence(npu.autosuspend), evidence(npu.fixed_clock)};
    if (!npu.autosuspend) {
        finding.summary = "the delay cannot be read";
    } else if (*npu.autosuspend >= short_autosuspend || *npu.autosuspend < 0) {
        finding.verdict = Verdict::ok;
        finding.summary = "kept on between jobs";
    } else {
        const bool fast = npu.fixed_clock && *npu.fixed_clock > start_clock;
        finding.verdict = fast ? Verdict::problem : Verdict::warning;
        finding.summary =
            fast ? "switched off between jobs at a raised clock: published to stop the whole chip under load"
                 : "switched off between jobs, which makes times vary (4.8 times were published)";
        finding.remedy = format(
            "for f in /sys/bus/platform/devices/*.npu/power/autosuspend_delay_ms; do echo 3600000 | "
            "sudo tee $f; done");
    }
    return finding;
}

Finding examine_ddr(const device::BoardFacts& facts) {
    Finding finding;
    if (!facts.ddr) {
        finding.evidence = {{"/sys/class/devfreq/dmc", "not there"}};
        if (facts.npu.vendor) {
            finding.verdict = Verdict::warning;
            finding.summary =
                "this vendor kernel governs no memory clock (its firmware may lack the call): it may be low";
            finding.remedy = "newer firmware (BL31) of the vendor, and dmc enabled in the device tree";
        } else {
            finding.summary = "mainline has no driver for the memory clock: it is what the firmware chose";
        }
        return finding;
    }
    const device::GovernedClock& clock = *facts.ddr;
    add_evidence(clock, finding);
    if (!clock.current || !clock.highest) {
        finding.summary = "the clock cannot be read";
    } else if (below(clock.current, clock.highest)) {
        finding.verdict = Verdict::problem;
        finding.summary = format("memory runs at %s of %s: decoding is 2 to 4 times slower",
                                 megahertz(*clock.current).c_str(), megahertz(*clock.highest).c_str());
        set_performance(clock, finding);
    } else if (!performance(clock) && !(clock.governor && *clock.governor == "userspace")) {
        finding.verdict = Verdict::warning;
        finding.summary = megahertz(*clock.current) + " now, but this governor may park it";
        set_performance(clock, finding);
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = megahertz(*clock.current) + ", and stays there";
    }
    return finding;
}

Finding examine_cpu_governors(const device::BoardFacts& facts) {
    Finding finding;
    bool known = false;
    bool slow = false;
    bool stays = false;
    for (const device::GovernedClock& clock : facts.cpus) {
        if (!clock.governor) {
            continue;
        }
        known = true;
        finding.evidence.push_back(evidence(clock.governor));
        if (!performance(clock)) {
            slow = true;
            const bool keeps_low = *clock.governor == "powersave" ||
                                   (*clock.governor == "userspace" && below(clock.current, clock.highest));
            stays = stays || (keeps_low && is_big(facts, clock));
            set_performance(clock, finding);
        }
    }
    if (!known) {
        finding.summary = "no file says";
        finding.evidence = {{"/sys/devices/system/cpu/cpufreq", "no policies"}};
    } else if (!slow) {
        finding.verdict = Verdict::ok;
        finding.summary = "performance everywhere";
    } else {
        finding.verdict = stays ? Verdict::problem : Verdict::warning;
        finding.summary =
            stays ? "a governor keeps the big cores slow" : "governors that ramp up cost time in short bursts";
    }
    return finding;
}

Finding examine_big_cores(const device::BoardFacts& facts) {
    Finding finding;
    std::string offline;
    std::string forbidden;
    bool known = false;
    finding.evidence = {evidence(facts.cpus_online), evidence(facts.user.cpus_allowed)};
    // Cores that are off have no policy, so those of the chip count: RK3588 has its big ones at 4 to 7.
    for (int cpu = 4; cpu < 8 && facts.cpus_online; ++cpu) {
        known = facts.cpus_present && in_list(*facts.cpus_present, cpu) ? true : known;
        if (!facts.cpus_present || !in_list(*facts.cpus_present, cpu)) {
            continue;
        }
        if (!in_list(*facts.cpus_online, cpu)) {
            offline += format("%s%d", offline.empty() ? "" : " ", cpu);
        } else if (facts.user.cpus_allowed && !in_list(*facts.user.cpus_allowed, cpu)) {
            forbidden += format("%s%d", forbidden.empty() ? "" : " ", cpu);
        }
    }
    if (!known || !facts.compatible || facts.compatible->find("rockchip,rk3588") == std::string::npos) {
        finding.summary = "which cores are big is known of RK3588 only";
    } else if (!offline.empty()) {
        finding.verdict = Verdict::problem;
        finding.summary = "big cores are switched off: " + offline;
        finding.remedy =
            format("for c in %s; do echo 1 | sudo tee /sys/devices/system/cpu/cpu$c/online; done", offline.c_str());
    } else if (!forbidden.empty()) {
        finding.verdict = Verdict::warning;
        finding.summary = "this process may not run on big cores " + forbidden;
        finding.remedy = "taskset -c 4-7 llama-cli ..., or allow them in the container or service";
    } else {
        finding.verdict = Verdict::ok;
        finding.summary = "all four, for this process";
    }
    return finding;
}

Finding examine_clock_limits(const device::BoardFacts& facts) {
    Finding finding;
    std::vector<const device::GovernedClock*> clocks;
    for (const device::GovernedClock& clock : facts.cpus) {
        clocks.push_back(&clock);
    }
    for (const auto* clock : {&facts.ddr, &facts.npu.clock}) {
        if (*clock) {
            clocks.push_back(&**clock);
        }
    }
    bool known = false;
    for (const device::GovernedClock* clock : clocks) {
        known = known || (clock->limit && clock->highest);
        if (below(clock->limit, clock->highest)) {
            const bool cpu = clock->folder.find("cpufreq") != std::string::npos;
            finding.evidence.push_back(evidence(clock->limit));
            finding.evidence.push_back(evidence(clock->highest));
            finding.remedy += (finding.remedy.empty() ? "" : "; ") +
                              command({clock->limit.file, std::to_string(*clock->highest / (cpu ? 1000 : 1))});
            finding.summary += format("%s%s to %s of %s", finding.summary.empty() ? "limited: " : ", ",
                                      clock->folder.substr(clock->folder.rfind('/') + 1).c_str(),
                                      megahertz(*clock->limit).c_str(), megahertz(*clock->highest).c_str());
        }
    }
    if (!finding.evidence.empty()) {
        finding.verdict = Verdict::warning;
    } else if (known) {
        finding.verdict = Verdict::ok;
        finding.summary = "clocks may rise to what the hardware offers";
        finding.evidence = {{"scaling_max_freq, max_freq", "as high as offered"}};
    } else {
        finding.summary = "no file says";
        finding.evidence = {{"/sys/devices/system/cpu/cpufreq, /sys/class/devfreq", "no limits"}};
    }
    return finding;
}

Finding examine_thermal(const device::BoardFacts& facts) {
    Finding finding;
    bool known = false;
    bool near_trip = false;
    bool throttled = false;
    std::int64_t hottest = 0;
    for (const device::ThermalZone& zone : facts.zones) {
        if (!zone.temperature) {
            continue;
        }
        known = true;
        hottest = std::max(hottest, *zone.temperature);
        if (zone.passive_trip && *zone.temperature + margin >= *zone.passive_trip) {
            near_trip = true;
            finding.evidence.push_back(evidence(zone.temperature));
            finding.evidence.push_back(evidence(zone.passive_trip));
        }
    }
    for (const device::CoolingDevice& device : facts.cooling) {
        // A fan that turns is no limit.
        const bool limits = device.type.find("cpufreq") != std::string::npos ||
                            device.type.find("devfreq") != std::string::npos ||
                            device.type.find("cpu-") != std::string::npos;
        if (limits && device.state && *device.state > 0) {
            throttled = true;
            finding.evidence.push_back({device.state.file, format("%s: state %lld", device.type.c_str(),
                                                                  static_cast<long long>(*device.state))});
        }
    }
    if (throttled || near_trip) {
        finding.verdict = throttled ? Verdict::problem : Verdict::warning;
        finding.summary = throttled ? "throttled now" : "within 10 degrees of throttling";
        finding.remedy = "a heat sink with a fan; wait until it is cool before measuring";
    } else if (known) {
        finding.verdict = Verdict::ok;
        finding.summary = format("at most %.0f degrees", static_cast<double>(hottest) / 1000);
        finding.evidence = {{"/sys/class/thermal", format("%zu zones", facts.zones.size())}};
    } else {
        finding.summary = "no sensor can be read";
        finding.evidence = {{"/sys/class/thermal", "no zones"}};
    }
    return finding;
}

}  // namespace npu::tools
