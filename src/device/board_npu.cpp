// The NPU and its drivers. The names of files are those of the drivers: the vendor's prints its version in debugfs, or in
// procfs when it is built so, and says "RKNPU" in the uevent of its devices; mainline's hangs its accel node on a platform
// device of its own, "rknn". Both clock the NPU through the firmware's clock scmi_clk_npu.
#include <algorithm>
#include <cctype>

#include "device/board_read.h"

namespace npu::device::board {

namespace {

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

// "video" for 44, from lines "video:x:44:rock".
std::string group_name(const BoardRoot& root, std::int64_t id) {
    const std::string text = root.text("/etc/group").value_or("");
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        const std::size_t third = line.find(':', second + 1);
        if (first != std::string::npos && second != std::string::npos &&
            line.substr(second + 1, third - second - 1) == std::to_string(id)) {
            // The name ends up in a command that is advised, so it has to be one word.
            const std::string name = line.substr(0, first);
            const bool word = std::all_of(name.begin(), name.end(),
                                          [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; });
            return word ? name : std::string();
        }
        begin = end + 1;
    }
    return {};
}

void add_node(const BoardRoot& root, BoardFacts& facts, const std::string& path, const char* driver,
              const std::string& said_by) {
    DeviceNode node;
    node.path = path;
    node.driver = driver;
    node.file = said_by;
    node.render = contains(path, "/renderD");
    if (const auto status = root.status(path)) {
        node.present = true;
        node.mode = status->st_mode & 07777;
        node.user = status->st_uid;
        node.group = status->st_gid;
        node.group_name = group_name(root, node.group);
        const UserFacts& user = facts.user;
        if (user.id) {
            const bool owner = *user.id == node.user;
            const bool member = std::find(user.groups.begin(), user.groups.end(), node.group) != user.groups.end();
            const unsigned bits = node.mode >> (owner ? 6 : member ? 3 : 0) & 7;
            node.allowed = *user.id == 0 || (bits & 6) == 6;
        }
    }
    facts.npu.nodes.push_back(std::move(node));
}

void find_nodes(const BoardRoot& root, BoardFacts& facts) {
    for (const std::string& name : root.names("/sys/class/drm")) {
        const std::string uevent = "/sys/class/drm/" + name + "/device/uevent";
        // Connectors ("card0-HDMI-A-1") have dashes.
        if (!contains(name, "-") && contains(lower(root.text(uevent).value_or("")), "driver=rknpu")) {
            add_node(root, facts, "/dev/dri/" + name, "rknpu", uevent);
        }
    }
    if (root.exists("/dev/rknpu")) {
        add_node(root, facts, "/dev/rknpu", "rknpu", "/dev/rknpu");
    }
    for (const std::string& name : root.names("/sys/class/accel")) {
        const std::string uevent = "/sys/class/accel/" + name + "/device/uevent";
        const std::string text = lower(root.text(uevent).value_or(""));
        if (contains(text, "driver=rocket") || contains(text, "rknn")) {
            add_node(root, facts, "/dev/accel/" + name, "rocket", uevent);
        }
    }
}

Text vendor_version(const BoardRoot& root) {
    for (const char* path : {"/sys/kernel/debug/rknpu/version", "/proc/rknpu/version", "/sys/module/rknpu/version"}) {
        if (const auto text = root.text(path); text && version_number(*text)) {
            return {text->substr(std::min(text->find_first_of("0123456789"), text->size())), path};
        }
    }
    // "[drm] Initialized rknpu 0.9.8 20240828 for fdab0000.npu on minor 1"
    const std::string log = "/var/log/dmesg";
    const std::string text = root.bytes(log).value_or("");
    const std::string key = "Initialized rknpu ";
    if (const std::size_t at = text.find(key); at != std::string::npos) {
        const std::size_t begin = at + key.size();
        return {text.substr(begin, text.find_first_of(" \n", begin) - begin), log};
    }
    return {std::nullopt, "/sys/kernel/debug/rknpu/version"};
}

// The NPU's platform device; mainline has one for each core, and the first is core 0.
std::optional<std::string> platform_device(const BoardRoot& root) {
    for (const std::string& name : root.names("/sys/bus/platform/devices")) {
        if (name.ends_with(".npu")) {
            return "/sys/bus/platform/devices/" + name;
        }
    }
    return std::nullopt;
}

Fact<bool> iommu(const BoardRoot& root, const std::optional<std::string>& device) {
    // Written by the vendor's driver when it starts.
    const std::string log = "/var/log/dmesg";
    const std::string text = lower(root.bytes(log).value_or(""));
    for (const bool on : {true, false}) {
        if (contains(text, on ? "rknpu iommu is enabled" : "rknpu iommu is disabled")) {
            return {on, log};
        }
    }
    if (!device) {
        return {std::nullopt, log};
    }
    return {root.exists(*device + "/iommu_group"), *device + "/iommu_group"};
}

void read_tree(const BoardRoot& root, NpuFacts& npu) {
    const std::string tree = "/proc/device-tree";
    npu.tree_enabled.file = tree + "/npu@*/status";
    npu.operating_points.file = tree + "/npu@*/operating-points-v2";
    for (const std::string& name : root.names(tree)) {
        if (!starts_with(name, "npu@")) {
            continue;
        }
        const std::string folder = tree + "/" + name;
        const std::string status = root.text(folder + "/status").value_or("okay");
        const bool enabled = status == "okay" || status == "ok";
        if (!npu.tree_enabled || (enabled && !*npu.tree_enabled)) {
            npu.tree_enabled = {enabled, folder + "/status"};
        }
        if (!npu.operating_points || !*npu.operating_points) {
            npu.operating_points = {root.exists(folder + "/operating-points-v2"), folder + "/operating-points-v2"};
        }
        const std::string rates = folder + "/assigned-clock-rates";
        if (const auto words = root.words(rates); !npu.fixed_clock && words && !words->empty()) {
            npu.fixed_clock = {words->front(), rates};
        }
    }
}

}  // namespace

void read_npu(const BoardRoot& root, BoardFacts& facts) {
    NpuFacts& npu = facts.npu;
    find_nodes(root, facts);
    npu.vendor_version = vendor_version(root);
    for (const DeviceNode& node : npu.nodes) {
        (node.driver == "rknpu" ? npu.vendor_file : npu.rocket_file) = node.file;
    }
    if (npu.vendor_file.empty() && npu.vendor_version) {
        npu.vendor_file = npu.vendor_version.file;
    }
    for (const auto& [file, path] :
         {std::pair{&npu.vendor_file, "/sys/module/rknpu"}, std::pair{&npu.rocket_file, "/sys/module/rocket"}}) {
        if (file->empty() && root.exists(path)) {
            *file = path;
        }
    }
    npu.vendor = !npu.vendor_file.empty();
    npu.rocket = !npu.rocket_file.empty();
    read_tree(root, npu);
    const std::string firmware_clock = "/sys/kernel/debug/clk/scmi_clk_npu/clk_rate";
    if (const Number rate = number_fact(root, firmware_clock)) {
        npu.fixed_clock = rate;
    } else if (!npu.fixed_clock) {
        npu.fixed_clock.file = firmware_clock;
    }
    const auto device = platform_device(root);
    // The simulated kernels always map what they are given, and their sysfs shows no groups.
    npu.iommu = facts.preload ? Fact<bool>{true, facts.preload.file} : iommu(root, device);
    npu.autosuspend =
        number_fact(root, device.value_or("/sys/bus/platform/devices/*.npu") + "/power/autosuspend_delay_ms");
}

}  // namespace npu::device::board
