// Boards for tests, from compact descriptions: tests/tools/doctor/*.tree. A description is lines of
//   include NAME                 another description first (*.part)
//   file PATH [MODE] = CONTENT   one line; \n \t \0 and \xNN are bytes
//   dir PATH / link PATH -> TARGET / remove PATH
//   expect CHECK VERDICT         what `npu doctor` has to say; a later line replaces an earlier one
//   change CHECK VERDICT         begins a change to the finished tree, after which this check has to say something else
// @GID@ is the group that files get, @OTHER@ a user who does not own them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace npu::tools::test {

struct TreeChange {
    std::string check, verdict;
    std::vector<std::string> lines;
};

struct TreeDescription {
    std::string name;
    std::vector<std::string> lines;  // that make the tree, in order
    std::map<std::string, std::string> expected;
    std::vector<TreeChange> changes;
};

// Names of all descriptions, sorted.
std::vector<std::string> tree_names();

// Throws std::runtime_error for a line that is not understood.
TreeDescription read_tree(const std::string& name);

// A tree in a temporary folder, removed at its end.
class BoardTree {
  public:
    explicit BoardTree(const TreeDescription& description);
    ~BoardTree();
    BoardTree(const BoardTree&) = delete;
    BoardTree& operator=(const BoardTree&) = delete;

    void apply(const std::vector<std::string>& lines);
    [[nodiscard]] std::string folder() const { return folder_.string(); }
    [[nodiscard]] std::string content(const std::string& path) const;  // "(missing)" when there is no such file
    void write(const std::string& path, const std::string& content) const;

  private:
    std::filesystem::path folder_;
};

}  // namespace npu::tools::test
