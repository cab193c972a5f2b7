// The smallest shared object that means something, written byte by byte, so that a test can then break one field of it.
// One loaded segment holds header, segment table, code, names and symbols; a dynamic segment points at them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace npu::elf::testing {

class TinyElf {
  public:
    static constexpr std::uint64_t code = 0x100, dynamic = 0x140, names = 0x1c0, symbols = 0x200, hash = 0x240,
                                   text = 0x260, sections = 0x280, size = 0x280 + 2 * 64;

    TinyElf() : bytes(size) {
        put(0, 0x464c457f, 4);
        bytes[4] = 2;
        bytes[5] = 1;
        bytes[6] = 1;
        put(16, 3, 2);
        put(18, 183, 2);
        put(32, 64, 8);
        put(40, sections, 8);
        put(54, 56, 2);
        put(56, 2, 2);
        put(58, 64, 2);
        put(60, 2, 2);
        put(62, 1, 2);
        segment(0, 1, 5, 0, 0x10000, size);
        segment(1, 2, 6, dynamic, 0x10000 + dynamic, 0x70);
        put(code, 0xd65f03c0, 4);  // ret
        const std::uint64_t entries[][2] = {{5, 0x10000 + names}, {10, 0x20}, {6, 0x10000 + symbols},
                                            {4, 0x10000 + hash},  {1, 1},     {0, 0}};
        for (std::size_t i = 0; i < 6; ++i) {
            put(dynamic + 16 * i, entries[i][0], 8);
            put(dynamic + 16 * i + 8, entries[i][1], 8);
        }
        write(names + 1, "libm.so.6");
        write(names + 11, "answer");
        put(symbols + 24, 11, 4);
        put(symbols + 28, 0x12, 1);
        put(symbols + 30, 1, 2);
        put(symbols + 32, 0x10000 + code, 8);
        put(symbols + 40, 4, 8);
        put(hash + 4, 2, 4);
        write(text, "a text to be found");
        put(sections + 64 + 4, 3, 4);  // section 1: names of sections
        put(sections + 64 + 24, names, 8);
        put(sections + 64 + 32, 0x20, 8);
    }

    void put(std::uint64_t at, std::uint64_t value, unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            bytes.at(at + i) = static_cast<std::uint8_t>(value >> (8 * i));
        }
    }
    void write(std::uint64_t at, const std::string& s) {
        for (std::size_t i = 0; i < s.size(); ++i) {
            bytes.at(at + i) = static_cast<std::uint8_t>(s[i]);
        }
    }
    void segment(unsigned i, std::uint32_t type, std::uint32_t flags, std::uint64_t offset, std::uint64_t address,
                 std::uint64_t bytes_in_file) {
        const std::uint64_t at = 64 + 56 * i;
        put(at, type, 4);
        put(at + 4, flags, 4);
        put(at + 8, offset, 8);
        put(at + 16, address, 8);
        put(at + 24, address, 8);
        put(at + 32, bytes_in_file, 8);
        put(at + 40, bytes_in_file, 8);
    }

    std::vector<std::uint8_t> bytes;
};

}  // namespace npu::elf::testing
