// Reads the structs of a binding and lays them out as the AArch64 C ABI does: every type at a multiple of its alignment, the
// whole at a multiple of the largest. Only what such bindings are made of is understood; anything else is named, not guessed.
#include <algorithm>
#include <cctype>
#include <regex>

#include "elf/rkllm_abi.h"

namespace npu::elf {

namespace {

struct Layout {
    std::uint32_t size = 0;
    std::uint32_t alignment = 1;
};

struct Member {
    std::string name, type;
    std::uint32_t count = 1;
    std::vector<Member> inside;  // of an anonymous union or struct
    bool is_union = false;       // of `inside`
};

struct Definition {
    std::string name;
    bool is_union = false;
    std::vector<Member> members;
};

class Layouter {
  public:
    std::map<std::string, Layout> known{
        {"bool", {1, 1}},     {"char", {1, 1}},     {"int8_t", {1, 1}},     {"uint8_t", {1, 1}},
        {"short", {2, 2}},    {"int16_t", {2, 2}},  {"uint16_t", {2, 2}},   {"int", {4, 4}},
        {"unsigned", {4, 4}}, {"int32_t", {4, 4}},  {"uint32_t", {4, 4}},   {"float", {4, 4}},
        {"double", {8, 8}},   {"long", {8, 8}},     {"int64_t", {8, 8}},    {"uint64_t", {8, 8}},
        {"size_t", {8, 8}},   {"pointer", {8, 8}},  {"c_bool", {1, 1}},     {"c_char", {1, 1}},
        {"c_byte", {1, 1}},   {"c_ubyte", {1, 1}},  {"c_int8", {1, 1}},     {"c_uint8", {1, 1}},
        {"c_short", {2, 2}},  {"c_int16", {2, 2}},  {"c_uint16", {2, 2}},   {"c_ushort", {2, 2}},
        {"c_int", {4, 4}},    {"c_uint", {4, 4}},   {"c_int32", {4, 4}},    {"c_uint32", {4, 4}},
        {"c_float", {4, 4}},  {"c_double", {8, 8}}, {"c_long", {8, 8}},     {"c_ulong", {8, 8}},
        {"c_int64", {8, 8}},  {"c_uint64", {8, 8}}, {"c_longlong", {8, 8}}, {"c_ulonglong", {8, 8}},
        {"c_size_t", {8, 8}}, {"c_char_p", {8, 8}}, {"c_void_p", {8, 8}}};

    BindingStruct lay_out(const Definition& d) {
        BindingStruct s;
        s.name = d.name;
        Layout total;
        add(d.members, d.is_union, 0, total, s);
        s.size = (total.size + total.alignment - 1) / total.alignment * total.alignment;
        known[d.name] = {s.size, total.alignment};
        if (d.is_union) {
            unions_[d.name] = d.members;
        }
        return s;
    }

  private:
    void add(const std::vector<Member>& members, bool is_union, std::uint32_t base, Layout& total, BindingStruct& s) {
        std::uint32_t at = 0;
        for (const Member& m : members) {
            if (!s.unknown.empty()) {
                return;
            }
            BindingStruct inner;
            Layout layout{0, 1};
            const auto named_union = unions_.find(m.type);
            const bool nested = !m.inside.empty() || named_union != unions_.end();
            if (nested) {
                const auto& parts = m.inside.empty() ? named_union->second : m.inside;
                add(parts, m.inside.empty() || m.is_union, 0, layout, inner);
                layout.size = (layout.size + layout.alignment - 1) / layout.alignment * layout.alignment;
                s.unknown = inner.unknown;
            } else if (const auto found = known.find(m.type); found != known.end()) {
                layout = found->second;
            } else {
                s.unknown = m.type.empty() ? "(none) of " + m.name : m.type;
                return;
            }
            const std::uint32_t offset =
                is_union ? 0 : (at + layout.alignment - 1) / layout.alignment * layout.alignment;
            if (nested) {
                for (std::size_t i = 0; i < inner.fields.size(); ++i) {
                    s.fields.push_back({inner.fields[i].name, base + offset + inner.fields[i].offset});
                    s.types.push_back(inner.types[i]);
                }
            } else {
                s.fields.push_back({m.name, base + offset});
                s.types.push_back(m.type);
            }
            at = offset + layout.size * m.count;
            total.size = std::max(total.size, base + at);
            total.alignment = std::max(total.alignment, layout.alignment);
        }
    }

