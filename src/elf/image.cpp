#include "elf/image.h"

#include <algorithm>

namespace npu::elf {

namespace {

constexpr std::uint64_t header_size = 64;
constexpr std::uint64_t segment_entry = 56;
constexpr std::uint64_t section_entry = 64;

// Only after a check that the bytes are there.
template <typename T>
T get(Bytes bytes, std::uint64_t offset) {
    return load<T>(bytes, offset).value_or(T{0});
}

std::string machine_name(std::uint16_t machine) {
    switch (machine) {
        case 3: return "x86 (32 bits)";
        case 40: return "Arm (32 bits)";
        case 62: return "x86-64";
        case 243: return "RISC-V";
        default: return format("number %u", machine);
    }
}

}  // namespace

Error Image::torn(const char* field, std::uint64_t offset, const std::string& why) const {
    return make_error(ErrorCode::invalid_argument, "%s: %s at offset 0x%llx: %s", name_.c_str(), field,
                      static_cast<unsigned long long>(offset), why.c_str());
}

Result<Image> Image::parse(std::vector<std::uint8_t> bytes, std::string name) {
    Image image;
    image.bytes_ = std::move(bytes);
    image.name_ = std::move(name);
    NPU_TRY(image.parse_header());
    NPU_TRY(image.parse_segments());
    NPU_TRY(image.check_loads());
    image.parse_sections();
    return image;
}

Result<void> Image::parse_header() {
    const Bytes b = bytes_;
    const auto other = [&](const std::string& what) {
        return make_error(ErrorCode::unsupported, "%s: %s; expected a 64-bit little-endian AArch64 ELF file",
                          name_.c_str(), what.c_str());
    };
    if (b.empty()) {
        return torn("e_ident", 0, "the file is empty");
    }
    const std::string_view text(reinterpret_cast<const char*>(b.data()), b.size());
    if (text.starts_with("version https://git-lfs")) {
        return other("this is a Git-LFS pointer, not the library itself (fetch it with `git lfs pull`)");
    }
    const std::string_view magic(
        "\x7f"
        "ELF");
    if (text.substr(0, 4) != magic.substr(0, std::min<std::size_t>(4, text.size()))) {
        return other("this is no ELF file");
    }
    if (b.size() >= 6 && (b[4] != 2 || b[5] != 1)) {
        return other(b[4] == 1 ? "this is a 32-bit ELF file" : "this ELF file is not 64-bit little-endian");
    }
    if (b.size() < header_size) {
        return torn("the ELF header", 0, format("the file has %zu bytes, the header 64", b.size()));
    }
    const auto machine = get<std::uint16_t>(b, 18);
    if (machine != 183) {
        return other("this ELF file is for another machine: " + machine_name(machine));
    }
    type_ = get<std::uint16_t>(b, 16);
    if (type_ != 2 && type_ != 3) {
        return other(format("e_type %u is neither a shared object (3) nor an executable (2)", type_));
    }
    entry_ = get<std::uint64_t>(b, 24);
    return {};
}

Result<void> Image::parse_segments() {
    const Bytes b = bytes_;
    const auto table = get<std::uint64_t>(b, 32);
    const auto entry = get<std::uint16_t>(b, 54);
    std::uint64_t count = get<std::uint16_t>(b, 56);
    if (count == 0xffff) {  // the true number stands in sh_info of section 0
        const auto info = checked_add(get<std::uint64_t>(b, 40), 44);
        const auto real = info ? load<std::uint32_t>(b, *info) : std::nullopt;
        if (!real) {
            return torn("e_phnum", 56, "says that section 0 holds the number, and there is no section 0");
        }
        count = *real;
    }
    if (count == 0) {
        return torn("e_phnum", 56, "there are no segments, so nothing would be loaded");
    }
    if (entry != segment_entry) {
        return torn("e_phentsize", 54, format("is %u, expected 56", entry));
    }
    const auto size = checked_multiply(count, segment_entry);
    if (!size || !inside(table, *size, b.size())) {
        return torn("e_phoff", 32,
                    format("%llu segments at 0x%llx do not lie in the file's %zu bytes; the file is cut off or damaged",
                           static_cast<unsigned long long>(count), static_cast<unsigned long long>(table), b.size()));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t at = table + i * segment_entry;
        segments_.push_back({.type = get<std::uint32_t>(b, at),
                             .flags = get<std::uint32_t>(b, at + 4),
                             .offset = get<std::uint64_t>(b, at + 8),
                             .address = get<std::uint64_t>(b, at + 16),
                             .file_size = get<std::uint64_t>(b, at + 32),
                             .memory_size = get<std::uint64_t>(b, at + 40)});
        const Segment& s = segments_.back();
        const bool uses_file = s.type == segment_load || s.type == segment_dynamic || s.type == segment_note ||
                               s.type == segment_eh_frame || s.type == segment_interpreter;
        if (!uses_file) {
            continue;
        }
        if (!inside(s.offset, s.file_size, b.size())) {
            return torn("p_offset", at + 8,
                        format("segment %llu has 0x%llx bytes at 0x%llx, outside the file's 0x%zx bytes; the file is "
                               "cut off or damaged",
                               static_cast<unsigned long long>(i), static_cast<unsigned long long>(s.file_size),
                               static_cast<unsigned long long>(s.offset), b.size()));
        }
        if (s.type == segment_load && s.memory_size < s.file_size) {
            return torn(
                "p_memsz", at + 40,
                format("segment %llu is smaller in memory than in the file", static_cast<unsigned long long>(i)));
        }
        if (!checked_add(s.address, std::max(s.memory_size, s.file_size))) {
            return torn("p_vaddr", at + 16,
                        format("segment %llu passes the end of the address space", static_cast<unsigned long long>(i)));
        }
    }
    return {};
}

Result<void> Image::check_loads() const {
    std::vector<const Segment*> loads;
    for (const Segment& s : segments_) {
        if (s.type == segment_load) {
            loads.push_back(&s);
        }
    }
    if (loads.empty()) {
        return torn("e_phoff", 32, "no segment is loaded (PT_LOAD)");
    }
    std::sort(loads.begin(), loads.end(), [](auto* a, auto* b) { return a->address < b->address; });
    for (std::size_t i = 1; i < loads.size(); ++i) {
        if (loads[i]->address < loads[i - 1]->address + loads[i - 1]->memory_size) {
            return torn("p_vaddr", 0,
                        format("the loaded segments at 0x%llx and 0x%llx overlap, so an address would mean two bytes",
                               static_cast<unsigned long long>(loads[i - 1]->address),
                               static_cast<unsigned long long>(loads[i]->address)));
        }
    }
    return {};
}

void Image::parse_sections() {
    const Bytes b = bytes_;
    const auto table = get<std::uint64_t>(b, 40);
    std::uint64_t count = get<std::uint16_t>(b, 60);
    std::uint64_t names = get<std::uint16_t>(b, 62);
    if (table == 0) {
        return;
    }
    if (get<std::uint16_t>(b, 58) != section_entry || !inside(table, section_entry, b.size())) {
        warnings_.push_back("the section table lies outside the file; names of sections are not known");
        return;
    }
    if (count == 0) {
        count = get<std::uint64_t>(b, table + 32);  // more than 65279 sections: sh_size of section 0
    }
    if (names == 0xffff) {
        names = get<std::uint32_t>(b, table + 40);
    }
    const auto size = checked_multiply(count, section_entry);
    if (!size || !inside(table, *size, b.size())) {
        warnings_.push_back("the section table is cut off or names too many sections; names of sections are not known");
        return;
    }
    std::vector<std::uint32_t> name_offsets;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t at = table + i * section_entry;
        name_offsets.push_back(get<std::uint32_t>(b, at));
        Section s{.name = {},
                  .type = get<std::uint32_t>(b, at + 4),
                  .flags = get<std::uint64_t>(b, at + 8),
                  .address = get<std::uint64_t>(b, at + 16),
                  .offset = get<std::uint64_t>(b, at + 24),
                  .size = get<std::uint64_t>(b, at + 32),
                  .link = get<std::uint32_t>(b, at + 40),
                  .info = get<std::uint32_t>(b, at + 44),
                  .entry_size = get<std::uint64_t>(b, at + 56)};
        if (s.type != 8 && !inside(s.offset, s.size, b.size())) {
            warnings_.push_back(
                format("section %llu lies outside the file and is taken as empty", static_cast<unsigned long long>(i)));
            s.size = 0;
            s.offset = 0;
        }
        if (!checked_add(s.address, s.size)) {
            s.address = 0;
        }
        sections_.push_back(std::move(s));
    }
    if (names < sections_.size()) {
        const Bytes text = part(b, sections_[names].offset, sections_[names].size).value_or(Bytes{});
        for (std::size_t i = 0; i < sections_.size(); ++i) {
            sections_[i].name = std::string(load_text(text, name_offsets[i]).value_or(""));
        }
    }
}

