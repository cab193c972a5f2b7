#include "axera/base64.h"

namespace npu::axera {

namespace {
constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}

Result<Buffer> decode_base64(std::string_view text) {
    if (text.size() % 4 != 0) {
        return make_error(ErrorCode::invalid_argument, "base64 text of %zu characters; it comes in fours", text.size());
    }
    Buffer bytes;
    for (std::size_t at = 0; at < text.size(); at += 4) {
        std::uint32_t bits = 0;
        unsigned padding = 0;
        for (std::size_t i = at; i < at + 4; ++i) {
            const std::size_t digit = alphabet.find(text[i]);
            const bool may_pad = i >= at + 2 && at + 4 == text.size();
            if (text[i] == '=' && may_pad) {
                ++padding;
            } else if (digit == std::string_view::npos || padding != 0) {
                return make_error(ErrorCode::invalid_argument, "base64 text: character 0x%02x at %zu has no meaning",
                                  static_cast<unsigned char>(text[i]), i);
            }
            bits = bits << 6 | static_cast<std::uint32_t>(digit == std::string_view::npos ? 0 : digit);
        }
        for (unsigned i = 0; i < 3 - padding; ++i) {
            bytes.push_back(static_cast<std::uint8_t>(bits >> (16 - 8 * i)));
        }
    }
    return bytes;
}

std::string encode_base64(Bytes bytes) {
    std::string text;
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            bits = bits << 8 | (i < count ? bytes[at + i] : 0U);
        }
        for (std::size_t i = 0; i < 4; ++i) {
            text += i <= count ? alphabet[bits >> (18 - 6 * i) & 63] : '=';
        }
    }
    return text;
}

}  // namespace npu::axera
