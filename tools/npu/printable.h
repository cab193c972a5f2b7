// Text from files of a board, which may be anybody's, for a terminal: what is not plain ASCII becomes a question mark, so that no
// file can move a cursor or hide a line. JSON needs no such care.
#pragma once

#include <string>

namespace npu::tools {

inline std::string printable(std::string text) {
    for (char& c : text) {
        c = c == '\n' || c == '\t' ? ' ' : c < ' ' || c > '~' ? '?' : c;
    }
    return text;
}

}  // namespace npu::tools
