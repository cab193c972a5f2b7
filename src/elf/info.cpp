#include "elf/info.h"

#include <algorithm>
#include <regex>
#include <set>

#include "base/sha256.h"

namespace npu::elf {

namespace {

std::string hex(Bytes bytes) {
    std::string text;
    for (const std::uint8_t b : bytes) {
        text += format("%02x", b);
    }
    return text;
}

// The AArch64 feature bits of a GNU property note: entries of type, size, data, padded to 8 bytes.
void read_properties(Bytes properties, Hardening& hardening) {
    std::uint64_t at = 0;
    while (const auto type = load<std::uint32_t>(properties, at)) {
        const std::uint64_t size = load<std::uint32_t>(properties, at + 4).value_or(0);
        if (*type == 0xc0000000) {  // GNU_PROPERTY_AARCH64_FEATURE_1_AND
            const std::uint32_t bits = load<std::uint32_t>(properties, at + 8).value_or(0);
            hardening.branch_target = (bits & 1) != 0;
            hardening.pointer_auth = (bits & 2) != 0;
        }
        at += 8 + (size + 7) / 8 * 8;
    }
}

void read_notes(const Image& image, Info& info) {
    for (const Segment& s : image.segments()) {
        if (s.type != segment_note) {
            continue;
        }
        const Bytes notes = part(image.bytes(), s.offset, s.file_size).value_or(Bytes{});
        std::uint64_t at = 0;
        while (const auto name_size = load<std::uint32_t>(notes, at)) {
            const std::uint64_t size = load<std::uint32_t>(notes, at + 4).value_or(0);
            const std::uint32_t type = load<std::uint32_t>(notes, at + 8).value_or(0);
            const std::uint64_t data_at = at + 12 + (std::uint64_t{*name_size} + 3) / 4 * 4;
            const Bytes data = part(notes, data_at, size).value_or(Bytes{});
            const bool gnu = load_text(notes, at + 12).value_or("") == "GNU";
            if (gnu && type == 3) {
                info.build_id = hex(data);
            } else if (gnu && type == 5) {
                read_properties(data, info.hardening);
            }
            at = data_at + (size + 3) / 4 * 4;
        }
    }
}

void read_compilers(const Image& image, Info& info) {
    const Section* comment = image.find_section(".comment");
    const Bytes bytes =
        comment == nullptr ? Bytes{} : part(image.bytes(), comment->offset, comment->size).value_or(Bytes{});
    for (std::uint64_t at = 0; at < bytes.size();) {
        const auto text = load_text(bytes, at);
        if (!text) {
            break;
        }
        if (!text->empty()) {
            info.compilers.emplace_back(*text);
        }
        at += text->size() + 1;
    }
}

// Linear in the text, unlike std::regex, whose depth grows with it: strings here may be megabytes.
bool is_banner(std::string_view text) {
    if (text.size() > 400) {
        return false;
    }
    for (const std::string_view mark :
         {"RKLLM SDK (", "rknn llm lib version", "librknnrt version", "RKNN SDK",
          "rkllm-runtime version:", "rkllm-toolkit version:", "RKNN Runtime Information"}) {
        if (text.find(mark) != std::string_view::npos) {
            return true;
        }
    }
    return false;
}

bool is_library_name(std::string_view text) {
    if (text.size() > 128 || text.find_first_of(" %\n:,()") != std::string_view::npos) {
        return false;
    }
    const std::size_t slash = text.rfind('/');
    const std::string_view file = slash == std::string_view::npos ? text : text.substr(slash + 1);
    const std::size_t so = file.rfind(".so");
    return file.starts_with("lib") && so != std::string_view::npos && so > 3 &&
           (so + 3 == file.size() || file[so + 3] == '.');
}

}  // namespace

Info describe(const Image& image, const Dynamic& dynamic, const Strings& strings) {
    Info info;
    info.sha256 = sha256(image.bytes());
    read_notes(image, info);
    read_compilers(image, info);
    std::set<std::string> opened;
    static const std::regex runtime(R"(RKLLM SDK \(version: ([^ ]+) \|)");
    for (const Text& text : strings.all()) {
        if (is_banner(text.text)) {
            info.banners.emplace_back(text.text);
            std::smatch match;
            if (info.runtime_version.empty() && std::regex_search(info.banners.back(), match, runtime)) {
                info.runtime_version = match[1];
            }
        }
        if (is_library_name(text.text)) {
            opened.emplace(text.text);
        }
    }
    for (const std::string& name : dynamic.needed) {
        opened.erase(name);
    }
    opened.erase(dynamic.soname);
    info.opened.assign(opened.begin(), opened.end());
    for (const Symbol& symbol : dynamic.symbols) {
        info.hardening.canary |= symbol.name == "__stack_chk_fail";
    }
    info.hardening.relro = image.find_segment(segment_relro) != nullptr;
    const std::uint64_t flags = dynamic.value(30).value_or(0);               // DT_FLAGS
    const std::uint64_t more_flags = dynamic.value(0x6ffffffb).value_or(0);  // DT_FLAGS_1
    info.hardening.bind_now = (flags & 8) != 0 || (more_flags & 1) != 0 || dynamic.value(24).has_value();
    const Segment* stack = image.find_segment(segment_stack);
    info.hardening.stack_executable = stack != nullptr && (stack->flags & flag_execute) != 0;
    info.stripped = std::none_of(image.sections().begin(), image.sections().end(), [](auto& s) { return s.type == 2; });
    info.has_frame_table = image.find_segment(segment_eh_frame) != nullptr;
    return info;
}

}  // namespace npu::elf
