#include "tools/run_command.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace npu::tools::test {

namespace {

namespace fs = std::filesystem;

// An empty folder for this process, removed at its end.
class Folder {
  public:
    Folder() {
        std::string pattern = (fs::temp_directory_path() / "npu-tools-XXXXXX").string();
        path_ = mkdtemp(pattern.data());
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

const fs::path& folder() {
    static const Folder instance;
    return instance.path();
}

std::string content_of(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream content;
    content << stream.rdbuf();
    return content.str();
}

void add_words(const nlohmann::json& list, std::vector<std::uint64_t>& words) {
    for (const nlohmann::json& part : list) {
        for (const nlohmann::json& word : part.at("words")) {
            words.push_back(std::stoull(word.get<std::string>(), nullptr, 16));
        }
    }
}

}  // namespace

Output run(const std::string& arguments, const std::string& input) {
    write("input", input);
    const std::string command = "cd '" + folder().string() + "' && npu() { '" NPU_COMMAND "' \"$@\"; } && { npu " +
                                arguments + "; } <input >output 2>error";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("output"), read("error")};
}

std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder() / name, std::ios::binary) << content;
    return name;
}

std::string read(const std::string& name) { return content_of(folder() / name); }

std::string raw(const std::vector<std::uint64_t>& words) {
    std::string bytes;
    for (const std::uint64_t word : words) {
        for (int i = 0; i < 8; ++i) {
            bytes += static_cast<char>(word >> (8 * i));
        }
    }
    return bytes;
}

std::optional<std::vector<GoldenFile>> golden_files() {
    const char* data = std::getenv("NPU_TEST_DATA");
    std::error_code error;
    if (data == nullptr || !fs::is_directory(fs::path(data) / "golden", error)) {
        return std::nullopt;
    }
    std::vector<GoldenFile> files;
    for (const char* place : {"golden", "golden/rv1106"}) {
        for (const auto& entry : fs::directory_iterator(fs::path(data) / place)) {
            if (entry.path().extension() != ".json") {
                continue;
            }
            GoldenFile file;
            file.path = entry.path().string();
            file.other_chip = std::string(place) != "golden";
            std::ifstream stream(entry.path());
            const nlohmann::json json = nlohmann::json::parse(stream);
            add_words(json.at(file.other_chip ? "programs" : "tasks"), file.words);
            files.push_back(std::move(file));
        }
    }
    std::ranges::sort(files, {}, &GoldenFile::path);
    return files;
}

}  // namespace npu::tools::test
