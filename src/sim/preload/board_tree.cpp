#include "sim/preload/board_tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace npu::sim {

namespace {

using namespace std::string_view_literals;  // contents may hold zero bytes

constexpr unsigned drm_major = 226;
constexpr unsigned accel_major = 261;

constexpr DeviceNode rknpu_nodes[] = {
    {"/dev/dri/card0", drm_major, 0},
    {"/dev/dri/card1", drm_major, 1},
    {"/dev/dri/renderD128", drm_major, 128},
    {"/dev/dri/renderD129", drm_major, 129},
};
constexpr DeviceNode rocket_nodes[] = {{"/dev/accel/accel0", accel_major, 0}};

constexpr std::string_view hidden[] = {
    "/dev/dri",
    "/dev/accel",
    "/sys/class/drm",
    "/sys/class/accel",
    "/sys/kernel/debug/rknpu",
    "/sys/kernel/debug/dri",
    "/sys/kernel/debug/accel",
    "/sys/module/rknpu",
    "/sys/module/rocket",
    "/sys/firmware/devicetree",
    "/proc/device-tree",
    "/proc/rknpu",
};

// Paths are relative to the group's folder. A link's target is relative to the folder that the link is in.
struct File {
    const char* path;
    std::string_view contents;
};
struct Link {
    const char* path;
    const char* target;
};
struct Group {
    const char* folder;
    std::span<const File> files;
    std::span<const Link> links;
};

constexpr File board_tree[] = {
    {"model", "Simulated rk3588 board\0"sv},
    {"compatible", "npu-sim,rk3588-board\0rockchip,rk3588\0"sv},
};
constexpr Link board_links[] = {{"proc/device-tree", "../sys/firmware/devicetree/base"}};

// What the vendor's driver shows in debugfs and, where that is not mounted, in procfs. There is no SRAM: mm is empty.
constexpr File rknpu_state[] = {
    {"version", "RKNPU driver: v0.9.8\n"},
    {"load", "NPU load:  Core0:  0%, Core1:  0%, Core2:  0%,\n"},
    {"power", "on\n"},
    {"freq", "1000000000\n"},
    {"volt", "850000\n"},
    {"delayms", "3000\n"},
    {"reset", "on\n"},
    {"mm", ""},
};

// Clocks and the voltage at 1 GHz: the table of operating points as published for this chip.
constexpr char governors[] = "rknpu_ondemand dmc_ondemand userspace powersave performance simple_ondemand\n";
constexpr File npu_devfreq[] = {
    {"name", "fdab0000.npu\n"},
    {"available_frequencies", "300000000 400000000 500000000 600000000 700000000 800000000 900000000 1000000000\n"},
    {"min_freq", "300000000\n"},
    {"max_freq", "1000000000\n"},
    {"cur_freq", "1000000000\n"},
    {"target_freq", "1000000000\n"},
    {"available_governors", governors},
    {"governor", "rknpu_ondemand\n"},
    {"polling_interval", "50\n"},
    {"load", "0@1000000000Hz\n"},
};
constexpr File ddr_devfreq[] = {
    {"name", "dmc\n"},
    {"available_frequencies", "528000000 1068000000 1560000000 2112000000\n"},
    {"min_freq", "528000000\n"},
    {"max_freq", "2112000000\n"},
    {"cur_freq", "2112000000\n"},
    {"target_freq", "2112000000\n"},
    {"available_governors", governors},
    {"governor", "dmc_ondemand\n"},
    {"polling_interval", "50\n"},
    {"load", "0@2112000000Hz\n"},
};

constexpr File rknpu_device[] = {
    {"uevent",
     "DRIVER=RKNPU\nOF_NAME=npu\nOF_FULLNAME=/npu@fdab0000\nOF_COMPATIBLE_0=rockchip,rk3588-rknpu\n"
     "OF_COMPATIBLE_N=1\nMODALIAS=of:NnpuT(null)Crockchip,rk3588-rknpu\n"},
    {"modalias", "of:NnpuT(null)Crockchip,rk3588-rknpu\n"},
    {"power/control", "auto\n"},
    {"power/runtime_status", "active\n"},
};
constexpr Link rknpu_device_links[] = {
    {"driver", "../../../bus/platform/drivers/rknpu"},
    {"subsystem", "../../../bus/platform"},
    {"of_node", "../../../firmware/devicetree/base/npu@fdab0000"},
};
constexpr File rknpu_files[] = {
    {"sys/class/drm/version", "drm 1.1.0 20060810\n"},
    {"sys/bus/platform/drivers/rknpu/uevent", ""},
    {"sys/module/rknpu/version", "0.9.8\n"},
    {"sys/module/rknpu/parameters/bypass_irq_handler", "0\n"},
    {"sys/module/rknpu/parameters/bypass_soft_reset", "0\n"},
    {"sys/firmware/devicetree/base/npu@fdab0000/compatible", "rockchip,rk3588-rknpu\0"sv},
    {"sys/firmware/devicetree/base/npu@fdab0000/name", "npu\0"sv},
    {"sys/firmware/devicetree/base/npu@fdab0000/status", "okay\0"sv},
    {"sys/kernel/debug/clk/scmi_clk_npu/clk_rate", "1000000000\n"},
};
constexpr Link rknpu_links[] = {
    {"sys/bus/platform/devices/fdab0000.npu", "../../../devices/platform/fdab0000.npu"},
    {"sys/bus/platform/drivers/rknpu/fdab0000.npu", "../../../../devices/platform/fdab0000.npu"},
    // The same driver under the name that its uevent and its kernel messages have.
    {"sys/bus/platform/drivers/RKNPU", "rknpu"},
    {"sys/class/devfreq/fdab0000.npu", "../../devices/platform/fdab0000.npu/devfreq/fdab0000.npu"},
    {"sys/class/devfreq/dmc", "../../devices/platform/dmc/devfreq/dmc"},
    {"dev/dri/by-path/platform-fdab0000.npu-card", "../card1"},
    {"dev/dri/by-path/platform-fdab0000.npu-render", "../renderD129"},
};
constexpr Group rknpu_groups[] = {
    {"/sys/firmware/devicetree/base/", board_tree, {}},
    {"/", rknpu_files, board_links},
    {"/", {}, rknpu_links},
    {"/sys/devices/platform/fdab0000.npu/", rknpu_device, rknpu_device_links},
    {"/sys/devices/platform/fdab0000.npu/devfreq/fdab0000.npu/", npu_devfreq, {}},
    {"/sys/devices/platform/dmc/devfreq/dmc/", ddr_devfreq, {}},
    {"/sys/kernel/debug/rknpu/", rknpu_state, {}},
    {"/proc/rknpu/", rknpu_state, {}},
};

// Mainline: one accel device, and each core a platform device of its own. The clock stays where the boot loader left it.
constexpr File rocket_core[] = {
    {"uevent", "DRIVER=rocket\nOF_NAME=npu\nOF_COMPATIBLE_0=rockchip,rk3588-rknn-core\nOF_COMPATIBLE_N=1\n"},
    {"power/control", "auto\n"},
    {"power/runtime_status", "suspended\n"},
};
constexpr Link rocket_core_links[] = {
    {"driver", "../../../bus/platform/drivers/rocket"},
    {"subsystem", "../../../bus/platform"},
};
constexpr File rocket_core_tree[] = {
    {"compatible", "rockchip,rk3588-rknn-core\0"sv},
    {"name", "npu\0"sv},
    {"status", "okay\0"sv},
};
constexpr File rocket_files[] = {
    {"sys/devices/platform/rknn/uevent", "DRIVER=rocket\nMODALIAS=platform:rknn\n"},
    {"sys/bus/platform/drivers/rocket/uevent", ""},
    {"sys/module/rocket/initstate", "live\n"},
    {"sys/module/rocket/refcnt", "0\n"},
    // Only patched kernels have it: whether they chain the tasks of every job. This one chains when a job asks for it.
    {"sys/module/rocket/parameters/rocket_batch_submit", "N\n"},
    {"sys/kernel/debug/clk/scmi_clk_npu/clk_rate", "200000000\n"},
};
constexpr Link rocket_links[] = {
    {"sys/devices/platform/rknn/driver", "../../../bus/platform/drivers/rocket"},
    {"sys/devices/platform/rknn/subsystem", "../../../bus/platform"},
    {"sys/bus/platform/devices/rknn", "../../../devices/platform/rknn"},
    {"sys/bus/platform/devices/fdab0000.npu", "../../../devices/platform/fdab0000.npu"},
    {"sys/bus/platform/devices/fdac0000.npu", "../../../devices/platform/fdac0000.npu"},
    {"sys/bus/platform/devices/fdad0000.npu", "../../../devices/platform/fdad0000.npu"},
    {"sys/bus/platform/drivers/rocket/module", "../../../../module/rocket"},
    {"sys/bus/platform/drivers/rocket/fdab0000.npu", "../../../../devices/platform/fdab0000.npu"},
    {"sys/bus/platform/drivers/rocket/fdac0000.npu", "../../../../devices/platform/fdac0000.npu"},
    {"sys/bus/platform/drivers/rocket/fdad0000.npu", "../../../../devices/platform/fdad0000.npu"},
    {"sys/devices/platform/fdab0000.npu/of_node", "../../../firmware/devicetree/base/npu@fdab0000"},
    {"sys/devices/platform/fdac0000.npu/of_node", "../../../firmware/devicetree/base/npu@fdac0000"},
    {"sys/devices/platform/fdad0000.npu/of_node", "../../../firmware/devicetree/base/npu@fdad0000"},
};
constexpr Group rocket_groups[] = {
    {"/sys/firmware/devicetree/base/", board_tree, {}},
    {"/", rocket_files, board_links},
    {"/", {}, rocket_links},
    {"/sys/devices/platform/fdab0000.npu/", rocket_core, rocket_core_links},
    {"/sys/devices/platform/fdac0000.npu/", rocket_core, rocket_core_links},
    {"/sys/devices/platform/fdad0000.npu/", rocket_core, rocket_core_links},
    {"/sys/firmware/devicetree/base/npu@fdab0000/", rocket_core_tree, {}},
    {"/sys/firmware/devicetree/base/npu@fdac0000/", rocket_core_tree, {}},
    {"/sys/firmware/devicetree/base/npu@fdad0000/", rocket_core_tree, {}},
};

std::span<const Group> groups(Driver driver) {
    return driver == Driver::rknpu ? std::span<const Group>(rknpu_groups) : std::span<const Group>(rocket_groups);
}

// Writes below one root; the first error stays.
class Writer {
  public:
    Writer(const std::string& root, const std::string& chip) : root_(root), chip_(chip) {}

