#include "axera/records.h"

#include <algorithm>
#include <cassert>

namespace npu::axera {

Record decode_record(Bytes eight) {
    assert(eight.size() == record_bytes);
    return {static_cast<Operation>(eight[0]), eight[1], load<std::uint16_t>(eight, 2), load<std::uint32_t>(eight, 4)};
}

void append_record(Buffer& to, const Record& record) {
    to.push_back(static_cast<std::uint8_t>(record.operation));
    to.push_back(record.zero);
    for (unsigned shift = 0; shift < 16; shift += 8) {
        to.push_back(static_cast<std::uint8_t>(record.address >> shift));
    }
    for (unsigned shift = 0; shift < 32; shift += 8) {
        to.push_back(static_cast<std::uint8_t>(record.value >> shift));
    }
}

Event event_of(const Record& record) {
    return {static_cast<EventKind>(record.value & 15), record.value >> 4 & 0xFFFF, record.value >> 20};
}

Result<std::vector<Record>> decode_records(Bytes segment) {
    if (segment.size() % record_bytes != 0) {
        return make_error(ErrorCode::invalid_argument, "a segment of %zu bytes; records have %zu each", segment.size(),
                          record_bytes);
    }
    std::vector<Record> records;
    records.reserve(segment.size() / record_bytes);
    for (std::size_t at = 0; at < segment.size(); at += record_bytes) {
        records.push_back(decode_record(segment.subspan(at, record_bytes)));
    }
    return records;
}

std::string record_text(const Record& record, const std::vector<Symbol>& symbols) {
    const std::string odd = record.zero != 0 ? format("  ; byte 1 is 0x%02x", record.zero) : "";
    switch (record.operation) {
        case Operation::none:
            if (record == Record{}) {
                return "padding";
            }
            break;
        case Operation::write: return format("write    0x%04x = 0x%08x", record.address, record.value) + odd;
        case Operation::event: {
            const Event event = event_of(record);
            const char* name = event.kind == EventKind::end      ? "end"
                               : event.kind == EventKind::signal ? "signal"
                               : event.kind == EventKind::wait   ? "wait"
                                                                 : nullptr;
            if (name == nullptr || record.address != 0) {
                return format("event    0x%04x, 0x%08x", record.address, record.value) + odd;
            }
            return format("%-8s engine %u event %u", name, event.engine, event.number) + odd;
        }
        case Operation::pair_begin: return format("a3       0x%04x, 0x%08x", record.address, record.value) + odd;
        case Operation::rare: return format("a4       0x%04x, 0x%08x", record.address, record.value) + odd;
        case Operation::variable:
            if (record.value == 0 && record.address >= 0x0A00 && record.address % 256 == 0) {
                return format("version  0x%02x", record.address / 256) + odd;
            }
            return format("variable 0x%04x, 0x%08x", record.address, record.value) + odd;
        case Operation::relocate: {
            const auto symbol =
                std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& s) { return s.index == record.value; });
            return format("address  0x%04x = ", record.address) +
                   (symbol != symbols.end() ? symbol->name : format("temporary %u", record.value)) + odd;
        }
        case Operation::pair_end: return format("a9       0x%04x, 0x%08x", record.address, record.value) + odd;
    }
    return format("unknown  0x%02x, 0x%04x, 0x%08x", static_cast<unsigned>(record.operation), record.address,
                  record.value) +
           odd;
}

}  // namespace npu::axera
