// What goes wrong with real cards, on request. A specification is a list by comma of names, each with the opportunity
// at which it happens, counted from 1: "execute-fails@at=3,types-unknown". Without @at it happens at every one.
// Sources: reports of others, ../shared/reference/axera.md, 1.12 and 7.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace npu::axera::mock {

enum class Fault : unsigned {
    malloc_fails,  // no CMM although the properties say there is
    copy_fails,
    load_fails,                // "AX_ENGINE_CreateHandle fails while CMM is free"; the next attempt works
    load_wedges,               // as when a process is killed in a load: nothing works until the card is rebooted
    load_from_memory_hangs,    // LoadFromMem of host memory never returns (3.6.5); a reboot ends it
    execute_fails,             // "Run model failed", 0x8030070C
    disconnects,               // the card is gone at this call, until it is rebooted
    mixed_engines_disconnect,  // loading another kind of model after a language model makes the card drop
    offset_binding_ignored,    // a tensor bound inside a larger buffer is read from the start of the buffer
    types_unknown,             // data types are reported as NONE
    engine_taken,              // EngineInit fails because another process did it
    cmm_leaks,                 // memory is not given back when the last user leaves, until a reboot
    crash_on_garbage,          // DestroyContext of a pointer that is no context crashes, as the real library does
    count,
};

inline constexpr std::size_t fault_count = static_cast<std::size_t>(Fault::count);
const char* fault_name(Fault fault);  // "execute-fails"

class Faults {
  public:
    static Result<Faults> parse(const std::string& specification);

    // Counts an opportunity and says whether the fault happens now.
    bool hits(Fault fault);

  private:
    struct Entry {
        bool active = false;
        std::uint64_t at = 0;  // 0: always
        std::uint64_t seen = 0;
    };
    std::array<Entry, fault_count> entries_;
};

}  // namespace npu::axera::mock
