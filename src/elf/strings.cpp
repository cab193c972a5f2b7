#include "elf/strings.h"

#include <algorithm>

namespace npu::elf {

namespace {

// Bytes of the well-formed character at the front; 0 when it is none or not printable.
std::size_t character_length(Bytes b) {
    if (b.empty()) {
        return 0;
    }
    const std::uint8_t c = b[0];
    if (c < 0x80) {
        const bool kept = (c >= 0x20 && c < 0x7f) || c == '\t' || c == '\n' || c == '\r' || c == 0x1b;
        return kept ? 1 : 0;
    }
    const std::size_t length = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (length == 0 || b.size() < length) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if ((b[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    const bool overlong = (c == 0xe0 && b[1] < 0xa0) || (c == 0xf0 && b[1] < 0x90);
    const bool not_a_character = (c == 0xed && b[1] >= 0xa0) || (c == 0xf4 && b[1] >= 0x90);
    return overlong || not_a_character ? 0 : length;
}

struct Range {
    std::uint64_t address;
    Bytes bytes;
};

std::vector<Range> data_ranges(const Image& image) {
    std::vector<Range> ranges;
    for (const Section& s : image.sections()) {
        const bool data = s.type == 1 && (s.flags & 2) != 0 && (s.flags & 4) == 0;  // PROGBITS, loaded, not code
        if (data && s.size != 0) {
            ranges.push_back({s.address, *part(image.bytes(), s.offset, s.size)});
        }
    }
    if (ranges.empty()) {
        for (const Segment& s : image.segments()) {
            if (s.type == segment_load) {
                ranges.push_back({s.address, *part(image.bytes(), s.offset, s.file_size)});
            }
        }
    }
    return ranges;
}

}  // namespace

std::size_t printable_length(Bytes bytes) {
    std::size_t length = 0;
    while (const std::size_t step = character_length(bytes.subspan(length))) {
        length += step;
    }
    return length;
}

Strings::Strings(const Image& image, std::size_t least) {
    for (const Range& range : data_ranges(image)) {
        std::size_t at = 0;
        while (at < range.bytes.size()) {
            const Bytes rest = range.bytes.subspan(at);
            const std::size_t length = printable_length(rest);
            const bool ends = length == rest.size();
            if (length >= least && (ends || rest[length] == 0)) {
                all_.push_back({.address = range.address + at,
                                .offset = static_cast<std::uint64_t>(rest.data() - image.bytes().data()),
                                .text = {reinterpret_cast<const char*>(rest.data()), length},
                                .terminated = !ends});
            }
            at += length + 1;
        }
    }
    std::sort(all_.begin(), all_.end(), [](const Text& a, const Text& b) { return a.address < b.address; });
}

const Text* Strings::find(std::uint64_t address) const {
    auto after = std::upper_bound(all_.begin(), all_.end(), address,
                                  [](std::uint64_t a, const Text& text) { return a < text.address; });
    if (after == all_.begin()) {
        return nullptr;
    }
    --after;
    return address - after->address < after->text.size() ? &*after : nullptr;
}

std::optional<std::string_view> text_at(const Image& image, std::uint64_t address) {
    const Bytes rest = image.rest_at(address);
    const std::size_t length = printable_length(rest);
    if (length == rest.size() || rest[length] != 0) {
        return std::nullopt;
    }
    return std::string_view(reinterpret_cast<const char*>(rest.data()), length);
}

}  // namespace npu::elf
