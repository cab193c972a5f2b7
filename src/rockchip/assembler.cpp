#include "rockchip/assembler.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "rockchip/command.h"
#include "rockchip/disassembler.h"
#include "rockchip/registers.h"

namespace npu::rockchip {

namespace {

using Words = std::vector<std::uint64_t>;

std::string upper(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
    return result;
}

// Names, numbers and the signs "=" and ":", one after the other. What stands in parentheses is a remark.
std::vector<std::string_view> tokens_of(std::string_view line) {
    std::vector<std::string_view> tokens;
    line = line.substr(0, line.find_first_of("#;"));
    std::size_t i = 0;
    while (i < line.size()) {
        const char c = line[i];
        if (std::isspace(static_cast<unsigned char>(c)) != 0) {
            ++i;
        } else if (c == '=' || c == ':') {
            tokens.push_back(line.substr(i++, 1));
        } else if (c == '(') {
            const std::size_t end = line.find(')', i);
            i = end == std::string_view::npos ? line.size() : end + 1;
        } else {
            const std::size_t end = std::min(line.find_first_of(" \t\r\v\f=:(", i), line.size());
            tokens.push_back(line.substr(i, end - i));
            i = end;
        }
    }
    return tokens;
}

// A number with its sign apart, so that the whole range of 64 bits can be told from what a field holds.
struct Number {
    std::uint64_t magnitude = 0;
    bool negative = false;
};

std::optional<Number> number_of(std::string_view text) {
    Number number;
    number.negative = text.starts_with('-');
    text.remove_prefix(number.negative ? 1 : 0);
    const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    text.remove_prefix(hexadecimal ? 2 : 0);
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number.magnitude, hexadecimal ? 16 : 10);
    const bool whole = error == std::errc{} && end == text.data() + text.size() && !text.empty();
    return whole ? std::optional<Number>(number) : std::nullopt;
}

Error bad(const std::string& message) { return Error{ErrorCode::invalid_argument, message}; }

Result<Number> expect_number(std::string_view text, const char* what) {
    const std::optional<Number> number = number_of(text);
    if (!number) {
        return bad(format("'%.*s' is no number; expected %s", static_cast<int>(text.size()), text.data(), what));
    }
    return *number;
}

// The number as `width` bits, two's complement when it is negative; empty when it does not fit.
std::optional<std::uint32_t> as_bits(const Number& number, unsigned width) {
    const std::uint64_t maximum = (std::uint64_t{1} << width) - 1;
    if (!number.negative) {
        return number.magnitude <= maximum ? std::optional(static_cast<std::uint32_t>(number.magnitude)) : std::nullopt;
    }
    const bool fits = number.magnitude <= (maximum + 1) / 2;
    return fits ? std::optional(static_cast<std::uint32_t>((0 - number.magnitude) & maximum)) : std::nullopt;
}

Result<std::uint32_t> expect_bits(std::string_view text, const char* what) {
    NPU_ASSIGN(const Number number, expect_number(text, what));
    const std::optional<std::uint32_t> bits = as_bits(number, 32);
    if (!bits) {
        return bad(
            format("%.*s is beyond 32 bits; %s goes to 0xffffffff", static_cast<int>(text.size()), text.data(), what));
    }
    return *bits;
}

// Letters to change, insert or leave out to get from one name to the other (Levenshtein distance).
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = std::exchange(row[j + 1], std::min({change, row[j] + 1, row[j + 1] + 1}));
        }
    }
    return row.back();
}

// The name of `names` that is nearest to `name`, both in capitals.
template <typename Names, typename Spell>
std::string nearest(const std::string& name, const Names& names, Spell spell) {
    std::string best;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const auto& entry : names) {
        const std::string candidate = spell(entry);
        const bool ends_so = candidate.ends_with("." + name);  // a register without its block
        const std::size_t lengths = std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
        if (!ends_so && lengths >= least) {
            continue;  // at least so far away
        }
        const std::size_t found = ends_so ? 0 : distance(name, candidate);
        if (found < least) {
            least = found;
            best = candidate;
        }
    }
    return best;
}

std::string label(const RegisterInfo& info) { return format("%s.%s", block_name(info.block), info.name); }

