// Programs in JSON: a list of words under "words", or one such list in each entry of "tasks" or "programs". A word is a
// number, a string with hexadecimal digits, or (as `npu disasm --json` prints it) an object with such a "word".
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "program_file.h"

namespace npu::tools {

namespace {

using nlohmann::json;

Error bad(const Program& program, const std::string& message) {
    return Error{ErrorCode::invalid_argument, program.name + ": " + message};
}

std::optional<std::uint64_t> word_of(const json& entry) {
    if (entry.is_number_unsigned()) {
        return entry.get<std::uint64_t>();
    }
    if (entry.is_object() && entry.contains("word")) {
        return word_of(entry.at("word"));
    }
    if (!entry.is_string()) {
        return std::nullopt;
    }
    std::string text = entry.get<std::string>();
    if (text.starts_with("0x") || text.starts_with("0X")) {
        text.erase(0, 2);
    }
    std::uint64_t word = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(word) : std::nullopt;
}

Result<void> add_words(const json& list, const std::string& path, Program& program) {
    if (!list.is_array()) {
        return bad(program, path + " is no list of words");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        const std::optional<std::uint64_t> word = word_of(list[i]);
        if (!word) {
            return bad(program, npu::format("%s[%zu] is %s; expected a 64-bit word such as \"0x0201000000b11040\"",
                                            path.c_str(), i, list[i].dump().substr(0, 60).c_str()));
        }
        program.words.push_back(*word);
    }
    return {};
}

Result<void> add_parts(const json& parts, const char* key, Program& program) {
    if (!parts.is_array()) {
        return bad(program, npu::format("\"%s\" is no list", key));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string path = npu::format("%s[%zu].words", key, i);
        if (!parts[i].is_object() || !parts[i].contains("words")) {
            return bad(program, path + " is missing");
        }
        NPU_TRY(add_words(parts[i].at("words"), path, program));
    }
    return {};
}

}  // namespace

Result<void> parse_json(std::string_view bytes, Program& program) {
    json file;
    try {
        file = json::parse(bytes);
    } catch (const json::parse_error& error) {
        const std::size_t end = std::min(error.byte, bytes.size());
        const auto line = 1 + std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(end), '\n');
        return make_error(ErrorCode::invalid_argument, "%s:%lld: no JSON here: %s", program.name.c_str(),
                          static_cast<long long>(line), error.what());
    }
    if (file.is_array()) {
        return add_words(file, "the list", program);
    }
    if (file.is_object() && file.contains("soc") && file.at("soc").is_string()) {
        program.chip = file.at("soc").get<std::string>();
    }
    if (file.is_object() && file.contains("words")) {
        return add_words(file.at("words"), "words", program);
    }
    for (const char* key : {"tasks", "programs"}) {
        if (file.is_object() && file.contains(key)) {
            return add_parts(file.at(key), key, program);
        }
    }
    return bad(program, "no program in this JSON; expected \"words\", \"tasks\" or \"programs\" with lists of words");
}

}  // namespace npu::tools
