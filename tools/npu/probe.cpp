// `npu probe`: what the board says about itself, without judgement.
#include <fcntl.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "commands.h"
#include "device/board_facts.h"
#include "device/rknpu_device.h"
#include "device/rocket_device.h"
#include "printable.h"
#include "program_file.h"
#include "uapi/syscalls.h"

namespace npu::tools {

namespace {

using nlohmann::ordered_json;

struct Arguments {
    std::string root = "/";
    bool json = false;
};

// null where the board does not say.
template <typename T>
ordered_json json_of(const device::Fact<T>& fact) {
    return {{"value", fact ? ordered_json(*fact) : ordered_json(nullptr)}, {"file", fact.file}};
}

ordered_json json_of(const device::GovernedClock& clock) {
    return {{"folder", clock.folder},
            {"cpus", clock.cpus},
            {"governor", json_of(clock.governor)},
            {"governors", clock.governors},
            {"hertz", json_of(clock.current)},
            {"limit_hertz", json_of(clock.limit)},
            {"lowest_hertz", json_of(clock.lowest)},
            {"highest_hertz", json_of(clock.highest)}};
}

ordered_json json_of(const device::NpuFacts& npu) {
    ordered_json nodes = ordered_json::array();
    for (const device::DeviceNode& node : npu.nodes) {
        nodes.push_back({{"path", node.path},
                         {"driver", node.driver},
                         {"present", node.present},
                         {"mode", format("%04o", node.mode)},
                         {"user", node.user},
                         {"group", node.group},
                         {"group_name", node.group_name},
                         {"allowed", node.allowed}});
    }
    return {{"rknpu", npu.vendor},
            {"rknpu_version", json_of(npu.vendor_version)},
            {"rocket", npu.rocket},
            {"nodes", std::move(nodes)},
            {"clock", npu.clock ? json_of(*npu.clock) : ordered_json(nullptr)},
            {"fixed_hertz", json_of(npu.fixed_clock)},
            {"enabled_in_device_tree", json_of(npu.tree_enabled)},
            {"operating_points", json_of(npu.operating_points)},
            {"iommu", json_of(npu.iommu)},
            {"autosuspend_ms", json_of(npu.autosuspend)}};
}

// Which node answers system calls as an NPU driver does. Under libnpu-preload.so (`npu sim`) that is the simulated kernel,
// which sysfs does not know.
ordered_json answering() {
    uapi::Syscalls& calls = uapi::libc_syscalls();
    ordered_json found = ordered_json::array();
    const auto rknpu = device::find_rknpu_node(calls);
    const auto rocket = device::find_rocket_node(calls);
    if (rknpu) {
        found.push_back({{"driver", "rknpu"}, {"node", *rknpu}});
    }
    if (rocket) {
        found.push_back({{"driver", "rocket"}, {"node", *rocket}});
    }
    return found;
}

ordered_json json_of(const device::BoardFacts& facts, bool this_machine) {
    ordered_json json{{"root", facts.root},
                      {"model", json_of(facts.model)},
                      {"compatible", json_of(facts.compatible)},
                      {"kernel", json_of(facts.kernel)}};
    const bool known = facts.compatible && facts.compatible->find("rockchip,rk3588") != std::string::npos;
    if (known) {
        const rockchip::ChipProfile& chip = rockchip::rk3588();
        json["chip"] = {{"name", chip.name}, {"cores", chip.cores}};
        // Of 4 GiB each; the vendor's driver has 16 domains since 0.9.8, rocket a space for each core.
        const auto version = device::version_number(facts.npu.vendor_version.value.value_or(""));
        json["chip"]["address_spaces"] = facts.npu.rocket ? ordered_json(chip.cores)
                                         : !version       ? ordered_json(nullptr)
                                                          : ordered_json(*version >= 908 ? 16 : 1);
    } else {
        json["chip"] = nullptr;
    }
    json["npu"] = json_of(facts.npu);
    const ordered_json answers = this_machine ? answering() : ordered_json::array();
    json["answering"] = answers;
    json["preload"] = json_of(facts.preload);
    if (this_machine) {
        const Result<Options>& options = npu::options();
        const std::string device = options ? options->device : "auto";
        json["GGML_NPU_DEVICE"] = device;
        json["simulated"] = facts.preload.value.has_value() || device.rfind("simulated", 0) == 0 ||
                            (device == "auto" && answers.empty());
    } else {
        json["simulated"] = facts.npu.nodes.empty();
    }
    json["ddr"] = facts.ddr ? json_of(*facts.ddr) : ordered_json(nullptr);
    json["cpus"] = ordered_json::array();
    for (const device::GovernedClock& clock : facts.cpus) {
        json["cpus"].push_back(json_of(clock));
    }
    json["cpus_online"] = json_of(facts.cpus_online);
    json["thermal"] = ordered_json::array();
    for (const device::ThermalZone& zone : facts.zones) {
        json["thermal"].push_back({{"type", zone.type},
                                   {"millidegrees", json_of(zone.temperature)},
                                   {"passive_trip_millidegrees", json_of(zone.passive_trip)}});
    }
    json["cooling"] = ordered_json::array();
    for (const device::CoolingDevice& device : facts.cooling) {
        json["cooling"].push_back({{"type", device.type}, {"state", json_of(device.state)}});
    }
    json["memory_bytes"] = json_of(facts.memory);
    json["cma_bytes"] = json_of(facts.cma);
    json["cma_free_bytes"] = json_of(facts.cma_free);
    json["user"] = {{"id", json_of(facts.user.id)},
                    {"groups", facts.user.groups},
                    {"cpus_allowed", json_of(facts.user.cpus_allowed)},
                    {"open_files", json_of(facts.user.open_files)},
                    {"open_files_limit", json_of(facts.user.open_files_limit)}};
    json["software"] = ordered_json::array();
    for (const device::Software& software : facts.software) {
        json["software"].push_back({{"name", software.name}, {"version", json_of(software.version)}});
    }
    json["axera_cards"] = facts.axera_cards;
    json["modules"] = facts.modules;
    json["users"] = ordered_json::array();
    for (const device::NpuUser& user : facts.users) {
        json["users"].push_back({{"process", user.process}, {"name", user.name}, {"node", user.node}});
    }
    json["hidden_processes"] = facts.hidden_processes;
    return json;
}

// The same as lines "npu.clock.governor: performance". The files stand in the JSON.
void flatten(const ordered_json& json, const std::string& name, std::string& text) {
    if (json.is_object() && json.contains("value") && json.contains("file")) {
        flatten(json["value"], name, text);
    } else if (json.is_object() && !json.empty()) {
        for (const auto& [key, value] : json.items()) {
            flatten(value, name.empty() ? key : name + "." + key, text);
        }
    } else if (json.is_array() && !json.empty() && json.front().is_object()) {
        for (std::size_t i = 0; i < json.size(); ++i) {
            flatten(json[i], name + "." + std::to_string(i), text);
        }
    } else if (json.is_array()) {
        text += name + ":";
        for (const ordered_json& value : json) {
            text += " " + (value.is_string() ? printable(value.get<std::string>()) : value.dump());
        }
        text += json.empty() ? " none\n" : "\n";
    } else {
        text += name + ": " +
                (json.is_null()     ? "unknown"
                 : json.is_string() ? printable(json.get<std::string>())
                                    : json.dump()) +
                "\n";
    }
}

void run(const Arguments& arguments) {
    const Result<device::BoardRoot> root = device::BoardRoot::open(arguments.root);
    if (!root) {
        fail(root.error().message);
    }
    const ordered_json json = json_of(device::read_board(*root), root->is_this_machine());
    std::string text;
    if (arguments.json) {
        text = json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    } else {
        flatten(json, "", text);
    }
    if (const Result<void> written = write_file("-", text); !written) {
        fail(written.error().message);
    }
}

}  // namespace

void add_probe(CLI::App& program) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command = program.add_subcommand(
        "probe",
        "Prints what is known of the NPU here: driver, nodes, clocks, memory, libraries; and whether it is simulated");
    command->add_option("--root", arguments->root, "Folder that holds the files of the board (default: /)");
    command->add_flag("--json", arguments->json, "Prints JSON, with the file that each fact was read from");
    command->footer("Exit status: 0, or 2 when the folder cannot be read. npu doctor judges the same facts.");
    command->callback([arguments] { run(*arguments); });
}

}  // namespace npu::tools
