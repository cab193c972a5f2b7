// What the codes of AXCL mean, and what a user can do about those that are met in the field.
#include "axera/axcl_library.h"

namespace npu::axera::axcl {

namespace {

struct Meaning {
    std::uint32_t part;  // 0: any
    std::uint32_t id;
    const char* text;
    ErrorCode code;
    const char* remedy;
};

constexpr Meaning meanings[] = {
    {1, what::open, "the driver is not there", ErrorCode::not_found,
     "is the host driver loaded (lsmod | grep axcl) and /dev/axcl_host readable?"},
    {1, what::device_query, "the card could not be asked", ErrorCode::device_failure, ""},
    {1, what::device_not_connected, "no card is connected", ErrorCode::not_found,
     "is the card seen (lspci -d 1f4b:) and its firmware up (axcl-smi)? A card that was lost comes back after a reboot "
     "of the card or of the host"},
    {1, what::device_probe, "the card did not answer the probe", ErrorCode::device_failure, ""},
    {1, what::device_not_active, "the card is not active", ErrorCode::device_failure, ""},
    {1, what::device_invalid_id, "no card has this number", ErrorCode::invalid_argument,
     "numbers are those of the device list (PCI bus), not 0, 1, 2"},
    {1, what::device_none_active, "no card is active in this thread", ErrorCode::invalid_argument, ""},
    {1, 0x86, "a message port could not be allocated", ErrorCode::device_failure,
     "each user of a card takes four ports; are others using it?"},
    {1, what::device_reboot, "the card could not be rebooted", ErrorCode::device_failure, ""},
    {2, what::create, "the context could not be made", ErrorCode::device_failure, ""},
    {2, what::destroy, "the context could not be destroyed", ErrorCode::invalid_argument, ""},
    {2, what::context_bind_thread, "the context could not be bound to the thread", ErrorCode::device_failure, ""},
    {2, what::context_none_bound, "the thread has no context", ErrorCode::invalid_argument, ""},
    {3, what::create, "the stream or event could not be made", ErrorCode::device_failure, ""},
    {3, what::destroy, "the stream or event could not be destroyed", ErrorCode::invalid_argument, ""},
    {3, what::stream_timeout, "the stream did not finish in time", ErrorCode::timeout, ""},
    {5, what::memory_not_of_device, "the address is not memory of this card", ErrorCode::invalid_argument, ""},
    {5, what::execute, "the card could not provide the memory", ErrorCode::out_of_memory,
     "is CMM free (axcl-smi)? Memory of a program that crashed is given back after some seconds"},
    {7, what::engine_invalid_index, "no tensor has this number", ErrorCode::invalid_argument, ""},
    {7, what::execute, "the card could not load or run the model", ErrorCode::device_failure,
     "is the model for this card (AX650, NPU3), whole, and is CMM free (axcl-smi)?"},
    {0, what::fail, "failed", ErrorCode::device_failure, ""},
    {0, what::null_pointer, "a null pointer", ErrorCode::invalid_argument, ""},
    {0, what::illegal, "an argument has no meaning", ErrorCode::invalid_argument, ""},
    {0, what::unsupported, "not supported", ErrorCode::unsupported, ""},
    {0, what::timeout, "timed out", ErrorCode::timeout, ""},
    {0, what::busy, "busy", ErrorCode::device_failure, ""},
    {0, what::no_memory, "out of memory", ErrorCode::out_of_memory, "is CMM free (axcl-smi)?"},
    {0, what::encode, "the request could not be encoded", ErrorCode::device_failure, ""},
    {0, what::decode, "the answer could not be decoded", ErrorCode::device_failure, ""},
    {0, what::unexpected_response, "the card gave another answer than expected", ErrorCode::device_failure, ""},
    {0, what::open, "could not be opened", ErrorCode::not_found, ""},
    {0, what::execute, "the card could not do it", ErrorCode::device_failure, ""},
};

constexpr const char* part_names[] = {"",       "device", "context", "stream",  "task", "memory",  "config",
                                      "engine", "syslog", "sysctrl", "latency", "p2p",  "userwork"};

struct Split {
    bool composed;
    std::uint32_t module, part, id;
};

Split split(Error code) {
    const auto bits = static_cast<std::uint32_t>(code);
    const bool composed = (bits & 0x80FF0000U) == 0x80300000U;
    return {composed, bits >> 24 & 0x7F, composed ? bits >> 8 & 0xFF : 0, composed ? bits & 0xFF : bits};
}

const Meaning* meaning_of(const Split& split) {
    for (const Meaning& meaning : meanings) {
        if (meaning.id == split.id && (meaning.part == 0 || (meaning.part == split.part && split.module == 0))) {
            return &meaning;
        }
    }
    return nullptr;
}

}  // namespace

std::string error_text(Error code) {
    const Split parts = split(code);
    const Meaning* meaning = meaning_of(parts);
    std::string where;
    if (parts.composed) {
        where = parts.part < std::size(part_names) ? part_names[parts.part] : format("part %u", parts.part);
        where = (parts.module == 1 ? "native " : parts.module == 2 ? "lite " : "") + where + ": ";
    }
    return format("0x%08X (%s%s)", static_cast<unsigned>(code), where.c_str(),
                  code == 0            ? "success"
                  : meaning != nullptr ? meaning->text
                                       : "unknown code");
}

npu::Error make_axcl_error(Error code, const std::string& call) {
    const Meaning* meaning = meaning_of(split(code));
    const char* remedy = meaning != nullptr ? meaning->remedy : "";
    return make_error(meaning != nullptr ? meaning->code : ErrorCode::device_failure, "%s: %s%s%s", call.c_str(),
                      error_text(code).c_str(), *remedy != '\0' ? "; " : "", remedy);
}

}  // namespace npu::axera::axcl
