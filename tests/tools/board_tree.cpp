#include "tools/board_tree.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace npu::tools::test {

namespace {

namespace fs = std::filesystem;

const fs::path descriptions = fs::path(NPU_SOURCE_DIR) / "tests/tools/doctor";

bool is_root() { return geteuid() == 0; }

// Files of root would belong to group 0, whose members udev's rules do not mean.
gid_t group() { return is_root() ? 44444 : getegid(); }

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
        text.replace(at, what.size(), with);
    }
    return text;
}

std::string unescaped(const std::string& text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            bytes += text[i];
            continue;
        }
        switch (text[++i]) {
            case 'n': bytes += '\n'; break;
            case 't': bytes += '\t'; break;
            case '0': bytes += '\0'; break;
            case 'x':
                bytes += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
                i += 2;
                break;
            default: throw std::runtime_error("unknown escape in " + text);
        }
    }
    return bytes;
}

void read_into(const fs::path& path, TreeDescription& tree) {
    std::ifstream stream(path);
    if (!stream) {
        throw std::runtime_error("no description " + path.string());
    }
    for (std::string line; std::getline(stream, line);) {
        std::istringstream words(line);
        std::string verb;
        std::string first;
        std::string second;
        words >> verb >> first >> second;
        if (verb.empty() || verb[0] == '#') {
            continue;
        }
        if (verb == "include") {
            read_into(descriptions / first, tree);
        } else if (verb == "expect") {
            tree.expected[first] = second;
        } else if (verb == "change") {
            tree.changes.push_back({first, second, {}});
        } else {
            (tree.changes.empty() ? tree.lines : tree.changes.back().lines).push_back(line);
        }
    }
}

}  // namespace

std::vector<std::string> tree_names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(descriptions)) {
        if (entry.path().extension() == ".tree") {
            names.push_back(entry.path().stem().string());
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

TreeDescription read_tree(const std::string& name) {
    TreeDescription tree;
    tree.name = name;
    read_into(descriptions / (name + ".tree"), tree);
    return tree;
}

BoardTree::BoardTree(const TreeDescription& description) {
    std::string pattern = (fs::temp_directory_path() / "npu-board-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    apply(description.lines);
}

BoardTree::~BoardTree() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
}

void BoardTree::apply(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
        std::istringstream words(line);
        std::string verb;
        std::string name;
        words >> verb >> name;
        const fs::path path = folder_ / fs::path(name).relative_path();
        if (verb == "remove") {
            fs::remove_all(path);
            continue;
        }
        fs::create_directories(verb == "dir" ? path : path.parent_path());
        if (verb == "dir") {
            continue;
        }
        if (verb == "link") {
            std::string arrow;
            std::string target;
            words >> arrow >> target;
            fs::remove(path);
            fs::create_symlink(target, path);
            continue;
        }
        const std::size_t equals = line.find(" =");
        if (verb != "file" || equals == std::string::npos) {
            throw std::runtime_error("not understood: " + line);
        }
        std::string text = line.substr(std::min(equals + 3, line.size()));
        text = replaced(replaced(text, "@GID@", std::to_string(group())), "@OTHER@", std::to_string(geteuid() + 12345));
        std::string mode;
        words >> mode;
        fs::remove(path);
        std::ofstream(path, std::ios::binary) << unescaped(text);
        if (mode != "=") {
            if (is_root() && chown(path.c_str(), static_cast<uid_t>(-1), group()) != 0) {
                throw std::runtime_error("chown " + path.string());
            }
            fs::permissions(path, static_cast<fs::perms>(std::stoi(mode, nullptr, 8)));
        }
    }
}

std::string BoardTree::content(const std::string& path) const {
    std::ifstream stream(folder_ / fs::path(path).relative_path(), std::ios::binary);
    std::ostringstream content;
    content << stream.rdbuf();
    return stream ? content.str() : "(missing)";
}

void BoardTree::write(const std::string& path, const std::string& content) const {
    std::ofstream(folder_ / fs::path(path).relative_path(), std::ios::binary) << content;
}

}  // namespace npu::tools::test
