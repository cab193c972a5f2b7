// Runtime libraries with the versions that they state, and processes that hold the NPU open. Libraries are found by file name
// in the usual folders, beside this program and in ../lib of it. The texts that say a version: librknnrt and librkllmrt carry
// a banner; AXCL's a build name such as V3.10.2_20251215140224; our plugin names the ggml that it was built against; ggml's
// own stands in the name of its file.
#include <algorithm>
#include <cctype>

#include "device/board_read.h"

namespace npu::device::board {

namespace {

struct Kind {
    const char* file;    // start of the file's name
    const char* name;    // how we call it
    const char* marker;  // what the version follows; empty: it stands in the file's name
    const char* keep;    // what of the marker belongs to the version
};

constexpr Kind kinds[] = {
    {"librknnrt.so", "librknnrt", "librknnrt version: ", ""},
    {"librkllmrt.so", "librkllmrt", "RKLLM SDK (version: ", ""},
    {"libaxcl_rt.so", "libaxcl_rt", "V3.", "3."},
    {"libggml-npu.so", "libggml-npu", "npu-built-for-ggml ", ""},
    {"libggml-base.so.", "libggml-base", "", ""},
};

constexpr const char* usual_folders[] = {
    "/usr/lib",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/aarch64-linux-gnu/ggml",
    "/usr/lib/x86_64-linux-gnu/ggml",
    "/usr/lib/ggml",
    "/usr/lib/axcl",
    "/usr/local/lib/ggml",
};

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

void look_at(const BoardRoot& root, const std::string& folder, const std::string& file, std::vector<Software>& found) {
    for (const Kind& kind : kinds) {
        if (!starts_with(file, kind.file)) {
            continue;
        }
        Software software{kind.name, folder + "/" + file, {std::nullopt, folder + "/" + file}};
        if (*kind.marker == '\0') {
            const std::string suffix = file.substr(std::string(kind.file).size());
            if (std::count(suffix.begin(), suffix.end(), '.') < 2) {
                return;  // a link for the linker: "0"
            }
            software.version.value = suffix;
        } else if (const auto text = root.text_after(software.path, kind.marker)) {
            software.version.value = kind.keep + text->substr(0, text->find('|'));
            while (!software.version->empty() && software.version->back() == ' ') {
                software.version.value->pop_back();
            }
        }
        found.push_back(std::move(software));
        return;
    }
}

}  // namespace

void read_software(const BoardRoot& root, const std::vector<std::string>& folders, BoardFacts& facts) {
    std::vector<std::string> places = folders;
    if (const auto program = root.link("/proc/self/exe")) {
        places.push_back(folder_of(*program));
        places.push_back(folder_of(folder_of(*program)) + "/lib");
    }
    places.insert(places.end(), std::begin(usual_folders), std::end(usual_folders));
    std::vector<std::string> seen;
    for (const std::string& place : places) {
        if (place.empty() || std::find(seen.begin(), seen.end(), place) != seen.end()) {
            continue;
        }
        seen.push_back(place);
        for (const std::string& file : root.names(place)) {
            look_at(root, place, file, facts.software);
        }
    }
}

void read_processes(const BoardRoot& root, BoardFacts& facts) {
    const std::string own = root.link("/proc/self").value_or("");
    for (const std::string& name : root.names("/proc")) {
        if (name == own || name.size() > 18 ||  // of 64 bits

            !std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
            continue;
        }
        ++facts.processes;
        const std::string folder = "/proc/" + name + "/fd";
        if (!root.readable_folder(folder)) {
            ++facts.hidden_processes;
            continue;
        }
        for (const std::string& fd : root.names(folder)) {
            const std::string target = root.link(folder + "/" + fd).value_or("");
            const bool is_npu = std::any_of(facts.npu.nodes.begin(), facts.npu.nodes.end(),
                                            [&target](const DeviceNode& node) { return node.path == target; });
            if (is_npu) {
                facts.users.push_back(
                    {std::stoll(name), root.text("/proc/" + name + "/comm").value_or("?"), target, folder + "/" + fd});
                break;
            }
        }
    }
}

}  // namespace npu::device::board