    void file(const std::string& path, std::string_view table_contents) {
        const std::string contents = for_chip(table_contents);
        make_folders(path);
        const int fd = ::open((root_ + path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0) {
            note(path, errno == EEXIST ? 0 : errno);
            return;
        }
        const ssize_t written = ::write(fd, contents.data(), contents.size());
        note(path, written == static_cast<ssize_t>(contents.size()) ? 0 : (written < 0 ? errno : ENOSPC));
        ::close(fd);
    }

    void link(const std::string& path, const std::string& target) {
        make_folders(path);
        note(path, ::symlink(target.c_str(), (root_ + path).c_str()) != 0 && errno != EEXIST ? errno : 0);
    }

    [[nodiscard]] Result<void> result() const {
        if (error_ != 0) {
            return make_error(ErrorCode::device_failure, "cannot write %s%s: %s", root_.c_str(), failed_.c_str(),
                              std::strerror(error_));
        }
        return {};
    }

  private:
    // The table is written for this chip; another one shows its own name.
    [[nodiscard]] std::string for_chip(std::string_view contents) const {
        constexpr std::string_view chip_of_table = "rk3588";
        std::string text(contents);
        for (std::size_t at = 0; (at = text.find(chip_of_table, at)) != std::string::npos; at += chip_.size()) {
            text.replace(at, chip_of_table.size(), chip_);
        }
        return text;
    }
    void make_folders(const std::string& path) {
        for (std::size_t slash = 0; slash != std::string::npos; slash = path.find('/', slash + 1)) {
            const std::string folder = root_ + path.substr(0, slash);
            if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
                note(path.substr(0, slash), errno);
                return;
            }
        }
    }
    void note(const std::string& path, int error) {
        if (error_ == 0 && error != 0) {
            error_ = error;
            failed_ = path;
        }
    }

