#include "elf/frames.h"

#include <algorithm>

namespace npu::elf {

namespace {

constexpr std::uint8_t omitted = 0xff;

// Reads values one behind the other at addresses of the image. After a failed read everything reads as 0.
class Cursor {
  public:
    Cursor(const Image& image, std::uint64_t address)
        : image_(image), address_(address), rest_(image.rest_at(address)) {}

    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] std::uint64_t address() const { return address_ + at_; }

    template <typename T>
    T take() {
        const auto value = good_ ? load<T>(rest_, at_) : std::nullopt;
        good_ = value.has_value();
        at_ += sizeof(T);
        return value.value_or(T{0});
    }
    std::uint64_t take_uleb() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; good_; shift += 7) {
            const auto byte = take<std::uint8_t>();
            if (shift < 64) {
                value |= std::uint64_t{byte & 0x7fU} << shift;
            }
            if ((byte & 0x80) == 0) {
                break;
            }
        }
        return value;
    }
    std::uint64_t take_sleb() {
        std::uint64_t value = 0;
        unsigned shift = 0;
        std::uint8_t byte = 0;
        do {
            byte = take<std::uint8_t>();
            if (shift < 64) {
                value |= std::uint64_t{byte & 0x7fU} << shift;
            }
            shift += 7;
        } while ((byte & 0x80) != 0 && good_);
        if (shift < 64 && (byte & 0x40) != 0) {
            value |= ~std::uint64_t{0} << shift;
        }
        return value;
    }
    // A pointer in one of the DW_EH_PE encodings; `data` is what "datarel" counts from.
    std::optional<std::uint64_t> take_encoded(std::uint8_t encoding, std::uint64_t data) {
        if (encoding == omitted) {
            return std::nullopt;
        }
        const std::uint64_t here = address();
        std::uint64_t value = 0;
        switch (encoding & 0x0f) {
            case 0x00:
            case 0x04:
            case 0x0c: value = take<std::uint64_t>(); break;
            case 0x01: value = take_uleb(); break;
            case 0x02: value = take<std::uint16_t>(); break;
            case 0x03: value = take<std::uint32_t>(); break;
            case 0x09: value = take_sleb(); break;
            case 0x0a: value = static_cast<std::uint64_t>(sign_extend(take<std::uint16_t>(), 16)); break;
            case 0x0b: value = static_cast<std::uint64_t>(sign_extend(take<std::uint32_t>(), 32)); break;
            default: good_ = false;
        }
        if (!good_ || value == 0) {
            return good_ ? std::optional<std::uint64_t>(0) : std::nullopt;
        }
        switch (encoding & 0x70) {
            case 0x00: break;
            case 0x10: value += here; break;
            case 0x30: value += data; break;
            default: return std::nullopt;
        }
        return (encoding & 0x80) != 0 ? image_.load_at<std::uint64_t>(value) : std::optional(value);
    }

  private:
    const Image& image_;
    std::uint64_t address_;
    Bytes rest_;
    std::uint64_t at_ = 0;
    bool good_ = true;
};

// What a CIE says about the FDEs that refer to it.
struct Common {
    std::uint8_t pointer = 0;
    std::uint8_t language = omitted;
    bool augmented = false;
};

std::optional<Common> read_common(const Image& image, std::uint64_t address) {
    Cursor c(image, address);
    const auto length = c.take<std::uint32_t>();
    const auto id = c.take<std::uint32_t>();
    const auto version = c.take<std::uint8_t>();
    if (!c.good() || length == 0 || length == 0xffffffff || id != 0 || (version != 1 && version != 3)) {
        return std::nullopt;
    }
    std::string augmentation;
    while (const auto letter = c.take<std::uint8_t>()) {
        augmentation.push_back(static_cast<char>(letter));
        if (!c.good() || augmentation.size() > 16) {
            return std::nullopt;
        }
    }
    c.take_uleb();  // code alignment
    c.take_sleb();  // data alignment
    c.take_uleb();  // return register (one byte in version 1; the numbers are below 128)
    Common common;
    if (augmentation.empty()) {
        return c.good() ? std::optional(common) : std::nullopt;
    }
    if (augmentation[0] != 'z') {
        return std::nullopt;
    }
    common.augmented = true;
    c.take_uleb();
    for (const char letter : augmentation.substr(1)) {
        switch (letter) {
            case 'R': common.pointer = c.take<std::uint8_t>(); break;
            case 'L': common.language = c.take<std::uint8_t>(); break;
            case 'P': {
                const auto encoding = c.take<std::uint8_t>();
                (void)c.take_encoded(encoding & 0x7f, 0);
                break;
            }
            case 'S':
            case 'B': break;  // signal frame; return address signed with key B
            default: return std::nullopt;
        }
    }
    return c.good() ? std::optional(common) : std::nullopt;
}