    std::map<std::string, std::vector<Member>> unions_;
};

std::vector<std::string> tokens_of(const std::string& text) {
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < text.size();) {
        const char c = text[i];
        if (text.compare(i, 2, "//") == 0 || (c == '#' && (i == 0 || text[i - 1] == '\n'))) {
            i = std::min(text.find('\n', i), text.size());
        } else if (text.compare(i, 2, "/*") == 0) {
            const std::size_t end = text.find("*/", i + 2);
            i = end == std::string::npos ? text.size() : end + 2;
        } else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
            std::size_t end = i;
            while (end < text.size() &&
                   (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) {
                ++end;
            }
            tokens.push_back(text.substr(i, end - i));
            i = end;
        } else {
            if (std::isspace(static_cast<unsigned char>(c)) == 0) {
                tokens.emplace_back(1, c);
            }
            ++i;
        }
    }
    return tokens;
}

class HeaderReader {
  public:
    HeaderReader(const std::string& text, Layouter& layouter) : tokens_(tokens_of(text)), layouter_(layouter) {}

    std::vector<Definition> read() {
        std::vector<Definition> all;
        for (at_ = 0; at_ < tokens_.size(); ++at_) {
            const bool is_typedef = is("typedef");
            const std::size_t key = at_ + (is_typedef ? 1 : 0);
            if (is_typedef && pointer_until_semicolon(key)) {
                continue;
            }
            const std::string kind = key < tokens_.size() ? tokens_[key] : "";
            if (kind == "enum") {
                read_enum(key);
            } else if (kind == "struct" || kind == "union") {
                std::size_t open = key + 1;
                std::string name;
                if (open < tokens_.size() && tokens_[open] != "{") {
                    name = tokens_[open++];
                }
                if (open >= tokens_.size() || tokens_[open] != "{") {
                    continue;
                }
                at_ = open + 1;
                Definition d{name, kind == "union", members(0)};
                if (at_ + 1 < tokens_.size() && tokens_[at_ + 1] != ";") {
                    d.name = tokens_[at_ + 1];
                }
                all.push_back(std::move(d));
            }
        }
        return all;
    }

  private:
    [[nodiscard]] bool is(const char* token) const { return at_ < tokens_.size() && tokens_[at_] == token; }

    // `typedef int (*Name)(...)` and `typedef void* Name` name pointers.
    bool pointer_until_semicolon(std::size_t from) {
        std::string name;
        for (std::size_t i = from; i < tokens_.size() && tokens_[i] != "{"; ++i) {
            if (tokens_[i] == "*" && name.empty() && i + 1 < tokens_.size()) {
                name = tokens_[i + 1];
            }
            if (tokens_[i] == ";") {
                if (!name.empty()) {
                    layouter_.known[name] = {8, 8};
                    at_ = i;
                }
                return !name.empty();
            }
        }
        return false;
    }

    void read_enum(std::size_t key) {
        if (key + 1 < tokens_.size() && tokens_[key + 1] != "{") {
            layouter_.known[tokens_[key + 1]] = {4, 4};
        }
        while (at_ < tokens_.size() && tokens_[at_] != "}" && tokens_[at_] != ";") {
            ++at_;
        }
        if (at_ + 1 < tokens_.size() && tokens_[at_ + 1] != ";") {
            layouter_.known[tokens_[at_ + 1]] = {4, 4};
        }
    }

    // Members up to the closing brace, where it stops.
    std::vector<Member> members(int depth) {
        std::vector<Member> list;
        while (at_ < tokens_.size() && !is("}")) {
            Member m;
            if ((is("union") || is("struct")) && at_ + 1 < tokens_.size() && tokens_[at_ + 1] == "{" && depth < 8) {
                m.is_union = is("union");
                at_ += 2;
                m.inside = members(depth + 1);
                ++at_;
                m.name = is(";") || at_ >= tokens_.size() ? "" : tokens_[at_];
            } else {
                declaration(m);
            }
            while (at_ < tokens_.size() && !is(";") && !is("}")) {
                ++at_;
            }
            if (is(";")) {
                ++at_;
            }
            if (!m.inside.empty() || !m.name.empty()) {
                list.push_back(std::move(m));
            }
        }
        return list;
    }

    void declaration(Member& m) {
        bool pointer = false;
        std::vector<std::string> words;
        for (; at_ < tokens_.size() && !is(";") && !is("}"); ++at_) {
            const std::string& t = tokens_[at_];
            if (t == "(" && at_ + 2 < tokens_.size() && tokens_[at_ + 1] == "*") {  // pointer to a function
                m.type = "pointer";
                m.name = tokens_[at_ + 2];
                return;
            }
            if (t == "[" && at_ + 1 < tokens_.size()) {
                const std::string& n = tokens_[at_ + 1];
                const bool number = !n.empty() && n.size() < 7 && std::all_of(n.begin(), n.end(), [](unsigned char c) {
                    return std::isdigit(c) != 0;
                });
                m.count = number ? static_cast<std::uint32_t>(std::stoul(n)) : 1;
                if (!number) {
                    words.insert(words.begin(), "array of length " + n);
                }
                break;
            }
            pointer |= t == "*";
            if (t != "*" && t != "const" && t != "struct" && t != "enum" && t != "signed" && t != "volatile") {
                words.push_back(t);
            }
        }
        if (words.size() < 2) {
            return;
        }
        m.name = words.back();
        m.type = pointer ? "pointer" : words[words.size() - 2];
        if (words.front().starts_with("array of length")) {
            m.type = words.front();
        }
    }