    std::string root_;
    std::string chip_;
    int error_ = 0;
    std::string failed_;
};

// A node with its folders: /dev/dri/card0, /sys/class/drm/card0, /sys/dev/char/226:0. `parent` is the folder of the
// device that the node belongs to.
void write_node(Writer& writer, const DeviceNode& node, const std::string& subsystem, const std::string& parent) {
    const std::string path = node.path;
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::string folder = parent + "/" + subsystem + "/" + name;
    const std::string number = format("%u:%u", node.major, node.minor);
    const std::string in_sys = folder.substr(std::strlen("/sys/"));
    writer.file(path, "");
    writer.file(folder + "/dev", number + "\n");
    writer.file(folder + "/uevent", format("MAJOR=%u\nMINOR=%u\nDEVNAME=%s\nDEVTYPE=%s_minor\n", node.major, node.minor,
                                           path.substr(std::strlen("/dev/")).c_str(), subsystem.c_str()));
    writer.link(folder + "/device", "../../../" + parent.substr(parent.rfind('/') + 1));
    writer.link(folder + "/subsystem", "../../../../../class/" + subsystem);
    writer.link("/sys/class/" + subsystem + "/" + name, "../../" + in_sys);
    writer.link("/sys/dev/char/" + number, "../../" + in_sys);
    writer.file(format("/sys/kernel/debug/%s/%u/name", subsystem == "drm" ? "dri" : "accel", node.minor),
                format("%s dev=%s unique=%s\n", subsystem == "drm" ? "rknpu" : "rocket",
                       parent.substr(parent.rfind('/') + 1).c_str(), parent.substr(parent.rfind('/') + 1).c_str()));
}

int remove_entry(const char* path, const struct stat*, int, FTW*) {
    (void)std::remove(path);
    return 0;
}

}  // namespace

