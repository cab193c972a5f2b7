#include "rockchip/disassembler.h"

#include <algorithm>

#include "base/result.h"
#include "rockchip/command.h"
#include "rockchip/registers.h"

namespace npu::rockchip {

namespace {

struct BitName {
    std::uint32_t bit;
    const char* name;
};

constexpr BitName enable_names[] = {
    {enable_bit::cna, "CNA"},           {enable_bit::core, "CORE"}, {enable_bit::dpu, "DPU"},
    {enable_bit::dpu_rdma, "DPU_RDMA"}, {enable_bit::ppu, "PPU"},   {enable_bit::ppu_rdma, "PPU_RDMA"},
};

std::string field_text(const RegisterInfo& info, const FieldInfo& field, std::uint32_t value) {
    const Field reader = field_of(info, field);
    const std::uint32_t content = reader.of(value);
    if (content == 0) {
        return {};
    }
    const bool wide = field.high - field.low >= 16;  // addresses, strides, operands
    std::string text = format(wide ? "  %s=0x%x" : "  %s=%u", field.name, content);
    if (info.offset == reg::CNA::DMA_CON2::offset && content > reader.maximum() / 2) {  // the one signed stride
        text += format(" (%lld)", static_cast<long long>(content) - static_cast<long long>(reader.maximum()) - 1);
    }
    return text;
}

std::string register_text(const RegisterInfo& info, std::uint32_t value) {
    std::string text = format("%s.%s = 0x%08x", block_name(info.block), info.name, value);
    text += disassemble_fields(info, value);
    if (const std::uint32_t outside = bits_outside_fields(info, value); outside != 0) {
        text += format("  outside every field: 0x%08x", outside);
    }
    return text;
}

bool is_tail(std::span<const std::uint64_t> tail) {
    const Command next = decode(tail[0]);
    const Command amount = decode(tail[1]);
    const Command separator = decode(tail[2]);
    const Command enable = decode(tail[3]);
    return (is_padding(tail[0]) || (next.target == target::pc && next.offset == offset_pc_base_address)) &&
           amount.target == target::pc && amount.offset == offset_pc_register_amounts &&
           separator == Command{target::separator, 0, 0} && enable.target == target::enable;
}

TaskView view_task(std::span<const std::uint64_t> words, std::size_t first, std::size_t end) {
    TaskView task;
    task.first = first;
    task.words = words.subspan(first, end - first);
    task.body_words = task.words.size();
    const Command last = decode(task.words.back());
    task.enable = last.target == target::enable ? last.value : 0;
    if (task.words.size() < tail_words) {
        return task;
    }
    const std::span<const std::uint64_t> tail = task.words.last(tail_words);
    if (is_tail(tail)) {
        task.has_tail = true;
        task.body_words -= tail_words;
        task.next_address = decode(tail[0]).value;  // 0 in padding
        task.next_amount = decode(tail[1]).value;
        task.chained = !is_padding(tail[0]) && task.next_amount != 0;
    }
    return task;
}

}  // namespace

std::string register_label(std::uint16_t offset) {
    const RegisterInfo* info = find_register(offset);
    return info != nullptr ? format("%s.%s", block_name(info->block), info->name)
                           : format("unknown register 0x%04x", offset);
}

std::string enabled_blocks(std::uint32_t enable) {
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
    for (const BitName& entry : enable_names) {
        if ((enable & entry.bit) != 0) {
            add(entry.name);
            enable &= ~entry.bit;
        }
    }
    if (enable != 0) {
        add(format("unknown bits 0x%x", enable));
    }
    return text;
}

std::string disassemble_fields(const RegisterInfo& info, std::uint32_t value) {
    std::string text;
    for (const FieldInfo& field : info.fields) {
        if (field.high - field.low < 31) {
            text += field_text(info, field, value);
        }
    }
    return text;
}

std::uint32_t bits_outside_fields(const RegisterInfo& info, std::uint32_t value) {
    for (const FieldInfo& field : info.fields) {
        value &= ~(field_of(info, field).maximum() << field.low);
    }
    return value;
}

std::string disassemble_word(std::uint64_t word, bool with_meaning) {
    if (is_padding(word)) {
        return word == 0 ? "padding" : "padding of target 0x0001";
    }
    const Command command = decode(word);
    if (command.target == target::separator) {
        return command == Command{target::separator, 0, 0}
                   ? std::string("separator")
                   : format("separator with offset 0x%04x, value 0x%08x", command.offset, command.value);
    }
    if (command.target == target::enable) {
        return command.offset == offset_enable
                   ? format("enable 0x%02x: %s", command.value, enabled_blocks(command.value).c_str())
                   : format("enable at unknown offset 0x%04x, value 0x%08x", command.offset, command.value);
    }
    const RegisterInfo* info = find_register(command.offset);
    if (info == nullptr) {
        return format("unknown register 0x%04x of target 0x%04x = 0x%08x", command.offset, command.target,
                      command.value);
    }
    std::string text = register_text(*info, command.value);
    if (command.target != block_target(info->block)) {
        text = format("target 0x%04x does not own ", command.target) + text;
    } else if (info->offset == offset_pc_register_amounts && info->block == Block::PC) {
        text += command.value == 0 ? std::string("  last task")
                                   : format("  next task: %u words", words_fetched(command.value & 0xffffU));
    }
    if (with_meaning && info->meaning[0] != '\0') {
        text += format("  ; %s", info->meaning);
    }
    return text;
}

std::string disassemble(std::span<const std::uint64_t> words, bool with_meaning, std::size_t first_index) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        text += format("%6zu  %016llx  ", first_index + i, static_cast<unsigned long long>(words[i]));
        text += disassemble_word(words[i], with_meaning);
        text += '\n';
    }
    return text;
}

std::vector<TaskView> split_tasks(std::span<const std::uint64_t> words) {
    std::vector<TaskView> tasks;
    std::size_t first = 0;
    while (first < words.size()) {
        if (is_padding(words[first])) {
            ++first;
            continue;
        }
        std::size_t end = first;
        while (end < words.size() && decode(words[end]).target != target::enable) {
            ++end;
        }
        if (end == words.size()) {  // no enable: what is left, without the padding after it
            while (is_padding(words[end - 1])) {
                --end;
            }
            tasks.push_back(view_task(words, first, end));
            break;
        }
        ++end;
        tasks.push_back(view_task(words, first, end));
        first = end;
    }
    return tasks;
}

}  // namespace npu::rockchip