Result<const RegisterInfo*> expect_register(std::string_view text) {
    const RegisterInfo* found = nullptr;
    if (const std::optional<Number> offset = number_of(text); offset) {
        if (!offset->negative && offset->magnitude <= 0xffff) {
            found = find_register(static_cast<std::uint16_t>(offset->magnitude));
        }
        if (found == nullptr) {
            return bad(format("no register is known at offset %.*s; .word takes any word",
                              static_cast<int>(text.size()), text.data()));
        }
    } else {
        const std::string name = upper(text);
        const auto table = register_table();
        const auto entry = std::ranges::find_if(table, [&](const RegisterInfo& info) { return label(info) == name; });
        if (entry == table.end()) {
            return bad(format("unknown instruction or register '%.*s'; the nearest register is %s",
                              static_cast<int>(text.size()), text.data(), nearest(name, table, label).c_str()));
        }
        found = &*entry;
    }
    if (block_target(found->block) == target::none) {
        return bad(format("%s is written by the CPU only; no command reaches its block", label(*found).c_str()));
    }
    return found;
}

Result<Field> expect_field(const RegisterInfo& info, std::string_view text) {
    const std::string name = upper(text);
    const auto field = std::ranges::find_if(info.fields, [&](const FieldInfo& entry) { return entry.name == name; });
    if (field == info.fields.end()) {
        return bad(
            format("%s has no field '%.*s'; the nearest is %s", label(info).c_str(), static_cast<int>(text.size()),
                   text.data(),
                   nearest(name, info.fields, [](const FieldInfo& entry) { return std::string(entry.name); }).c_str()));
    }
    return field_of(info, *field);
}

Result<Words> assemble_register(std::span<const std::string_view> tokens) {
    NPU_ASSIGN(const RegisterInfo* info, expect_register(tokens[0]));
    const std::string name = label(*info);
    std::optional<std::uint32_t> whole;
    std::size_t i = 1;
    if (tokens.size() > 2 && tokens[1] == "=") {
        NPU_ASSIGN(whole, expect_bits(tokens[2], ("the value of " + name).c_str()));
        i = 3;
    }
    std::uint32_t value = 0;
    std::uint32_t named = 0;  // bits of the fields that were named
    for (; i < tokens.size(); i += 3) {
        if (i + 2 >= tokens.size() || tokens[i + 1] != "=") {
            return bad(format("'%.*s' after %s: expected FIELD=VALUE", static_cast<int>(tokens[i].size()),
                              tokens[i].data(), name.c_str()));
        }
        NPU_ASSIGN(const Field field, expect_field(*info, tokens[i]));
        NPU_ASSIGN(const Number number,
                   expect_number(tokens[i + 2], (std::string("the value of ") + field.name).c_str()));
        const std::optional<std::uint32_t> bits = as_bits(number, field.high - field.low + 1U);
        if (!bits) {
            return bad(format("%s of %s holds 0 to %u (bits %u:%u); %.*s does not fit", field.name, name.c_str(),
                              field.maximum(), field.high, field.low, static_cast<int>(tokens[i + 2].size()),
                              tokens[i + 2].data()));
        }
        const std::uint32_t mask = field.maximum() << field.low;
        if ((named & mask) != 0) {
            return bad(format("%s of %s is given twice", field.name, name.c_str()));
        }
        named |= mask;
        value |= *bits << field.low;
        if (whole && (*whole & mask) != *bits << field.low) {
            return bad(format("%s = 0x%x has %u in %s, and the line says %u", name.c_str(), *whole, field.of(*whole),
                              field.name, *bits));
        }
    }
    if (!whole && named == 0) {
        return bad(format("%s without a value: write %s = VALUE, or FIELD=VALUE", name.c_str(), name.c_str()));
    }
    return Words{encode({block_target(info->block), info->offset, whole.value_or(value)})};
}