    std::vector<std::string> tokens_;
    std::size_t at_ = 0;
    Layouter& layouter_;
};

std::string ctypes_name(std::string type) {
    type.erase(std::remove_if(type.begin(), type.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
               type.end());
    if (type.starts_with("ctypes.")) {
        type.erase(0, 7);
    }
    return type.starts_with("POINTER(") || type.starts_with("CFUNCTYPE(") ? "pointer" : type;
}

std::vector<Definition> read_ctypes(const std::string& text, Layouter& layouter) {
    static const std::regex line_alias(R"(^(\w+)\s*=\s*(?:ctypes\.)?(c_\w+|POINTER|CFUNCTYPE)\b)");
    static const std::regex head(R"(class\s+(\w+)\s*\(\s*(?:ctypes\.)?(Structure|Union)\s*\)\s*:)");
    std::vector<Definition> all;
    std::size_t begin = 0;
    while (begin < text.size()) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, std::min<std::size_t>(end - begin, 400));
        std::smatch match;
        if (std::regex_search(line, match, line_alias)) {
            const std::string type = match[2].str().starts_with("c_") ? match[2].str() : "pointer";
            if (const auto found = layouter.known.find(type); found != layouter.known.end()) {
                layouter.known[match[1]] = found->second;
            }
        }
        const std::size_t fields = text.find("_fields_", end);
        if (std::regex_search(line, match, head) && fields != std::string::npos) {
            Definition d{match[1], match[2] == "Union", {}};
            std::size_t at = text.find('[', fields);
            int depth = 0;
            for (; at < text.size(); ++at) {
                depth += text[at] == '[' ? 1 : text[at] == ']' ? -1 : 0;
                if (depth == 0) {
                    break;
                }
                if (text[at] == '#') {
                    at = std::min(text.find('\n', at), text.size() - 1);
                }
                if (text[at] != '(') {
                    continue;
                }
                const std::size_t quote = text.find_first_of("\"'", at);
                const std::size_t close = quote == std::string::npos ? quote : text.find(text[quote], quote + 1);
                const std::size_t comma = close == std::string::npos ? close : text.find(',', close);
                if (comma == std::string::npos) {
                    break;
                }
                std::size_t stop = comma + 1;
                for (int open = 1; stop < text.size(); ++stop) {
                    open += text[stop] == '(' ? 1 : text[stop] == ')' ? -1 : 0;
                    if (open == 0) {
                        break;
                    }
                }
                Member m;
                m.name = text.substr(quote + 1, close - quote - 1);
                m.type = ctypes_name(text.substr(comma + 1, stop - comma - 1));
                if (const std::size_t star = m.type.find('*'); star != std::string::npos) {
                    const std::string count = m.type.substr(star + 1);
                    const bool number = !count.empty() && count.size() < 7 &&
                                        count.find_first_not_of("0123456789") == std::string::npos;
                    if (number) {
                        m.count = static_cast<std::uint32_t>(std::stoul(count));
                        m.type = m.type.substr(0, star);
                    }
                }
                d.members.push_back(std::move(m));
                at = stop;
            }
            all.push_back(std::move(d));
        }
        begin = end + 1;
    }
    return all;
}

}  // namespace

Result<std::vector<BindingStruct>> read_binding(const std::string& text, const std::string& name) {
    Layouter layouter;
    const bool python = text.find("_fields_") != std::string::npos;
    const std::vector<Definition> definitions =
        python ? read_ctypes(text, layouter) : HeaderReader(text, layouter).read();
    std::vector<BindingStruct> known;
    for (const Definition& d : definitions) {
        BindingStruct s = layouter.lay_out(d);
        const bool ours = std::any_of(abi_versions().begin(), abi_versions().end(),
                                      [&](const AbiVersion& v) { return v.find(s.name) != nullptr; });
        if (ours) {
            known.push_back(std::move(s));
        }
    }
    if (known.empty()) {
        return make_error(
            ErrorCode::not_found,
            "%s: no struct of the RKLLM interface in it; expected a C header or ctypes classes with names "
            "such as RKLLMParam",
            name.c_str());
    }
    return known;
}

}  // namespace npu::elf
