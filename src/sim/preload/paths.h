// Which file a path of the program means: one of the machine, one of the board's tree, or a node of the simulated NPU.
//
// A path below /dev, /sys or /proc is looked for in the tree first. What is there hides the machine's file; what is not
// there is the machine's, except where the whole folder is the board's (board_tree.h). Folders that both have, such as
// /sys/class, stay the machine's, and only listings show the tree's entries besides. Links and ".." inside the tree are
// followed by the host's kernel. A relative path counts from the folder of a descriptor or from the working directory,
// and either may be inside the tree.
#pragma once

#include <climits>
#include <cstddef>

#include "sim/preload/board_tree.h"

namespace npu::sim::preload {

enum class Where {
    machine,  // the call goes on as it is
    tree,     // the call goes on with Place::path
    node,     // a node; Place::path is its file in the tree
};

struct Place {
    Place() { path[0] = '\0'; }  // and not the rest, which may be a page

    Where where = Where::machine;
    const DeviceNode* node = nullptr;
    // An absolute path. Set for the tree, for nodes, and for a path that left the tree for the machine: then `where` is
    // machine and the path is not empty.
    char path[PATH_MAX];

    // What to pass on with the call: an absolute path makes the directory descriptor irrelevant.
    [[nodiscard]] const char* path_or(const char* original) const { return path[0] != '\0' ? path : original; }
};

// False for most paths of a program: they cannot mean anything of the board. Cheap, and needs no stack to speak of.
bool may_be_simulated(int directory, const char* path);

// `directory` as for openat(). With `follow` a link at the end of the path is followed, so a link to a node is a node.
// Leaves errno alone; takes no lock after the first call.
void find_place(int directory, const char* path, bool follow, Place& place);

// The path of a folder that both the machine and the tree have, given the folder's path as the program knows it; false
// when there is nothing to add to the machine's listing. Writes the tree's folder to `tree_folder`.
bool find_tree_folder(int directory, const char* path, char (&tree_folder)[PATH_MAX]);

// True for a descriptor of a folder or file in the tree.
bool is_in_tree(int fd);

// Removes the tree's root from the front of a path, as /proc/self/fd and realpath() show it. `bytes` is the length
// without a zero; returns the new one.
std::size_t hide_root(char* path, std::size_t bytes);

// True when `path` is of the form /proc/self/fd/N or one of the other names for it; then the descriptor is in `fd`.
bool names_descriptor(const char* path, int& fd);

}  // namespace npu::sim::preload
