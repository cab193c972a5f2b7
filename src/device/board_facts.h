// What a board says about itself, read once from files: nothing is opened that wakes hardware up, nothing is written. Each
// fact carries the file that said it, and may be missing; a missing fact is unknown, never a default. Most of them are those
// that users' reports and published measurements name as the cause of a slow or failing NPU (docs/doctor.md has the list and
// the figures).
//
// Where facts stand: the vendor's driver prints its version in debugfs or procfs and makes DRM nodes whose device says
// DRIVER=RKNPU; mainline's makes a node under /dev/accel whose device says DRIVER=rocket. Clocks that a governor moves stand
// under /sys/class/devfreq (NPU; `dmc` is the memory controller) and /sys/devices/system/cpu/cpufreq.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/board_root.h"

namespace npu::device {

template <typename T>
struct Fact {
    std::optional<T> value;
    std::string file;  // who says so; who was asked, when there is no value

    explicit operator bool() const { return value.has_value(); }
    const T& operator*() const { return *value; }
    const T* operator->() const { return &*value; }
};

using Text = Fact<std::string>;
using Number = Fact<std::int64_t>;

// A device file that leads to an NPU driver.
struct DeviceNode {
    std::string path;    // /dev/dri/card1
    std::string driver;  // rknpu or rocket
    std::string file;    // who says that
    bool present = false;
    bool render = false;    // a render node of the vendor's driver
    unsigned mode = 0;      // permission bits
    std::int64_t user = 0;  // owner
    std::int64_t group = 0;
    std::string group_name;  // from /etc/group; empty: not found
    bool allowed = false;    // the user of UserFacts may read and write it, by owner, group and mode
};

// A clock with a governor, of devfreq (Hz) or cpufreq (kHz in files, Hz here).
struct GovernedClock {
    std::string folder;
    std::string cpus;  // of a CPU policy: "4-5"
    Text governor;
    std::vector<std::string> governors;  // that may be chosen
    Number current, lowest, highest;     // Hz; lowest and highest of what the hardware offers
    Number limit;                        // Hz; highest that is allowed now
};

struct NpuFacts {
    Text vendor_version;      // "0.9.8"
    bool vendor = false;      // the vendor's driver runs
    bool rocket = false;      // mainline's driver runs
    std::string vendor_file;  // what shows it
    std::string rocket_file;
    std::vector<DeviceNode> nodes;
    std::optional<GovernedClock> clock;  // devfreq
    Number fixed_clock;                  // Hz, where nothing governs it (mainline)
    Fact<bool> operating_points;         // the device tree has a table of voltages and clocks for it
    Fact<bool> tree_enabled;             // the device tree has an NPU that is not disabled
    Fact<bool> iommu;
    Number autosuspend;  // ms; rocket
};

struct ThermalZone {
    std::string folder, type;
    Number temperature;   // of a thousandth of a degree Celsius
    Number passive_trip;  // where throttling starts; the lowest passive trip
};

struct CoolingDevice {
    std::string folder, type;
    Number state;  // 0: does nothing now
};

struct UserFacts {
    Number id;
    std::vector<std::int64_t> groups;
    Text cpus_allowed;                    // "0-7"
    Number open_files, open_files_limit;  // soft and hard; -1: unlimited
};

struct Software {
    std::string name;  // librknnrt, librkllmrt, libaxcl_rt, libggml-npu, libggml-base
    std::string path;
    Text version;  // as the file states it
};

struct NpuUser {
    std::int64_t process = 0;
    std::string name;
    std::string node;
    std::string file;
};

struct BoardFacts {
    std::string root;
    Text model, compatible, kernel;
    NpuFacts npu;
    std::optional<GovernedClock> ddr;
    std::vector<GovernedClock> cpus;
    Text cpus_online, cpus_present;
    std::vector<ThermalZone> zones;
    std::vector<CoolingDevice> cooling;
    Number memory, cma, cma_free;  // bytes
    std::vector<std::string> modules;
    UserFacts user;
    std::vector<Software> software;
    std::vector<NpuUser> users;
    std::int64_t processes = 0, hidden_processes = 0;  // hidden: may not be looked into
    std::vector<std::string> axera_cards;              // PCI devices 1f4b:0650
    Text preload;  // libnpu-preload.so in this process: the driver it sees is simulated
};

// Reads everything. Never fails: what cannot be read is unknown. `more_folders` are looked into for libraries, first.
BoardFacts read_board(const BoardRoot& root, const std::vector<std::string>& more_folders = {});

// The first version in a text as a number to compare, as the vendor's driver counts: 908 for "v0.9.8". Second
// and third numbers count up to 99 (a kernel's 6.1.115 is 60199). Missing when there is none.
std::optional<std::int64_t> version_number(const std::string& text);

}  // namespace npu::device
