#include "rockchip/golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace npu::rockchip::test {

namespace {

std::uint64_t number(const nlohmann::json& text) { return std::stoull(text.get<std::string>(), nullptr, 16); }

std::uint16_t target_of(const std::string& block) {
    static const std::map<std::string, std::uint16_t> targets{
        {"CNA", target::cna}, {"CORE", target::core}, {"DPU", target::dpu}, {"RDMA", target::dpu_rdma}};
    return targets.at(block);
}

std::uint64_t bits_of(const std::string& precision) {
    static const std::map<std::string, std::uint64_t> bits{{"int4", 4},  {"int8", 8},  {"int16", 16}, {"fp16", 16},
                                                           {"tf32", 32}, {"fp32", 32}, {"int32", 32}};
    return bits.at(precision);
}

Golden load(const std::filesystem::path& path) {
    std::ifstream stream(path);
    const nlohmann::json file = nlohmann::json::parse(stream);
    Golden golden;
    golden.name = path.stem().string();
    golden.input = file.at("in");
    golden.output = file.at("out");
    const bool convolution = file.contains("IC");
    golden.pixels = convolution ? file.at("H").get<std::uint64_t>() * file.at("W").get<std::uint64_t>()
                                : file.at("M").get<std::uint64_t>();
    golden.channels = file.at(convolution ? "IC" : "K");
    golden.kernels = file.at(convolution ? "OC" : "N");
    for (const nlohmann::json& entry : file.at("tasks")) {
        GoldenTask task;
        for (const nlohmann::json& write : entry.at("regs")) {
            task.registers.push_back({target_of(write.at(0)), static_cast<std::uint16_t>(number(write.at(1))),
                                      static_cast<std::uint32_t>(number(write.at(2)))});
        }
        for (const nlohmann::json& word : entry.at("words")) {
            task.words.push_back(number(word));
        }
        for (const nlohmann::json& word : entry.at("tail")) {
            task.tail.push_back(number(word));
        }
        golden.words.insert(golden.words.end(), task.words.begin(), task.words.end());
        golden.tasks.push_back(std::move(task));
    }
    golden.iova = 0x01000000;
    if (golden.tasks.size() > 1) {
        golden.iova = decode(golden.tasks[0].tail[0]).value - 8 * golden.tasks[0].words.size();
    }
    return golden;
}

}  // namespace

std::uint32_t Golden::value(std::uint16_t offset) const {
    std::uint32_t result = 0;
    for (const Command& command : tasks.front().registers) {
        if (command.offset == offset) {
            result = command.value;
        }
    }
    return result;
}

std::vector<CheckBuffer> Golden::buffers() const {
    std::vector<CheckBuffer> buffers{{value(0x1070), pixels * channels * bits_of(input) / 8, false},
                                     {value(0x1110), kernels * channels * bits_of(input) / 8, false},
                                     {value(0x4020), pixels * kernels * bits_of(output) / 8, true},
                                     {iova, words.size() * 8, false}};
    if (value(0x5038) != 0) {
        buffers.push_back({value(0x5018), pixels * kernels * bits_of(output) / 8, false});
    }
    return buffers;
}

CheckInput Golden::check_input() const {
    CheckInput input;
    input.words = words;
    input.words_iova = iova;
    input.body_words = static_cast<std::uint32_t>(tasks.front().registers.size());
    input.task_number = static_cast<std::uint32_t>(tasks.size());
    return input;
}

std::optional<std::string> test_data() {
    const char* folder = std::getenv("NPU_TEST_DATA");
    std::error_code error;
    if (folder == nullptr || !std::filesystem::is_directory(std::filesystem::path(folder) / "golden", error)) {
        return std::nullopt;
    }
    return folder;
}

std::vector<Golden> load_goldens(const std::string& folder) {
    std::vector<Golden> goldens;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(folder) / "golden")) {
        if (entry.path().extension() == ".json") {
            goldens.push_back(load(entry.path()));
        }
    }
    std::ranges::sort(goldens, {}, &Golden::name);
    return goldens;
}

}  // namespace npu::rockchip::test
