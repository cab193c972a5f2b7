// Kernel, memory, the user's rights and limits.
#include <algorithm>
#include <charconv>
#include <sstream>

#include "device/board_read.h"

namespace npu::device::board {

namespace {

std::optional<std::int64_t> number(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() ? std::optional(value) : std::nullopt;
}

// "CmaTotal:        8192 kB"
Number memory_fact(const std::optional<std::string>& meminfo, const char* key) {
    Number fact{std::nullopt, "/proc/meminfo"};
    if (meminfo) {
        if (const auto line = line_of(*meminfo, key)) {
            if (const auto kib = number(*line)) {
                fact.value = *kib * 1024;
            }
        }
    }
    return fact;
}

// Words of "Max open files            1024                 1048576              files".
std::optional<std::int64_t> limit(const std::vector<std::string>& words, std::size_t index) {
    if (index >= words.size()) {
        return std::nullopt;
    }
    return words[index] == "unlimited" ? std::optional<std::int64_t>(-1) : number(words[index]);
}

}  // namespace

void read_user(const BoardRoot& root, BoardFacts& facts) {
    const std::string status_path = "/proc/self/status";
    const std::string limits_path = "/proc/self/limits";
    facts.user.id.file = facts.user.cpus_allowed.file = status_path;
    facts.user.open_files.file = facts.user.open_files_limit.file = limits_path;
    if (const auto status = root.text(status_path)) {
        // Real, effective, saved and file-system identity, in this order.
        if (const auto line = line_of(*status, "Uid:")) {
            const auto ids = split(*line);
            facts.user.id.value = ids.empty() ? std::nullopt : number(ids[std::min<std::size_t>(1, ids.size() - 1)]);
        }
        for (const char* key : {"Gid:", "Groups:"}) {
            for (const std::string& id : split(line_of(*status, key).value_or(""))) {
                if (const auto group = number(id);
                    group &&
                    std::find(facts.user.groups.begin(), facts.user.groups.end(), *group) == facts.user.groups.end()) {
                    facts.user.groups.push_back(*group);
                }
            }
        }
        facts.user.cpus_allowed.value = line_of(*status, "Cpus_allowed_list:");
    }
    if (const auto limits = root.text(limits_path)) {
        const auto words = split(line_of(*limits, "Max open files").value_or(""));
        facts.user.open_files.value = limit(words, 0);
        facts.user.open_files_limit.value = limit(words, 1);
    }
}

void read_system(const BoardRoot& root, BoardFacts& facts) {
    facts.model = text_fact(root, "/proc/device-tree/model");
    facts.compatible = text_fact(root, "/proc/device-tree/compatible");
    if (facts.compatible) {
        std::replace(facts.compatible.value->begin(), facts.compatible.value->end(), '\0', ' ');
    }
    facts.kernel = text_fact(root, "/proc/sys/kernel/osrelease");
    const auto meminfo = root.text("/proc/meminfo");
    facts.memory = memory_fact(meminfo, "MemTotal:");
    facts.cma = memory_fact(meminfo, "CmaTotal:");
    facts.cma_free = memory_fact(meminfo, "CmaFree:");
    std::istringstream modules(root.text("/proc/modules").value_or(""));
    for (std::string line; std::getline(modules, line);) {
        facts.modules.push_back(line.substr(0, line.find(' ')));
    }
    for (const std::string& name : root.names("/sys/bus/pci/devices")) {
        const std::string folder = "/sys/bus/pci/devices/" + name;
        if (root.text(folder + "/vendor") == "0x1f4b" && root.text(folder + "/device") == "0x0650") {
            facts.axera_cards.push_back(folder);
        }
    }
    facts.preload.file = "/proc/self/maps";
    if (const auto maps = root.text(facts.preload.file)) {
        const std::size_t at = maps->find("libnpu-preload.so");
        if (at != std::string::npos) {
            facts.preload.value = "libnpu-preload.so";
        }
    }
}

}  // namespace npu::device::board
