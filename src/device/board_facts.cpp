#include "device/board_facts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "device/board_read.h"

namespace npu::device {

namespace board {

Text text_fact(const BoardRoot& root, const std::string& path) { return {root.text(path), path}; }

Number number_fact(const BoardRoot& root, const std::string& path, std::int64_t unit) {
    Number fact{std::nullopt, path};
    if (const std::optional<std::string> text = root.text(path)) {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
        std::int64_t product = 0;
        if (error == std::errc() && end == text->data() + text->size() &&
            !__builtin_mul_overflow(value, unit, &product)) {
            fact.value = product;
        }
    }
    return fact;
}

std::vector<std::string> split(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> pieces;
    for (std::string piece; stream >> piece;) {
        pieces.push_back(piece);
    }
    return pieces;
}

std::optional<std::string> line_of(const std::string& text, const std::string& key) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        if (starts_with(line, key)) {
            const std::size_t begin = line.find_first_not_of(" \t", key.size());
            return begin == std::string::npos ? std::string() : line.substr(begin);
        }
    }
    return std::nullopt;
}

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace board

std::optional<std::int64_t> version_number(const std::string& text) {
    // The first digit.digit[.digit...] of the text: "RKNPU driver: v0.9.8".
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) {
            continue;
        }
        int part[3] = {};
        int parts = 0;
        const char* next = text.data() + at;
        const char* const end = text.data() + text.size();
        while (parts < 3) {
            const auto [stop, error] = std::from_chars(next, end, part[parts]);
            if (error != std::errc()) {
                break;
            }
            ++parts;
            next = stop;
            if (next == end || *next != '.') {
                break;
            }
            ++next;
        }
        if (parts >= 2 && part[0] < 1000) {
            return part[0] * 10000 + std::min(part[1], 99) * 100 + std::min(part[2], 99);
        }
        at = static_cast<std::size_t>(next - text.data());
    }
    return std::nullopt;
}

BoardFacts read_board(const BoardRoot& root, const std::vector<std::string>& more_folders) {
    BoardFacts facts;
    facts.root = root.folder();
    board::read_user(root, facts);
    board::read_system(root, facts);
    board::read_clocks(root, facts);
    board::read_npu(root, facts);
    board::read_software(root, more_folders, facts);
    board::read_processes(root, facts);
    return facts;
}

}  // namespace npu::device