const Segment* Image::find_segment(std::uint32_t type) const {
    const auto found = std::find_if(segments_.begin(), segments_.end(), [&](auto& s) { return s.type == type; });
    return found == segments_.end() ? nullptr : &*found;
}

const Section* Image::find_section(std::string_view name) const {
    const auto found = std::find_if(sections_.begin(), sections_.end(), [&](auto& s) { return s.name == name; });
    return found == sections_.end() ? nullptr : &*found;
}

const Section* Image::section_at(std::uint64_t address) const {
    for (const Section& s : sections_) {
        if ((s.flags & 2) != 0 && address >= s.address && address - s.address < s.size) {  // 2: SHF_ALLOC
            return &s;
        }
    }
    return nullptr;
}

const Segment* Image::segment_at(std::uint64_t address) const {
    for (const Segment& s : segments_) {
        if (s.type == segment_load && address >= s.address && address - s.address < s.file_size) {
            return &s;
        }
    }
    return nullptr;
}

std::optional<std::uint64_t> Image::offset_of(std::uint64_t address, std::uint64_t size) const {
    const Segment* s = segment_at(address);
    if (s == nullptr || !inside(address - s->address, size, s->file_size)) {
        return std::nullopt;
    }
    return s->offset + (address - s->address);
}

std::optional<std::uint64_t> Image::address_of(std::uint64_t offset) const {
    for (const Segment& s : segments_) {
        if (s.type == segment_load && offset >= s.offset && offset - s.offset < s.file_size) {
            return s.address + (offset - s.offset);
        }
    }
    return std::nullopt;
}

std::optional<Bytes> Image::at(std::uint64_t address, std::uint64_t size) const {
    const auto offset = offset_of(address, size);
    return offset ? part(bytes_, *offset, size) : std::nullopt;
}

Bytes Image::rest_at(std::uint64_t address) const {
    const Segment* s = segment_at(address);
    if (s == nullptr) {
        return {};
    }
    const std::uint64_t skip = address - s->address;
    return Bytes(bytes_).subspan(static_cast<std::size_t>(s->offset + skip),
                                 static_cast<std::size_t>(s->file_size - skip));
}

bool Image::executable(std::uint64_t address) const {
    const Segment* s = segment_at(address);
    return s != nullptr && (s->flags & flag_execute) != 0;
}

}  // namespace npu::elf
