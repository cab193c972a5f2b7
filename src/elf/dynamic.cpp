#include "elf/dynamic.h"

#include <algorithm>

namespace npu::elf {

namespace {

enum : std::int64_t {
    tag_needed = 1,
    tag_plt_size = 2,
    tag_hash = 4,
    tag_strings = 5,
    tag_symbols = 6,
    tag_rela = 7,
    tag_rela_size = 8,
    tag_strings_size = 10,
    tag_soname = 14,
    tag_plt = 23,
    tag_relr_size = 35,
    tag_relr = 36,
    tag_gnu_hash = 0x6ffffef5,
    tag_version_symbols = 0x6ffffff0,
    tag_version_need = 0x6ffffffe,
    tag_version_need_count = 0x6fffffff,
};

constexpr std::uint64_t symbol_size = 24;
constexpr std::uint64_t rela_size = 24;

Symbol symbol_of(Bytes entry) {
    const auto info = load<std::uint8_t>(entry, 4).value_or(0);
    Symbol symbol;
    symbol.type = info & 15;
    symbol.binding = info >> 4;
    symbol.visibility = load<std::uint8_t>(entry, 5).value_or(0) & 3;
    symbol.defined = load<std::uint16_t>(entry, 6).value_or(0) != 0;
    symbol.address = load<std::uint64_t>(entry, 8).value_or(0);
    symbol.size = load<std::uint64_t>(entry, 16).value_or(0);
    return symbol;
}

class Reader {
  public:
    explicit Reader(const Image& image) : image_(image) {}

    Result<Dynamic> read() {
        const Segment* segment = image_.find_segment(segment_dynamic);
        if (segment == nullptr) {
            return std::move(dynamic_);
        }
        const Bytes table = part(image_.bytes(), segment->offset, segment->file_size).value_or(Bytes{});
        for (std::uint64_t at = 0; inside(at, 16, table.size()); at += 16) {
            const auto tag = static_cast<std::int64_t>(load<std::uint64_t>(table, at).value_or(0));
            if (tag == 0) {
                break;
            }
            dynamic_.entries.emplace_back(tag, load<std::uint64_t>(table, at + 8).value_or(0));
        }
        NPU_TRY(read_strings());
        NPU_TRY(read_symbols());
        read_versions();
        NPU_TRY(read_relocations(tag_rela, tag_rela_size, "DT_RELA"));
        NPU_TRY(read_relocations(tag_plt, tag_plt_size, "DT_JMPREL"));
        read_packed();
        collect_places();
        return std::move(dynamic_);
    }

  private:
    [[nodiscard]] Error torn(const char* table, std::uint64_t address, const char* why) const {
        return make_error(ErrorCode::invalid_argument, "%s: %s at address 0x%llx: %s", image_.name().c_str(), table,
                          static_cast<unsigned long long>(address), why);
    }

    Result<void> read_strings() {
        const auto address = dynamic_.value(tag_strings);
        const auto size = dynamic_.value(tag_strings_size);
        if (!address || !size) {
            return {};
        }
        const auto bytes = image_.at(*address, *size);
        if (!bytes) {
            return torn("DT_STRTAB", *address, "the table of names does not lie in the file");
        }
        if (!bytes->empty() && bytes->back() != 0) {
            return torn("DT_STRTAB", *address, "the table of names does not end with a NUL");
        }
        strings_ = *bytes;
        for (const auto& [tag, value] : dynamic_.entries) {
            if (tag != tag_needed && tag != tag_soname) {
                continue;
            }
            const auto name = load_text(strings_, value);
            if (!name) {
                return torn(tag == tag_needed ? "DT_NEEDED" : "DT_SONAME", *address + value,
                            "the name lies outside the table of names");
            }
            if (tag == tag_needed) {
                dynamic_.needed.emplace_back(*name);
            } else {
                dynamic_.soname = *name;
            }
        }
        return {};
    }

    // The highest symbol that a relocation names, plus one. The newer hash table lists exports only, and an executable may
    // have none.
    [[nodiscard]] std::uint64_t relocated_symbols() const {
        std::uint64_t count = 0;
        for (const auto& [tag, size_tag] : {std::pair(tag_rela, tag_rela_size), std::pair(tag_plt, tag_plt_size)}) {
            const auto address = dynamic_.value(tag);
            const auto table = address ? image_.at(*address, dynamic_.value(size_tag).value_or(0)) : std::nullopt;
            for (std::uint64_t at = 0; table && inside(at, rela_size, table->size()); at += rela_size) {
                count = std::max(count, (load<std::uint64_t>(*table, at + 8).value_or(0) >> 32) + 1);
            }
        }
        return count;
    }

