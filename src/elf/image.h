// What an ELF file says of itself. The loader of the system looks at the segments only: which bytes of the file appear
// at which addresses, and what may be done there. Sections are notes for linkers and debuggers, and a stripped or cut
// file may have none; so everything here works from the segments, and sections only add names. An address is not a file
// offset: the two differ by another amount in each segment, and whoever patches must go through offset_of().
//
// Accepted: 64-bit little-endian AArch64, shared object or executable (System V gABI, chapters "ELF Header", "Sections",
// "Program Header"; ELF for the Arm 64-bit Architecture, AAELF64).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "elf/bytes.h"

namespace npu::elf {

enum : std::uint32_t {
    segment_load = 1,
    segment_dynamic = 2,
    segment_interpreter = 3,
    segment_note = 4,
    segment_eh_frame = 0x6474e550,
    segment_stack = 0x6474e551,
    segment_relro = 0x6474e552,
};
enum : std::uint32_t { flag_execute = 1, flag_write = 2, flag_read = 4 };

struct Segment {
    std::uint32_t type = 0;
    std::uint32_t flags = 0;
    std::uint64_t offset = 0;
    std::uint64_t address = 0;
    std::uint64_t file_size = 0;
    std::uint64_t memory_size = 0;
};

struct Section {
    std::string name;
    std::uint32_t type = 0;
    std::uint64_t flags = 0;
    std::uint64_t address = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;  // 0 bytes in the file for type 8 (NOBITS)
    std::uint32_t link = 0;
    std::uint32_t info = 0;
    std::uint64_t entry_size = 0;
};

// A parsed file, which owns its bytes; spans it gives live as long as it does, also when it is moved. Not copied, and
// safe to read from several threads.
class Image {
  public:
    // `name` appears in messages. Errors: `unsupported` when the file is no ELF of this kind (text, Git-LFS pointer,
    // other machine or class), `invalid_argument` when it is one but torn or contradictory; both name field and offset.
    static Result<Image> parse(std::vector<std::uint8_t> bytes, std::string name);

    Image(Image&&) = default;
    Image& operator=(Image&&) = default;
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] Bytes bytes() const { return bytes_; }
    [[nodiscard]] bool is_executable_file() const { return type_ == 2; }
    [[nodiscard]] std::uint64_t entry() const { return entry_; }
    [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
    [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }
    // What is odd but did not prevent reading, such as a section table that is cut off.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

    [[nodiscard]] const Segment* find_segment(std::uint32_t type) const;
    [[nodiscard]] const Section* find_section(std::string_view name) const;
    // The section that holds an address, for display.
    [[nodiscard]] const Section* section_at(std::uint64_t address) const;
    // The loaded segment whose bytes in the file hold an address.
    [[nodiscard]] const Segment* segment_at(std::uint64_t address) const;
    // Where the byte at an address stands in the file, if `size` bytes from there do.
    [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address, std::uint64_t size = 1) const;
    [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t offset) const;
    // `size` bytes at an address, if all come from one loaded segment of the file.
    [[nodiscard]] std::optional<Bytes> at(std::uint64_t address, std::uint64_t size) const;
    // Everything from an address to the end of its segment's bytes; empty when there is nothing.
    [[nodiscard]] Bytes rest_at(std::uint64_t address) const;
    [[nodiscard]] bool executable(std::uint64_t address) const;
    template <typename T>
    [[nodiscard]] std::optional<T> load_at(std::uint64_t address) const {
        return load<T>(rest_at(address), 0);
    }

  private:
    Image() = default;
    Result<void> parse_header();
    Result<void> parse_segments();
    Result<void> check_loads() const;
    void parse_sections();
    [[nodiscard]] Error torn(const char* field, std::uint64_t offset, const std::string& why) const;

    std::string name_;
    std::vector<std::uint8_t> bytes_;
    std::uint16_t type_ = 0;
    std::uint64_t entry_ = 0;
    std::vector<Segment> segments_;
    std::vector<Section> sections_;
    std::vector<std::string> warnings_;
};

}  // namespace npu::elf
