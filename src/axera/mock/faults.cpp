#include "axera/mock/faults.h"

#include <cstdlib>

namespace npu::axera::mock {

namespace {
constexpr std::array<const char*, fault_count> names{
    "malloc-fails",           "copy-fails",    "load-fails",   "load-wedges",
    "load-from-memory-hangs", "execute-fails", "disconnects",  "mixed-engines-disconnect",
    "offset-binding-ignored", "types-unknown", "engine-taken", "cmm-leaks",
    "crash-on-garbage"};

std::string all_names() {
    std::string text;
    for (const char* name : names) {
        text += (text.empty() ? "" : ", ") + std::string(name);
    }
    return text;
}
}  // namespace

const char* fault_name(Fault fault) { return names[static_cast<std::size_t>(fault)]; }

Result<Faults> Faults::parse(const std::string& specification) {
    Faults faults;
    for (std::size_t at = 0; at < specification.size();) {
        const std::size_t comma = std::min(specification.find(',', at), specification.size());
        const std::string item = specification.substr(at, comma - at);
        at = comma + 1;
        const std::size_t sign = item.find("@at=");
        const std::string name = item.substr(0, sign);
        Entry entry{true, 0, 0};
        if (sign != std::string::npos) {
            char* end = nullptr;
            entry.at = std::strtoull(item.c_str() + sign + 4, &end, 10);
            if (entry.at == 0 || *end != '\0') {
                return make_error(ErrorCode::invalid_argument, "fault '%s': @at= wants a number from 1", item.c_str());
            }
        }
        std::size_t index = 0;
        while (index < names.size() && name != names[index]) {
            ++index;
        }
        if (index == names.size()) {
            return make_error(ErrorCode::invalid_argument, "there is no fault '%s'; there are: %s", name.c_str(),
                              all_names().c_str());
        }
        faults.entries_[index] = entry;
    }
    return faults;
}

bool Faults::hits(Fault fault) {
    Entry& entry = entries_[static_cast<std::size_t>(fault)];
    ++entry.seen;
    return entry.active && (entry.at == 0 || entry.at == entry.seen);
}

}  // namespace npu::axera::mock