    // The file does not say how many symbols there are; the hash tables do.
    [[nodiscard]] std::uint64_t symbol_count() const {
        if (const auto hash = dynamic_.value(tag_hash)) {
            return load<std::uint32_t>(image_.rest_at(*hash), 4).value_or(0);
        }
        const auto hash = dynamic_.value(tag_gnu_hash);
        return hash ? std::max(hashed_symbols(*hash), relocated_symbols()) : 0;
    }

    [[nodiscard]] std::uint64_t hashed_symbols(std::uint64_t hash) const {
        const Bytes table = image_.rest_at(hash);
        const std::uint64_t buckets = load<std::uint32_t>(table, 0).value_or(0);
        const std::uint64_t first = load<std::uint32_t>(table, 4).value_or(0);
        const std::uint64_t bucket_at = 16 + 8 * std::uint64_t{load<std::uint32_t>(table, 8).value_or(0)};
        std::uint64_t last = 0;
        for (std::uint64_t i = 0; i < buckets; ++i) {
            const auto head = load<std::uint32_t>(table, bucket_at + 4 * i);
            if (!head) {
                return first;
            }
            last = std::max<std::uint64_t>(last, *head);
        }
        if (last < first) {
            return first;  // only imports
        }
        // The chain of the last bucket ends with an odd hash.
        for (std::uint64_t at = bucket_at + 4 * buckets + 4 * (last - first);; at += 4, ++last) {
            const auto value = load<std::uint32_t>(table, at);
            if (!value) {
                return last;
            }
            if ((*value & 1) != 0) {
                return last + 1;
            }
        }
    }

    Result<void> read_symbols() {
        const auto address = dynamic_.value(tag_symbols);
        if (!address) {
            return {};
        }
        std::uint64_t count = symbol_count();
        const auto strings = dynamic_.value(tag_strings);
        if (count == 0 && strings && *strings > *address) {
            count = (*strings - *address) / symbol_size;  // linkers put the names right behind the symbols
        }
        const auto size = checked_multiply(count, symbol_size);
        const auto table = size ? image_.at(*address, std::max<std::uint64_t>(*size, 1)) : std::nullopt;
        if (!table) {
            return torn("DT_SYMTAB", *address, "the table of symbols does not lie in the file");
        }
        for (std::uint64_t i = 0; i < count; ++i) {
            const Bytes entry = table->subspan(static_cast<std::size_t>(i * symbol_size), symbol_size);
            Symbol symbol = symbol_of(entry);
            const auto name = load_text(strings_, load<std::uint32_t>(entry, 0).value_or(0));
            if (!name) {
                return torn("st_name", *address + i * symbol_size, "the name lies outside the table of names");
            }
            symbol.name = *name;
            dynamic_.symbols.push_back(std::move(symbol));
        }
        return {};
    }

    // Version names of imports: a chain of files, each with a chain of versions (gABI supplement "Symbol Versioning").
    void read_versions() {
        const auto need = dynamic_.value(tag_version_need);
        const auto of_symbol = dynamic_.value(tag_version_symbols);
        if (!need || !of_symbol) {
            return;
        }
        std::map<std::uint16_t, std::string> names;
        const Bytes table = image_.rest_at(*need);
        std::uint64_t at = 0;
        std::uint32_t budget = 1U << 15;  // as many versions as an index can name; a chain may be a circle
        for (std::uint64_t left = dynamic_.value(tag_version_need_count).value_or(0); left != 0; --left) {
            const auto count = load<std::uint16_t>(table, at + 2);
            std::uint64_t entry = at + load<std::uint32_t>(table, at + 8).value_or(0);
            for (std::uint32_t i = 0; i < count.value_or(0) && budget != 0; ++i, --budget) {
                const auto index = load<std::uint16_t>(table, entry + 6);
                const auto text = load_text(strings_, load<std::uint32_t>(table, entry + 8).value_or(0));
                if (index && text) {
                    names[*index] = *text;
                }
                entry += load<std::uint32_t>(table, entry + 12).value_or(0);
            }
            const auto next = load<std::uint32_t>(table, at + 12).value_or(0);
            if (next == 0 || budget == 0) {
                break;
            }
            at += next;
            --budget;
        }
        const Bytes indices = image_.rest_at(*of_symbol);
        for (std::size_t i = 0; i < dynamic_.symbols.size(); ++i) {
            const auto index = load<std::uint16_t>(indices, 2 * i);
            const auto found = index ? names.find(*index & 0x7fff) : names.end();
            if (found != names.end() && !dynamic_.symbols[i].defined) {
                dynamic_.symbols[i].version = found->second;
            }
        }
    }

