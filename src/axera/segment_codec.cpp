#include "axera/segment_codec.h"

#include <algorithm>
#include <array>
#include <limits>

namespace npu::axera {

namespace {

constexpr std::size_t window = 1024;
constexpr std::size_t shortest_copy = 3;
constexpr std::size_t longest_copy = 34 + 255;
constexpr std::size_t most_literals = 128;

Error cut_off(std::size_t at, std::size_t size, const char* what) {
    return make_error(ErrorCode::invalid_argument,
                      "packed segment: %s at byte %zu is cut off by the end at byte %zu; the file is damaged", what, at,
                      size);
}

// One command: `length` literal bytes (distance 0) or a copy.
struct Command {
    std::size_t length = 0, distance = 0;
};

// Reads the command at `at`, moves `at` behind it and its literal bytes, and checks it against what was written so far.
Result<Command> next_command(Bytes packed, std::size_t& at, std::size_t written, std::size_t most) {
    const std::size_t start = at;
    const std::uint8_t code = packed[at++];
    Command command{code + std::size_t{1}, 0};
    if (code < 0x80) {
        if (!inside(packed, at, command.length)) {
            return cut_off(start, packed.size(), "a row of literal bytes");
        }
        at += command.length;
    } else {
        const bool is_long = (code & 0x1F) == 0x1F;
        if (!inside(packed, at, is_long ? 2 : 1)) {
            return cut_off(start, packed.size(), "a copy");
        }
        command.distance = static_cast<std::size_t>(packed[at++]) << 2 | ((code >> 5) & 3);
        command.distance = command.distance == 0 ? window : command.distance;
        command.length = is_long ? std::size_t{34} + packed[at++] : (code & 0x1F) + shortest_copy;
        if (command.distance > written) {
            return make_error(
                ErrorCode::invalid_argument,
                "packed segment: the copy at byte %zu goes back %zu bytes and %zu were written; the file is "
                "damaged",
                start, command.distance, written);
        }
    }
    if (command.length > most - written) {
        return make_error(ErrorCode::invalid_argument, "packed segment: unpacks to more than %zu bytes", most);
    }
    return command;
}

// Finds earlier occurrences of the next three bytes: the newest by a hash, and older ones by chains.
class Matcher {
  public:
    explicit Matcher(Bytes bytes) : bytes_(bytes), previous_(bytes.size(), nowhere) { newest_.fill(nowhere); }

    struct Match {
        std::size_t length = 0, distance = 0;
    };

    // The longest earlier occurrence of what starts at `at`, the nearest among equals.
    [[nodiscard]] Match find(std::size_t at) const {
        Match best;
        if (at + shortest_copy > bytes_.size()) {
            return best;
        }
        const std::size_t most = std::min(longest_copy, bytes_.size() - at);
        for (std::size_t from = newest_[key(at)]; from != nowhere && at - from <= window; from = previous_[from]) {
            std::size_t length = 0;
            while (length < most && bytes_[from + length] == bytes_[at + length]) {
                ++length;
            }
            if (length > best.length) {
                best = {length, at - from};
            }
        }
        return best.length >= shortest_copy ? best : Match{};
    }

    // Makes the bytes that start at `at` known.
    void add(std::size_t at) {
        if (at + shortest_copy <= bytes_.size()) {
            previous_[at] = newest_[key(at)];
            newest_[key(at)] = at;
        }
    }

  private:
    static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

    [[nodiscard]] std::size_t key(std::size_t at) const {
        const std::uint32_t three = bytes_[at] | bytes_[at + 1] << 8 | bytes_[at + 2] << 16;
        return (three * 2654435761U) >> 20;
    }

    Bytes bytes_;
    std::vector<std::size_t> previous_;
    std::array<std::size_t, 4096> newest_{};
};

void append_literals(Buffer& to, Bytes bytes) {
    while (!bytes.empty()) {
        const std::size_t count = std::min(bytes.size(), most_literals);
        to.push_back(static_cast<std::uint8_t>(count - 1));
        to.insert(to.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
        bytes = bytes.subspan(count);
    }
}

void append_copy(Buffer& to, std::size_t length, std::size_t distance) {
    const std::size_t coded = distance % window;
    const std::size_t short_length = std::min<std::size_t>(length - shortest_copy, 31);
    to.push_back(static_cast<std::uint8_t>(0x80 | (coded & 3) << 5 | short_length));
    to.push_back(static_cast<std::uint8_t>(coded >> 2));
    if (short_length == 31) {
        to.push_back(static_cast<std::uint8_t>(length - 34));
    }
}

}  // namespace

Result<Buffer> unpack_segment(Bytes packed, std::size_t most) {
    NPU_ASSIGN(const std::size_t size, unpacked_bytes(packed, most));
    Buffer bytes;
    bytes.reserve(size);
    for (std::size_t at = 0; at < packed.size();) {
        NPU_ASSIGN(const Command command, next_command(packed, at, bytes.size(), most));
        if (command.distance == 0) {
            const auto first = packed.begin() + static_cast<std::ptrdiff_t>(at - command.length);
            bytes.insert(bytes.end(), first, first + static_cast<std::ptrdiff_t>(command.length));
            continue;
        }
        for (std::size_t i = 0; i < command.length; ++i) {
            bytes.push_back(bytes[bytes.size() - command.distance]);
        }
    }
    return bytes;
}

Result<std::size_t> unpacked_bytes(Bytes packed, std::size_t most) {
    std::size_t size = 0;
    for (std::size_t at = 0; at < packed.size();) {
        NPU_ASSIGN(const Command command, next_command(packed, at, size, most));
        size += command.length;
    }
    return size;
}

Buffer pack_segment(Bytes bytes) {
    Buffer packed;
    Matcher matcher(bytes);
    std::size_t literals = 0;  // where the row of literal bytes that is not written yet began
    for (std::size_t at = 0; at < bytes.size();) {
        const Matcher::Match match = matcher.find(at);
        if (match.length == 0) {
            matcher.add(at++);
            continue;
        }
        append_literals(packed, bytes.subspan(literals, at - literals));
        append_copy(packed, match.length, match.distance);
        for (const std::size_t end = at + match.length; at < end;) {
            matcher.add(at++);
        }
        literals = at;
    }
    append_literals(packed, bytes.subspan(literals));
    return packed;
}

}  // namespace npu::axera