Result<Words> assemble_enable(std::span<const std::string_view> tokens) {
    static constexpr struct {
        const char* name;
        std::uint32_t bit;
    } blocks[] = {{"CNA", enable_bit::cna},           {"CORE", enable_bit::core}, {"DPU", enable_bit::dpu},
                  {"DPU_RDMA", enable_bit::dpu_rdma}, {"PPU", enable_bit::ppu},   {"PPU_RDMA", enable_bit::ppu_rdma}};
    if (tokens.size() < 2) {
        return bad("enable without blocks: write enable 0x0d, or enable CNA CORE DPU");
    }
    std::optional<std::uint32_t> value;
    std::size_t i = 1;
    if (number_of(tokens[1])) {
        NPU_ASSIGN(value, expect_bits(tokens[1], "the enable value"));
        i = tokens.size() > 2 && tokens[2] == ":" ? 3 : 2;
    }
    std::uint32_t bits = 0;
    const bool named = i < tokens.size();
    for (; i < tokens.size(); ++i) {
        const std::string name = upper(tokens[i]);
        const auto block = std::ranges::find_if(blocks, [&](const auto& entry) { return entry.name == name; });
        if (block == std::end(blocks)) {
            return bad(format("'%.*s' names no block; known: CNA CORE DPU DPU_RDMA PPU PPU_RDMA",
                              static_cast<int>(tokens[i].size()), tokens[i].data()));
        }
        bits |= block->bit;
    }
    if (value && named && *value != bits) {
        return bad(
            format("enable 0x%02x fires %s; the line names other blocks", *value, enabled_blocks(*value).c_str()));
    }
    return Words{encode({target::enable, offset_enable, value.value_or(bits)})};
}

Result<Words> assemble_next(std::span<const std::string_view> tokens) {
    if (tokens.size() != 4 || upper(tokens[2]) != "AMOUNT") {
        return bad("expected: next ADDRESS amount AMOUNT");
    }
    NPU_ASSIGN(const std::uint32_t address, expect_bits(tokens[1], "the next task's address"));
    NPU_ASSIGN(const std::uint32_t amount, expect_bits(tokens[3], "the next task's amount"));
    if (address % 16 != 0) {
        return bad(format("the next task's address 0x%x is no multiple of 16", address));
    }
    if (amount > reg::PC::REGISTER_AMOUNTS::PC_DATA_AMOUNT.maximum()) {
        return bad(
            format("amount %u; its field holds 0 to %u", amount, reg::PC::REGISTER_AMOUNTS::PC_DATA_AMOUNT.maximum()));
    }
    return Words{encode({target::pc, offset_pc_base_address, address}),
                 encode({target::pc, offset_pc_register_amounts, amount})};
}

Result<Words> assemble_word(std::span<const std::string_view> tokens) {
    const std::optional<Number> number = tokens.size() == 2 ? number_of(tokens[1]) : std::nullopt;
    if (!number || number->negative) {
        return bad("expected: .word and one number of at most 64 bits");
    }
    return Words{number->magnitude};
}

}  // namespace

Result<Words> assemble_line(std::string_view line) {
    const std::vector<std::string_view> tokens = tokens_of(line);
    if (tokens.empty()) {
        return Words{};
    }
    const std::string first = upper(tokens[0]);
    if (first == ".WORD") {
        return assemble_word(tokens);
    }
    if (first == "NEXT") {
        return assemble_next(tokens);
    }
    if (first == "ENABLE") {
        return assemble_enable(tokens);
    }
    const bool alone = first == "NOP" || first == "PADDING" || first == "SEPARATOR" || first == "LAST";
    if (!alone) {
        return assemble_register(tokens);
    }
    if (tokens.size() > 1) {
        return bad(format("'%.*s' takes nothing after it", static_cast<int>(tokens[0].size()), tokens[0].data()));
    }
    if (first == "SEPARATOR") {
        return Words{encode({target::separator, 0, 0})};
    }
    return first == "LAST" ? Words{0, encode({target::pc, offset_pc_register_amounts, 0})} : Words{0};
}

std::string assembly_text(std::uint64_t word) {
    if (word == 0) {
        return "nop";
    }
    const Command command = decode(word);
    if (command == Command{target::separator, 0, 0}) {
        return "separator";
    }
    if (command.target == target::enable && command.offset == offset_enable) {
        const std::string blocks = enabled_blocks(command.value);
        return format("enable 0x%02x%s%s", command.value, blocks.empty() ? "" : "  # ", blocks.c_str());
    }
    const RegisterInfo* info = find_register(command.offset);
    const bool known = info != nullptr && command.target == block_target(info->block);
    if (!known || command.target == target::none) {
        return format(".word 0x%016llx  # %s", static_cast<unsigned long long>(word), disassemble_word(word).c_str());
    }
    std::string text = format("%s = 0x%08x", label(*info).c_str(), command.value);
    text += disassemble_fields(*info, command.value);
    if (const std::uint32_t outside = bits_outside_fields(*info, command.value); outside != 0) {
        text += format("  # outside every field: 0x%08x", outside);
    }
    return text;
}

}  // namespace npu::rockchip
