#include "rockchip/registers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "rockchip/command.h"
#include "rockchip/golden.h"

namespace npu::rockchip {
namespace {

std::string label(const RegisterInfo& entry) { return std::string(block_name(entry.block)) + "." + entry.name; }

TEST(RegisterTable, offsets_are_unique_ascending_and_word_aligned) {
    std::set<std::uint16_t> offsets;
    std::uint32_t last = 0;
    for (const RegisterInfo& entry : register_table()) {
        EXPECT_TRUE(offsets.insert(entry.offset).second) << label(entry);
        EXPECT_GE(entry.offset, last);
        EXPECT_EQ(entry.offset % 4, 0) << label(entry);
        last = entry.offset;
    }
    EXPECT_GT(offsets.size(), 200U);
}

TEST(RegisterTable, names_are_unique_within_a_block) {
    std::set<std::string> names;
    for (const RegisterInfo& entry : register_table()) {
        EXPECT_TRUE(names.insert(label(entry)).second) << label(entry);
    }
}

TEST(RegisterTable, every_register_has_fields_that_fit_in_32_bits_and_do_not_overlap) {
    for (const RegisterInfo& entry : register_table()) {
        ASSERT_FALSE(entry.fields.empty()) << label(entry);
        std::uint32_t taken = 0;
        std::set<std::string> names;
        for (const FieldInfo& field : entry.fields) {
            ASSERT_LE(field.low, field.high) << label(entry) << " " << field.name;
            ASSERT_LE(field.high, 31) << label(entry) << " " << field.name;
            std::uint32_t mask = 0;
            for (int bit = field.low; bit <= field.high; ++bit) {
                mask |= 1U << bit;
            }
            EXPECT_EQ(taken & mask, 0U) << label(entry) << " " << field.name;
            taken |= mask;
            EXPECT_TRUE(names.insert(field.name).second) << label(entry) << " " << field.name;
        }
    }
}

TEST(RegisterTable, every_register_and_every_field_has_a_meaning_that_fits_in_a_table) {
    for (const RegisterInfo& entry : register_table()) {
        EXPECT_STRNE(entry.meaning, "") << label(entry);
        EXPECT_EQ(std::string(entry.meaning).find('|'), std::string::npos) << label(entry);
        for (const FieldInfo& field : entry.fields) {
            EXPECT_STRNE(field.meaning, "") << label(entry) << " " << field.name;
            EXPECT_EQ(std::string(field.meaning).find('|'), std::string::npos) << label(entry) << " " << field.name;
            const bool unknown = std::string(field.name).rfind("UNKNOWN", 0) == 0;
            EXPECT_TRUE(!unknown || std::string(field.meaning).rfind("unknown", 0) == 0) << label(entry);
        }
    }
}

// The fact sheet lists every register and field that the manual and programs name.
TEST(RegisterTable, holds_every_register_and_field_of_the_fact_sheet) {
    NPU_REQUIRE_TEST_DATA(folder);
    std::ifstream sheet(*folder + "/reference/rk3588-registers.md");
    const std::regex line_pattern("- `([0-9a-f]{4})` (?:RDMA_)?(\\w+) [^ ]+ (.*)");
    const std::regex field_pattern("\\[(\\d+)(?::(\\d+))?\\](\\w+)");
    std::size_t registers = 0;
    std::size_t fields = 0;
    for (std::string line; std::getline(sheet, line);) {
        std::smatch match;
        if (!std::regex_match(line, match, line_pattern)) {
            continue;
        }
        const RegisterInfo* info = find_register(static_cast<std::uint16_t>(std::stoul(match[1], nullptr, 16)));
        ASSERT_NE(info, nullptr) << line;
        EXPECT_EQ(info->name, match[2].str()) << line;
        ++registers;
        const std::string list = match[3];
        for (std::sregex_iterator it(list.begin(), list.end(), field_pattern); it != std::sregex_iterator(); ++it) {
            const int high = std::stoi((*it)[1]);
            const int low = (*it)[2].matched ? std::stoi((*it)[2]) : high;
            const bool found = std::any_of(info->fields.begin(), info->fields.end(), [&](const FieldInfo& field) {
                return field.name == (*it)[3].str() && field.high == high && field.low == low;
            });
            EXPECT_TRUE(found) << label(*info) << " " << (*it)[3];
            ++fields;
        }
    }
    EXPECT_EQ(registers, register_table().size() - 2) << "all but the two that are called UNKNOWN";
    EXPECT_GT(fields, 500U);
}

TEST(RegisterTable, every_block_stays_in_its_own_page) {
    const std::map<Block, std::uint16_t> pages{
        {Block::PC, 0x0},  {Block::CNA, 0x1},      {Block::CORE, 0x3}, {Block::DPU, 0x4},  {Block::DPU_RDMA, 0x5},
        {Block::PPU, 0x6}, {Block::PPU_RDMA, 0x7}, {Block::DDMA, 0x8}, {Block::SDMA, 0x9}, {Block::GLOBAL, 0xf}};
    for (const RegisterInfo& entry : register_table()) {
        EXPECT_EQ(entry.offset >> 12, pages.at(entry.block)) << label(entry);
    }
}

TEST(RegisterTable, finds_every_register_by_offset_and_nothing_else) {
    std::size_t found = 0;
    for (std::uint32_t offset = 0; offset <= 0xffff; ++offset) {
        if (const RegisterInfo* entry = find_register(static_cast<std::uint16_t>(offset)); entry != nullptr) {
            EXPECT_EQ(entry->offset, offset);
            ++found;
        }
    }
    EXPECT_EQ(found, register_table().size());
    EXPECT_EQ(find_register(0x2010), nullptr);  // a block of another chip
}

TEST(RegisterTable, blocks_that_commands_reach_have_targets_of_their_own) {
    std::set<std::uint16_t> targets;
    for (const Block block :
         {Block::PC, Block::CNA, Block::CORE, Block::DPU, Block::DPU_RDMA, Block::PPU, Block::PPU_RDMA}) {
        EXPECT_NE(block_target(block), target::none);
        EXPECT_TRUE(targets.insert(block_target(block)).second);
    }
    for (const Block block : {Block::DDMA, Block::SDMA, Block::GLOBAL}) {
        EXPECT_EQ(block_target(block), target::none);
    }
}

TEST(Field, holds_exactly_the_values_up_to_its_maximum) {
    constexpr Field width = reg::CNA::DATA_SIZE0::DATAIN_WIDTH;
    EXPECT_EQ(width.maximum(), 2047U);
    EXPECT_EQ(width(2047).value, 2047U << 16);
    EXPECT_EQ(width(2047).overflowed, nullptr);
    EXPECT_STREQ(width(2048).overflowed, "DATA_SIZE0.DATAIN_WIDTH");
    EXPECT_EQ(width.of(0xffffffff), 2047U);
    constexpr Field address = reg::DPU::DST_BASE_ADDR::DST_BASE_ADDR;
    EXPECT_EQ(address.maximum(), 0xffffffffU);
    EXPECT_EQ(address(0xffffffffU).overflowed, nullptr);
    EXPECT_NE(address(0x100000000U).overflowed, nullptr);
}

TEST(Field, signed_values_are_twos_complement_and_bounded_on_both_sides) {
    constexpr Field stride = reg::CNA::DMA_CON2::SURF_STRIDE;
    EXPECT_EQ(stride.from_signed(-3).value, 0x0ffffffdU);
    EXPECT_EQ(stride.from_signed(-3).overflowed, nullptr);
    EXPECT_EQ(stride.from_signed(0x07ffffff).overflowed, nullptr);
    EXPECT_NE(stride.from_signed(0x08000000).overflowed, nullptr);
    EXPECT_EQ(stride.from_signed(-0x08000000).overflowed, nullptr);
    EXPECT_NE(stride.from_signed(-0x08000001).overflowed, nullptr);
}

TEST(RegisterValue, joins_fields_of_one_register_and_marks_a_mixture_of_two) {
    constexpr RegisterValue banks = reg::CNA::CBUF_CON0::WEIGHT_BANK(11) | reg::CNA::CBUF_CON0::DATA_BANK(1);
    EXPECT_EQ(banks.value, 0xb1U);
    EXPECT_EQ(banks.overflowed, nullptr);
    EXPECT_NE((banks | reg::CNA::CBUF_CON1::DATA_ENTRIES(1)).overflowed, nullptr);
    EXPECT_STREQ((reg::CNA::CBUF_CON0::WEIGHT_BANK(16) | reg::CNA::CBUF_CON0::DATA_BANK(1)).overflowed,
                 "CBUF_CON0.WEIGHT_BANK");
}

}  // namespace
}  // namespace npu::rockchip
