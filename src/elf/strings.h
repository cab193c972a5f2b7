// The texts in a file. A C string is a run of printable characters that ends with a NUL; that is all a stripped file
// tells. Linkers share tails ("failed" may be the end of "has failed"), so a reference may point into the middle of a run:
// Strings::at() answers for any address, not only for beginnings.
#pragma once

#include "elf/image.h"

namespace npu::elf {

struct Text {
    std::uint64_t address = 0;
    std::uint64_t offset = 0;
    std::string_view text;   // in the image's bytes
    bool terminated = true;  // false: the segment ends without a NUL
};

class Strings {
  public:
    Strings() = default;
    // Printable runs of at least `least` bytes in loaded data, by address. Printable: ASCII, tab, line ends, escape
    // (log colours) and well-formed UTF-8. With sections, code and the dynamic linker's tables are left out.
    explicit Strings(const Image& image, std::size_t least = 4);

    [[nodiscard]] const std::vector<Text>& all() const { return all_; }
    // The run that holds an address, or null.
    [[nodiscard]] const Text* find(std::uint64_t address) const;

  private:
    std::vector<Text> all_;
};

// The C string that begins at an address, if it is printable up to its NUL (empty strings included).
std::optional<std::string_view> text_at(const Image& image, std::uint64_t address);

// Length of the printable run at the front of `bytes`.
std::size_t printable_length(Bytes bytes);

}  // namespace npu::elf
