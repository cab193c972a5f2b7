// How facts of a board are taken from its files: private to src/device/board_*.cpp. Each function fills one part of
// BoardFacts; those that need another part say so.
#pragma once

#include <string>
#include <vector>

#include "device/board_facts.h"

namespace npu::device::board {

Text text_fact(const BoardRoot& root, const std::string& path);
// A decimal number, times `unit`.
Number number_fact(const BoardRoot& root, const std::string& path, std::int64_t unit = 1);

// Pieces between white space.
std::vector<std::string> split(const std::string& text);
// The line that starts with `key`, without it and white space ("Uid:" -> "1000 ...").
std::optional<std::string> line_of(const std::string& text, const std::string& key);
bool starts_with(const std::string& text, const std::string& start);
bool contains(const std::string& text, const std::string& part);

void read_user(const BoardRoot& root, BoardFacts& facts);
void read_system(const BoardRoot& root, BoardFacts& facts);
void read_clocks(const BoardRoot& root, BoardFacts& facts);
void read_npu(const BoardRoot& root, BoardFacts& facts);  // needs the user, for what he may open
void read_software(const BoardRoot& root, const std::vector<std::string>& folders, BoardFacts& facts);
void read_processes(const BoardRoot& root, BoardFacts& facts);  // needs the nodes

}  // namespace npu::device::board