    Result<void> read_relocations(std::int64_t tag, std::int64_t size_tag, const char* name) {
        const auto address = dynamic_.value(tag);
        const std::uint64_t size = dynamic_.value(size_tag).value_or(0);
        if (!address || size == 0) {
            return {};
        }
        const auto table = image_.at(*address, size);
        if (!table) {
            return torn(name, *address, "the relocations do not lie in the file");
        }
        for (std::uint64_t at = 0; inside(at, rela_size, table->size()); at += rela_size) {
            const std::uint64_t info = load<std::uint64_t>(*table, at + 8).value_or(0);
            Relocation r{.place = load<std::uint64_t>(*table, at).value_or(0),
                         .type = static_cast<std::uint32_t>(info),
                         .symbol = static_cast<std::uint32_t>(info >> 32),
                         .addend = static_cast<std::int64_t>(load<std::uint64_t>(*table, at + 16).value_or(0))};
            if (r.symbol != 0 && r.symbol >= dynamic_.symbols.size()) {
                return torn("r_info", *address + at, "the relocation names a symbol that does not exist");
            }
            dynamic_.relocations.push_back(r);
        }
        return {};
    }

    // DT_RELR: an even word is a place, an odd one says which of the next 63 words are places, too.
    void read_packed() {
        const auto address = dynamic_.value(tag_relr);
        const auto table = address ? image_.at(*address, dynamic_.value(tag_relr_size).value_or(0)) : std::nullopt;
        std::uint64_t place = 0;
        const auto add = [&](std::uint64_t where) {
            if (const auto target = image_.load_at<std::uint64_t>(where)) {
                dynamic_.pointers[where] = *target;
            }
        };
        for (std::uint64_t at = 0; table && inside(at, 8, table->size()); at += 8) {
            const std::uint64_t word = load<std::uint64_t>(*table, at).value_or(0);
            if ((word & 1) == 0) {
                add(word);
                place = word + 8;
                continue;
            }
            for (unsigned bit = 1; bit < 64; ++bit) {
                if ((word >> bit & 1) != 0) {
                    add(place + 8 * (bit - 1));
                }
            }
            place += 8 * 63;
        }
    }

    void collect_places() {
        for (const Relocation& r : dynamic_.relocations) {
            const auto addend = static_cast<std::uint64_t>(r.addend);
            if (r.type == relocation_relative || r.type == relocation_irelative) {
                dynamic_.pointers[r.place] = addend;
            } else if (r.type == relocation_abs64 || r.type == relocation_glob_dat || r.type == relocation_jump_slot) {
                const bool known = r.symbol < dynamic_.symbols.size();
                if (known && dynamic_.symbols[r.symbol].defined) {
                    dynamic_.pointers[r.place] = dynamic_.symbols[r.symbol].address + addend;
                } else if (known && r.symbol != 0) {
                    dynamic_.imports[r.place] = r.symbol;
                }
            }
        }
    }

    const Image& image_;
    Dynamic dynamic_;
    Bytes strings_;
};

}  // namespace

std::optional<std::uint64_t> Dynamic::value(std::int64_t tag) const {
    for (const auto& [t, v] : entries) {
        if (t == tag) {
            return v;
        }
    }
    return std::nullopt;
}

Result<Dynamic> read_dynamic(const Image& image) { return Reader(image).read(); }

std::vector<Symbol> read_section_symbols(const Image& image, std::uint32_t section_type) {
    std::vector<Symbol> symbols;
    for (const Section& s : image.sections()) {
        if (s.type != section_type || s.link >= image.sections().size()) {
            continue;
        }
        const Section& names = image.sections()[s.link];
        const Bytes table = part(image.bytes(), s.offset, s.size).value_or(Bytes{});
        const Bytes text = part(image.bytes(), names.offset, names.type == 8 ? 0 : names.size).value_or(Bytes{});
        for (std::uint64_t at = 0; inside(at, symbol_size, table.size()); at += symbol_size) {
            const Bytes entry = table.subspan(static_cast<std::size_t>(at), symbol_size);
            Symbol symbol = symbol_of(entry);
            symbol.name = std::string(load_text(text, load<std::uint32_t>(entry, 0).value_or(0)).value_or(""));
            symbols.push_back(std::move(symbol));
        }
    }
    return symbols;
}

}  // namespace npu::elf
