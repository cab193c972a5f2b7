// The files by which programs find an NPU without opening it: nodes in /dev, and what drivers show in /sys and /proc.
// They stand in a folder of ordinary files and links that is laid out like the root of a board's file system, so that a
// user can look at them and change them, and so that the host's kernel resolves links and ".." in them. Which files,
// and what they contain, is a table in board_tree.cpp.
//
// Sources: the driver names, versions, clocks and voltages are those that published logs of boards show; the layout of
// /sys is that of the kernel's device model (class, bus and device folders linked to each other), which libdrm and other
// programs walk. Values do not change while a job runs: a board's load figure would.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/sim.h"

namespace npu::sim {

// A character device that leads to the simulated NPU.
struct DeviceNode {
    const char* path;  // "/dev/dri/card0"
    unsigned major;
    unsigned minor;
};

// The nodes of a driver. The vendor's driver is one DRM device with a card node and a render node. Boards number them
// by the order in which drivers start: 0 and 128 where the NPU is alone, 1 and 129 where the display controller comes
// first (published log: renderD129). Programs have both written into them, so both pairs are there.
std::span<const DeviceNode> device_nodes(Driver driver);

// True for the folder itself and for everything below it, by name alone.
bool is_below(std::string_view path, std::string_view folder);

// True for a path where nothing of the machine itself is to be seen, whether or not the tree has something there: a
// program that searches must not find the machine's own NPU or GPU.
bool hides_machine(std::string_view path);

// True for a path that write_board_tree may make, or that leads to or through one. For a look before there is a tree.
bool is_in_board_table(std::string_view path, Driver driver);

// Writes all files for one driver below the folder `root`, which is made if it does not exist. A file that is there
// already stays as it is. `chip` is the name that the device tree has for it: "rk3588". Errors: device_failure, with the path that could not be written.
Result<void> write_board_tree(const std::string& root, Driver driver, const std::string& chip);

// Removes what write_board_tree wrote, and everything else in `root`. Errors are ignored: this is tidying up.
void remove_board_tree(const std::string& root);

}  // namespace npu::sim
