#include "fixture.h"

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "elf/file.h"

namespace npu::elf::testing {

std::string fixture(const std::string& name) { return std::string(NPU_ELF_FIXTURES) + "/" + name; }

bool have(const std::string& name) { return std::filesystem::exists(fixture(name)); }

Program analysed(const std::string& name) {
    auto bytes = read_file(fixture(name));
    EXPECT_TRUE(bytes);
    auto image = Image::parse(std::move(*bytes), name);
    EXPECT_TRUE(image) << (image ? "" : image.error().message);
    auto program = Program::analyse(std::move(*image));
    EXPECT_TRUE(program) << (program ? "" : program.error().message);
    return std::move(*program);
}

Output shell(const std::string& command) {
    Output output;
    std::FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return output;
    }
    char block[4096];
    while (const std::size_t count = std::fread(block, 1, sizeof block, pipe)) {
        output.text.append(block, count);
    }
    const int status = pclose(pipe);
    output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return output;
}

std::vector<std::string> lines(const std::string& text) {
    std::vector<std::string> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        all.push_back(line);
    }
    return all;
}

std::map<std::uint64_t, TrueFunction> true_functions(const std::string& twin) {
    std::map<std::uint64_t, TrueFunction> functions;
    for (const std::string& line : lines(shell("aarch64-linux-gnu-nm -S --defined-only " + fixture(twin)).text)) {
        unsigned long long address = 0, size = 0;
        char type = 0;
        char name[4096];
        if (std::sscanf(line.c_str(), "%llx %llx %c %4095s", &address, &size, &type, name) == 4 &&
            std::string("tTwW").find(type) != std::string::npos && size != 0) {
            functions[address] = {size, name};
        }
    }
    return functions;
}

std::vector<std::uint64_t> true_calls(const std::string& twin, const std::string& symbol) {
    std::vector<std::uint64_t> calls;
    const std::string wanted = "<" + symbol;
    for (const std::string& line :
         lines(shell("aarch64-linux-gnu-objdump -d --no-show-raw-insn " + fixture(twin)).text)) {
        const std::size_t call = line.find("\tbl\t");
        if (call != std::string::npos && line.find(wanted, call) != std::string::npos) {
            calls.push_back(std::stoull(line, nullptr, 16));
        }
    }
    return calls;
}

std::map<std::uint64_t, Line> true_lines(const std::string& twin, const std::vector<std::uint64_t>& addresses) {
    std::string input;
    for (const std::uint64_t a : addresses) {
        input += format("0x%llx\n", static_cast<unsigned long long>(a));
    }
    const std::string list = (std::filesystem::temp_directory_path() / format("npu-elf-%d", getpid())).string();
    std::ofstream(list) << input;
    const Output output = shell("aarch64-linux-gnu-addr2line -e " + fixture(twin) + " < " + list);
    std::filesystem::remove(list);
    const std::vector<std::string> answers = lines(output.text);
    std::map<std::uint64_t, Line> result;
    for (std::size_t i = 0; i < addresses.size() && i < answers.size(); ++i) {
        const std::size_t colon = answers[i].rfind(':');
        const std::string path = answers[i].substr(0, colon);
        result[addresses[i]] = {path.substr(path.rfind('/') + 1),
                                static_cast<unsigned>(std::strtoul(answers[i].c_str() + colon + 1, nullptr, 10))};
    }
    return result;
}

}  // namespace npu::elf::testing
