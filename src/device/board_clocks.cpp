// Clocks that governors move, and what limits them.
#include <algorithm>
#include <charconv>

#include "device/board_read.h"

namespace npu::device::board {

namespace {

constexpr std::int64_t kilo = 1000;

// The folder of the first devfreq device whose name is or ends in one of these.
std::optional<std::string> devfreq_folder(const BoardRoot& root, const std::vector<std::string>& endings) {
    for (const std::string& name : root.names("/sys/class/devfreq")) {
        for (const std::string& ending : endings) {
            if (name.size() >= ending.size() && name.ends_with(ending)) {
                return "/sys/class/devfreq/" + name;
            }
        }
    }
    return std::nullopt;
}

GovernedClock devfreq_clock(const BoardRoot& root, const std::string& folder) {
    GovernedClock clock;
    clock.folder = folder;
    clock.governor = text_fact(root, folder + "/governor");
    clock.governors = split(root.text(folder + "/available_governors").value_or(""));
    clock.current = number_fact(root, folder + "/cur_freq");
    clock.limit = number_fact(root, folder + "/max_freq");
    clock.lowest = number_fact(root, folder + "/min_freq");
    clock.highest = clock.limit;
    const std::string offered = folder + "/available_frequencies";
    for (const std::string& word : split(root.text(offered).value_or(""))) {
        std::int64_t hertz = 0;
        if (std::from_chars(word.data(), word.data() + word.size(), hertz).ec != std::errc()) {
            continue;
        }
        if (clock.lowest.file != offered) {
            clock.lowest = clock.highest = {hertz, offered};
        }
        clock.lowest.value = std::min(*clock.lowest, hertz);
        clock.highest.value = std::max(*clock.highest, hertz);
    }
    return clock;
}

GovernedClock cpu_clock(const BoardRoot& root, const std::string& folder) {
    GovernedClock clock;
    clock.folder = folder;
    const auto related = root.text(folder + "/related_cpus");
    const auto cpus = split(related ? *related : root.text(folder + "/affected_cpus").value_or(""));
    for (const std::string& cpu : cpus) {
        clock.cpus += (clock.cpus.empty() ? "" : " ") + cpu;
    }
    clock.governor = text_fact(root, folder + "/scaling_governor");
    clock.governors = split(root.text(folder + "/scaling_available_governors").value_or(""));
    clock.current = number_fact(root, folder + "/scaling_cur_freq", kilo);
    clock.limit = number_fact(root, folder + "/scaling_max_freq", kilo);
    clock.lowest = number_fact(root, folder + "/cpuinfo_min_freq", kilo);
    clock.highest = number_fact(root, folder + "/cpuinfo_max_freq", kilo);
    return clock;
}

ThermalZone thermal_zone(const BoardRoot& root, const std::string& folder) {
    ThermalZone zone;
    zone.folder = folder;
    zone.type = root.text(folder + "/type").value_or("");
    zone.temperature = number_fact(root, folder + "/temp");
    zone.passive_trip.file = folder;
    for (const std::string& name : root.names(folder)) {
        const std::string ending = "_type";
        if (!starts_with(name, "trip_point_") || !name.ends_with(ending) ||
            root.text(folder + "/" + name) != "passive") {
            continue;
        }
        const Number trip = number_fact(root, folder + "/" + name.substr(0, name.size() - ending.size()) + "_temp");
        if (trip && (!zone.passive_trip || *trip < *zone.passive_trip)) {
            zone.passive_trip = trip;
        }
    }
    return zone;
}

}  // namespace

void read_clocks(const BoardRoot& root, BoardFacts& facts) {
    if (const auto folder = devfreq_folder(root, {"dmc"})) {
        facts.ddr = devfreq_clock(root, *folder);
    }
    if (const auto folder = devfreq_folder(root, {".npu", "rknpu"})) {
        facts.npu.clock = devfreq_clock(root, *folder);
    }
    const std::string policies = "/sys/devices/system/cpu/cpufreq";
    for (const std::string& name : root.names(policies)) {
        if (starts_with(name, "policy")) {
            facts.cpus.push_back(cpu_clock(root, policies + "/" + name));
        }
    }
    facts.cpus_online = text_fact(root, "/sys/devices/system/cpu/online");
    facts.cpus_present = text_fact(root, "/sys/devices/system/cpu/present");
    const std::string thermal = "/sys/class/thermal";
    for (const std::string& name : root.names(thermal)) {
        const std::string folder = thermal + "/" + name;
        if (starts_with(name, "thermal_zone")) {
            facts.zones.push_back(thermal_zone(root, folder));
        } else if (starts_with(name, "cooling_device")) {
            facts.cooling.push_back(
                {folder, root.text(folder + "/type").value_or(""), number_fact(root, folder + "/cur_state")});
        }
    }
}

}  // namespace npu::device::board
