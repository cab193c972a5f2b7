// The public structs of librkllmrt, version by version. A program that was compiled against one header and meets another
// library writes its fields where the library reads something else; nothing complains, and it crashes later, elsewhere. So
// the sizes and offsets of all published headers are kept here as data, and a binding (a C header or ctypes classes) can be
// checked against the version it will meet.
//
// Source: rkllm.h of each release tag of airockchip/rknn-llm, laid out by the AArch64 C ABI (AAPCS64).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace npu::elf {

struct AbiField {
    std::string name;
    std::uint32_t offset = 0;
};

struct AbiStruct {
    std::string name;
    std::uint32_t size = 0;
    std::vector<AbiField> fields;
};

struct AbiVersion {
    std::string version;
    std::vector<std::string> functions;
    std::vector<AbiStruct> structs;

    [[nodiscard]] const AbiStruct* find(const std::string& name) const;
};

// All known versions, oldest first.
const std::vector<AbiVersion>& abi_versions();
// The version itself, or the newest known release of the same x.y when only the last number is newer; null: not known.
const AbiVersion* find_abi(const std::string& version);

// A struct of a binding, with its layout worked out.
struct BindingStruct {
    std::string name;
    std::uint32_t size = 0;
    std::vector<AbiField> fields;
    std::vector<std::string> types;  // of the fields, as written
    std::string unknown;             // first type that is not known; the layout ends there
};

// Structs of a C or C++ header (`struct X {...}`, `typedef struct {...} X`) or of Python ctypes classes (`_fields_`).
// Enumerations count as int. Errors: `not_found` when there is none whose name is known to any version.
Result<std::vector<BindingStruct>> read_binding(const std::string& text, const std::string& name);

struct AbiFinding {
    std::string structure;
    std::string message;
    bool harmful = false;  // memory is misread or overwritten
};

// What goes wrong when this binding meets a library of that version.
std::vector<AbiFinding> check_binding(const std::vector<BindingStruct>& binding, const AbiVersion& version);

}  // namespace npu::elf