std::span<const DeviceNode> device_nodes(Driver driver) {
    return driver == Driver::rknpu ? std::span<const DeviceNode>(rknpu_nodes)
                                   : std::span<const DeviceNode>(rocket_nodes);
}

bool is_below(std::string_view path, std::string_view folder) {
    while (folder.ends_with('/')) {
        folder.remove_suffix(1);
    }
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool hides_machine(std::string_view path) {
    return std::ranges::any_of(hidden, [&](std::string_view folder) { return is_below(path, folder); });
}

bool is_in_board_table(std::string_view path, Driver driver) {
    const auto concerns = [&path](const std::string& entry) { return is_below(path, entry) || is_below(entry, path); };
    for (const Group& group : groups(driver)) {
        const std::string folder = group.folder;
        if (std::ranges::any_of(group.files, [&](const File& file) { return concerns(folder + file.path); }) ||
            std::ranges::any_of(group.links, [&](const Link& link) { return concerns(folder + link.path); })) {
            return true;
        }
    }
    return concerns("/sys/dev/char") ||
           std::ranges::any_of(hidden, [&](std::string_view folder) { return concerns(std::string(folder)); });
}

Result<void> write_board_tree(const std::string& root, Driver driver, const std::string& chip) {
    Writer writer(root, chip);
    for (const Group& group : groups(driver)) {
        for (const File& file : group.files) {
            writer.file(std::string(group.folder) + file.path, file.contents);
        }
        for (const Link& link : group.links) {
            writer.link(std::string(group.folder) + link.path, link.target);
        }
    }
    for (const DeviceNode& node : device_nodes(driver)) {
        if (driver == Driver::rknpu) {
            write_node(writer, node, "drm", "/sys/devices/platform/fdab0000.npu");
        } else {
            write_node(writer, node, "accel", "/sys/devices/platform/rknn");
        }
    }
    return writer.result();
}

void remove_board_tree(const std::string& root) { (void)::nftw(root.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

}  // namespace npu::sim