std::vector<LandingPad> read_landing_pads(const Image& image, std::uint64_t table, const Frame& frame) {
    std::vector<LandingPad> pads;
    Cursor c(image, table);
    const auto base = c.take_encoded(c.take<std::uint8_t>(), 0).value_or(frame.start);
    if (const auto types = c.take<std::uint8_t>(); types != omitted) {
        c.take_uleb();
    }
    const auto encoding = c.take<std::uint8_t>();
    const std::uint64_t size = c.take_uleb();
    const std::uint64_t begin = c.address();
    while (c.good() && c.address() - begin < size) {
        const auto start = c.take_encoded(encoding, 0);
        const auto length = c.take_encoded(encoding, 0);
        const auto pad = c.take_encoded(encoding, 0);
        c.take_uleb();
        if (c.good() && pad.value_or(0) != 0) {
            pads.push_back(
                {frame.start + start.value_or(0), frame.start + start.value_or(0) + length.value_or(0), base + *pad});
        }
    }
    return pads;
}

std::optional<Frame> read_frame(const Image& image, std::uint64_t address) {
    Cursor c(image, address);
    const auto length = c.take<std::uint32_t>();
    const std::uint64_t here = c.address();
    const auto back = c.take<std::uint32_t>();
    if (!c.good() || length == 0 || length == 0xffffffff || back == 0) {
        return std::nullopt;
    }
    const auto common = read_common(image, here - back);
    if (!common) {
        return std::nullopt;
    }
    const auto start = c.take_encoded(common->pointer, 0);
    const auto size = c.take_encoded(common->pointer & 0x0f, 0);
    if (!start || !size || *size == 0 || *size > (std::uint64_t{1} << 32) || !image.executable(*start) ||
        !image.offset_of(*start, *size)) {
        return std::nullopt;
    }
    Frame frame{.start = *start, .end = *start + *size, .landing_pads = {}};
    if (common->augmented) {
        c.take_uleb();
        const auto table = c.take_encoded(common->language, 0);
        if (table.value_or(0) != 0) {
            frame.landing_pads = read_landing_pads(image, *table, frame);
        }
    }
    return frame;
}

// Frames one behind the other, for a header without a table.
void walk(const Image& image, std::uint64_t address, Frames& frames) {
    for (;;) {
        const auto length = image.load_at<std::uint32_t>(address);
        const auto id = image.load_at<std::uint32_t>(address + 4);
        if (!length || !id || *length == 0 || *length == 0xffffffff) {
            return;
        }
        if (*id != 0) {
            if (auto frame = read_frame(image, address)) {
                frames.all.push_back(std::move(*frame));
            } else {
                ++frames.bad;
            }
        }
        address += 4 + std::uint64_t{*length};
    }
}

}  // namespace

Frames read_frames(const Image& image) {
    Frames frames;
    const Segment* header = image.find_segment(segment_eh_frame);
    if (header != nullptr) {
        Cursor c(image, header->address);
        const auto version = c.take<std::uint8_t>();
        const auto frame_encoding = c.take<std::uint8_t>();
        const auto count_encoding = c.take<std::uint8_t>();
        const auto table_encoding = c.take<std::uint8_t>();
        const auto first = c.take_encoded(frame_encoding, header->address);
        const auto count = c.take_encoded(count_encoding, header->address);
        if (c.good() && version == 1 && count && table_encoding != omitted) {
            for (std::uint64_t i = 0; i < *count; ++i) {
                const auto start = c.take_encoded(table_encoding, header->address);
                const auto entry = c.take_encoded(table_encoding, header->address);
                if (!c.good()) {
                    ++frames.bad;
                    break;
                }
                auto frame = start && entry ? read_frame(image, *entry) : std::nullopt;
                if (frame && frame->start == *start) {
                    frames.all.push_back(std::move(*frame));
                } else {
                    ++frames.bad;
                }
            }
        } else if (c.good() && version == 1 && first) {
            walk(image, *first, frames);
        }
    } else if (const Section* section = image.find_section(".eh_frame"); section != nullptr) {
        walk(image, section->address, frames);
    }
    std::sort(frames.all.begin(), frames.all.end(), [](auto& a, auto& b) { return a.start < b.start; });
    const auto same =
        std::unique(frames.all.begin(), frames.all.end(), [](auto& a, auto& b) { return a.start == b.start; });
    frames.all.erase(same, frames.all.end());
    return frames;
}

}  // namespace npu::elf
