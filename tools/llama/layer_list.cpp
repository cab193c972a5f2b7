#include "layer_list.h"

#include <charconv>
#include <optional>

namespace npu::tools {

namespace {

std::optional<std::uint32_t> number(std::string_view text) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                     : std::nullopt;
}

// A number, n, n-NUMBER or n/NUMBER.
std::optional<std::int64_t> layer(std::string_view text, std::uint32_t n) {
    if (text.empty() || text[0] != 'n') {
        return number(text);
    }
    if (text.size() == 1) {
        return n;
    }
    const auto operand = number(text.substr(2));
    if (!operand || (text[1] == '/' && *operand == 0)) {
        return std::nullopt;
    }
    switch (text[1]) {
        case '-': return std::int64_t{n} - *operand;
        case '/': return n / *operand;
        default: return std::nullopt;
    }
}

}  // namespace

Result<std::vector<std::uint32_t>> parse_layers(std::string_view text, std::uint32_t n) {
    std::vector<std::uint32_t> layers;
    for (bool more = true; more;) {
        const std::size_t comma = text.find(',');
        more = comma != std::string_view::npos;
        const std::string_view part = text.substr(0, comma);
        text = more ? text.substr(comma + 1) : "";
        const auto value = layer(part, n);
        if (!value) {
            return make_error(ErrorCode::invalid_argument,
                              "'%.*s' is no layer: a number, n, n-NUMBER or n/NUMBER, as in 2,n/2,n-3",
                              static_cast<int>(part.size()), part.data());
        }
        if (*value < 0 || *value > n) {
            return make_error(
                ErrorCode::invalid_argument,
                "layer %.*s is %lld; the model has layers 0 to %u (its %u blocks, and what leaves the last)",
                static_cast<int>(part.size()), part.data(), static_cast<long long>(*value), n, n);
        }
        layers.push_back(static_cast<std::uint32_t>(*value));
    }
    return layers;
}

}  // namespace npu::tools
