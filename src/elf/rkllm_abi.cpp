#include "elf/rkllm_abi.h"

#include <algorithm>
#include <sstream>

#include "elf/rkllm_abi_data.h"

namespace npu::elf {

namespace {

std::vector<AbiVersion> read_table() {
    std::vector<AbiVersion> versions;
    std::string joined;
    std::istringstream raw{std::string(rkllm_abi_text)};
    for (std::string line; std::getline(raw, line);) {
        const bool continues = line.starts_with("  ");
        joined += continues ? ' ' : '\n';
        joined.append(line, continues ? 2 : 0);
    }
    std::istringstream text(joined);
    for (std::string line; std::getline(text, line);) {
        std::istringstream words(line);
        std::string kind;
        words >> kind;
        if (kind == "version") {
            words >> versions.emplace_back().version;
        } else if (kind == "functions") {
            for (std::string name; words >> name;) {
                versions.back().functions.push_back(format("rkllm_%s", name.c_str()));
            }
        } else if (kind == "struct") {
            AbiStruct& s = versions.back().structs.emplace_back();
            words >> s.name >> s.size;
            for (std::string field; words >> field;) {
                const std::size_t at = field.find('@');
                s.fields.push_back({field.substr(0, at), static_cast<std::uint32_t>(std::stoul(field.substr(at + 1)))});
            }
        }
    }
    return versions;
}

// One spelling of a name: the struct of several pictures was renamed in 1.2.3 without a change.
std::string plain(const std::string& name) { return name == "RKLLMMultiModelInput" ? "RKLLMMultiModalInput" : name; }

// What is known to go wrong silently, between versions that look alike.
const char* trap(const std::string& structure, const std::string& field, const std::string& version) {
    const bool new_layout = version == "1.3.0";
    if (structure == "RKLLMParam" && field == "is_async" && new_layout) {
        return "; the library takes the old is_async for ignore_eos_token";
    }
    if (structure == "RKLLMInferParam" && field == "keep_history" && new_layout) {
        return "; the library takes keep_history = 1 for a pointer to sampling parameters";
    }
    if (structure == "RKLLMInput" && field == "input_type" && version >= "1.2.1") {
        return "; the library takes the input's type for the pointer to a role";
    }
    return "";
}

const AbiField* find_field(const std::vector<AbiField>& fields, const std::string& name) {
    const auto found = std::find_if(fields.begin(), fields.end(), [&](auto& f) { return f.name == name; });
    return found == fields.end() ? nullptr : &*found;
}

// Known versions where this struct has exactly this layout.
std::string versions_like(const BindingStruct& b) {
    std::string names;
    for (const AbiVersion& v : abi_versions()) {
        const AbiStruct* s = v.find(b.name);
        const bool same =
            s != nullptr && s->size == b.size && std::all_of(b.fields.begin(), b.fields.end(), [&](const AbiField& f) {
                const AbiField* other = find_field(s->fields, f.name);
                return other != nullptr && other->offset == f.offset;
            });
        names += same ? (names.empty() ? "" : ", ") + v.version : "";
    }
    return names;
}

}  // namespace

const AbiStruct* AbiVersion::find(const std::string& name) const {
    const auto found =
        std::find_if(structs.begin(), structs.end(), [&](auto& s) { return plain(s.name) == plain(name); });
    return found == structs.end() ? nullptr : &*found;
}

const std::vector<AbiVersion>& abi_versions() {
    static const std::vector<AbiVersion> versions = read_table();
    return versions;
}

const AbiVersion* find_abi(const std::string& version) {
    const AbiVersion* best = nullptr;
    const std::string family = version.substr(0, version.rfind('.') + 1);
    for (const AbiVersion& v : abi_versions()) {
        if (v.version == version) {
            return &v;
        }
        const bool older =
            v.version.size() < version.size() || (v.version.size() == version.size() && v.version < version);
        if (family.size() >= 4 && v.version.starts_with(family) && older) {
            best = &v;
        }
    }
    return best;
}

std::vector<AbiFinding> check_binding(const std::vector<BindingStruct>& binding, const AbiVersion& version) {
    std::vector<AbiFinding> findings;
    for (const BindingStruct& b : binding) {
        const AbiStruct* s = version.find(b.name);
        const auto add = [&](bool harmful, const std::string& message) {
            findings.push_back({b.name, message, harmful});
        };
        if (s == nullptr) {
            add(false, "version " + version.version + " has no such struct");
            continue;
        }
        if (!b.unknown.empty()) {
            add(true, "the layout cannot be worked out: unknown type " + b.unknown);
            continue;
        }
        for (std::size_t i = 0; i < b.fields.size(); ++i) {
            const AbiField& f = b.fields[i];
            const AbiField* known = find_field(s->fields, f.name);
            if (known != nullptr && known->offset != f.offset) {
                add(true, npu::format("%s is at byte %u, version %s has it at %u", f.name.c_str(), f.offset,
                                      version.version.c_str(), known->offset) +
                              trap(b.name, f.name, version.version));
            } else if (known == nullptr && f.name != "reserved") {
                add(true, f.name + " is not in version " + version.version);
            } else if ((f.name == "top_k" || f.name == "max_new_tokens" || f.name == "max_context_len") &&
                       b.types[i].find("float") != std::string::npos) {
                add(true, f.name + " is an integer, not a float: the library would read 40.0 as 1109393408");
            }
        }
        for (const AbiField& f : s->fields) {
            if (find_field(b.fields, f.name) == nullptr && f.name != "reserved") {
                add(true, npu::format("%s (byte %u) is missing", f.name.c_str(), f.offset));
            }
        }
        if (b.size != s->size) {
            const std::string like = versions_like(b);
            add(true, npu::format("has %u bytes, version %s has %u", b.size, version.version.c_str(), s->size) +
                          (like.empty() ? "" : "; this is the layout of " + like));
        }
    }
    return findings;
}

}  // namespace npu::elf
