#include "fuzz/programs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "fuzz/recipes.h"
#include "rockchip/registers.h"

namespace npu::fuzz {

namespace {

using rockchip::Command;

std::uint16_t target_of(std::uint16_t offset) {
    const rockchip::RegisterInfo* info = rockchip::find_register(offset);
    return info == nullptr ? rockchip::target::cna : rockchip::block_target(info->block);
}

// Another value for one field of a register.
std::uint32_t changed_field(Input& input, std::uint32_t value, const rockchip::RegisterInfo& info) {
    if (info.fields.empty()) {
        return input.draw<std::uint32_t>();
    }
    const rockchip::Field field = rockchip::field_of(info, info.fields[input.index(info.fields.size())]);
    const std::uint32_t old = field.of(value);
    std::uint32_t fresh = old;
    switch (input.index(6)) {
        case 0: fresh = old ^ 1U << input.index(32); break;
        case 1: fresh = old + 1; break;
        case 2: fresh = old - 1; break;
        case 3: fresh = input.draw<std::uint8_t>(); break;
        case 4: fresh = field.maximum() - input.draw<std::uint8_t>() % 4U; break;
        default: fresh = input.draw<std::uint32_t>(); break;
    }
    return (value & ~(field.maximum() << field.low)) | (fresh & field.maximum()) << field.low;
}

void change(Input& input, std::vector<std::uint64_t>& body) {
    if (body.empty()) {
        return;
    }
    const std::size_t place = input.draw<std::uint16_t>() % body.size();
    Command command = rockchip::decode(body[place]);
    const rockchip::RegisterInfo* info = rockchip::find_register(command.offset);
    switch (input.index(8)) {
        default:
            if (info != nullptr) {
                command.value = changed_field(input, command.value, *info);
                body[place] = rockchip::encode(command);
            }
            break;
        case 4: body.erase(body.begin() + static_cast<std::ptrdiff_t>(place)); break;
        case 5: std::swap(body[place], body[input.draw<std::uint16_t>() % body.size()]); break;
        case 6: {  // a register that the recipe does not write
            const auto table = rockchip::register_table();
            const rockchip::RegisterInfo& other = table[input.draw<std::uint16_t>() % table.size()];
            body.push_back(rockchip::encode({target_of(other.offset), other.offset, changed_field(input, 0, other)}));
            break;
        }
        case 7: body[place] = input.draw<std::uint64_t>(); break;
    }
}

// The two tables of an activation, 513 entries each.
void add_table(Input& input, std::vector<std::uint64_t>& body) {
    const std::uint32_t slope = input.draw<std::uint8_t>();
    std::vector<std::uint64_t> words;
    for (std::uint32_t table = 0; table < 2; ++table) {
        words.push_back(rockchip::encode({rockchip::target::dpu, 0x4100, 2U << 16 | table << 16}));
        for (std::uint32_t i = 0; i < 513; ++i) {
            words.push_back(rockchip::encode({rockchip::target::dpu, 0x4104, (i * slope + table) & 0xffff}));
        }
    }
    body.insert(body.begin(), words.begin(), words.end());
}

std::vector<std::uint8_t> make_noise(std::size_t kind, std::size_t bytes) {
    std::minstd_rand random(1);
    constexpr std::array<std::uint16_t, 12> specials{0x0000, 0x8000, 0x0001, 0x03ff, 0x3c00, 0xbc00,
                                                     0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7f80};
    std::vector<std::uint8_t> noise(bytes);
    for (std::size_t i = 0; i + 1 < bytes; i += 2) {
        std::uint16_t value = 0;
        switch (kind) {
            case 0: value = static_cast<std::uint16_t>(random() >> 4); break;
            case 1: value = static_cast<std::uint16_t>(0x3800U + (random() >> 4) % 0x800U); break;  // around 1 in fp16
            case 2: value = specials[random() % specials.size()]; break;
            case 3: value = (random() >> 5) % 2 == 0 ? 0x7f80 : 0x807f; break;  // extremes of int8
            default: break;
        }
        std::memcpy(noise.data() + i, &value, sizeof value);
    }
    return noise;
}

}  // namespace

List draw_list(Input& input, const Places& places, std::uint32_t next, std::uint32_t next_words) {
    const Recipe recipe = draw_recipe(input, places);
    List list;
    list.enable = recipe.enable;
    list.words = recipe.registers.words(recipe.enable, next, next_words);
    std::array<std::uint64_t, rockchip::tail_words> tail{};
    std::copy_n(list.words.end() - tail.size(), tail.size(), tail.begin());
    list.words.resize(list.words.size() - tail.size());
    if (recipe.enable == rockchip::enable_element_wise && input.one_in(4)) {
        add_table(input, list.words);
    }
    for (std::uint32_t changes = input.index(6); changes > 0; --changes) {
        change(input, list.words);
    }
    if (input.one_in(16)) {
        tail[input.index(tail.size())] = input.draw<std::uint64_t>();
    }
    if (input.one_in(16)) {
        list.enable = input.draw<std::uint8_t>();
        tail.back() = rockchip::encode({rockchip::target::enable, rockchip::offset_enable, list.enable});
    }
    list.words.resize(std::min(list.words.size(), most_words - tail.size()));
    list.body_words = static_cast<std::uint32_t>(list.words.size());
    list.words.insert(list.words.end(), tail.begin(), tail.end());
    return list;
}

void fill_data(Input& input, std::span<std::uint8_t> data) {
    constexpr std::size_t kinds = 5;
    constexpr std::size_t steps = 256;
    static const std::array<std::vector<std::uint8_t>, kinds> noise = [] {
        std::array<std::vector<std::uint8_t>, kinds> made;
        for (std::size_t kind = 0; kind < kinds; ++kind) {
            made[kind] = make_noise(kind, place_bytes + 16 * steps);
        }
        return made;
    }();
    const std::vector<std::uint8_t>& chosen = noise[input.index(kinds)];
    const std::size_t offset = 16 * std::size_t{input.draw<std::uint8_t>()};
    std::memcpy(data.data(), chosen.data() + offset, std::min(data.size(), chosen.size() - offset));
}

}  // namespace npu::fuzz
