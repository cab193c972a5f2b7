// What do the engines of the AX650 read? A row of 8-byte records: an operation, a zero, a 16-bit register, a 32-bit
// number. Most write a register; those with an address in it name a symbol instead ("relocated"), which the driver
// replaces by where the tensor lies. A segment ends in records of zeros up to a multiple of four.
//
// Sources: operations and the zero byte, 19.7 million records of 157 files (../shared/reference/axera.md, 3.4). The
// fields of a2 were read off the three programs in ../shared/data/axmodel, in which each engine signals events of its
// own, numbered from 1, and each wait names an event that its engine signals (a test checks that): bits 3:0 are 1 for
// the end of the program, 2 for a signal, 3 for a wait; bits 19:4 are the number of the event; bits 31:20 the engine,
// counted as the descriptors are, from the last one. What a3, a4 and a9 do is not known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axera/neu.h"

namespace npu::axera {

enum class Operation : std::uint8_t {
    none = 0x00,        // padding
    write = 0xA1,       // a register gets a number
    event = 0xA2,       // see above
    pair_begin = 0xA3,  // stands before a9; "start or sync", meaning unknown
    rare = 0xA4,        // meaning unknown
    variable = 0xA7,    // first record: register 0x0a00..0x1200 is a version; later ones load run-time variables
    relocate = 0xA8,    // a register gets an address: the number is the index of a symbol; from 16 on, temporaries
    pair_end = 0xA9,
};

struct Record {
    Operation operation = Operation::none;
    std::uint8_t zero = 0;  // byte 1, 0 in all known records
    std::uint16_t address = 0;
    std::uint32_t value = 0;
    bool operator==(const Record&) const = default;
};

inline constexpr std::size_t record_bytes = 8;

enum class EventKind : std::uint8_t { end = 1, signal = 2, wait = 3 };

struct Event {
    EventKind kind = EventKind::end;
    std::uint32_t number = 0;
    std::uint32_t engine = 0;
};

Record decode_record(Bytes eight);  // exactly record_bytes
void append_record(Buffer& to, const Record& record);
Event event_of(const Record& record);  // of an `event` record

// The records of a segment; an error when its size does not divide by 8.
Result<std::vector<Record>> decode_records(Bytes segment);

// One line without its end: "write  0x04d0 = 0x00000004", "address 0x0250 = x + 0x..." names the symbol if there is
// one.
std::string record_text(const Record& record, const std::vector<Symbol>& symbols);

}  // namespace npu::axera
