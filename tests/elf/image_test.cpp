// The reader on files that are whole, odd, torn and hostile. The file is written by the test, so every field is known.
#include "elf/image.h"

#include <gtest/gtest.h>

#include <random>

#include "base/sha256.h"
#include "elf/dynamic.h"
#include "elf/info.h"
#include "elf/strings.h"
#include "tiny_elf.h"

namespace npu::elf {
namespace {

using testing::TinyElf;

Result<Image> parse(const TinyElf& file) { return Image::parse(file.bytes, "tiny.so"); }

void expect_torn(const TinyElf& file, const std::string& field) {
    const auto image = parse(file);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().code, ErrorCode::invalid_argument) << image.error().message;
    EXPECT_NE(image.error().message.find(field), std::string::npos) << image.error().message;
    EXPECT_NE(image.error().message.find("offset 0x"), std::string::npos) << image.error().message;
}

void expect_not_ours(std::vector<std::uint8_t> bytes, const std::string& reason) {
    const auto image = Image::parse(std::move(bytes), "x.so");
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().code, ErrorCode::unsupported);
    EXPECT_NE(image.error().message.find(reason), std::string::npos) << image.error().message;
}

TEST(Image, AWholeFileIsReadAndItsAddressesAreNotItsOffsets) {
    const TinyElf file;
    const auto image = parse(file);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_TRUE(image->warnings().empty());
    EXPECT_EQ(image->offset_of(0x10000 + TinyElf::code), TinyElf::code);
    EXPECT_EQ(image->address_of(TinyElf::code), 0x10000 + TinyElf::code);
    EXPECT_FALSE(image->offset_of(TinyElf::code)) << "a file offset is no address";
    EXPECT_FALSE(image->offset_of(0x10000 + TinyElf::size - 2, 4)) << "two of the four bytes are outside";
    EXPECT_TRUE(image->executable(0x10000 + TinyElf::code));
    EXPECT_EQ(image->load_at<std::uint32_t>(0x10000 + TinyElf::code), 0xd65f03c0U);
}

TEST(Image, TheDynamicPartGivesNamesAndSymbols) {
    const auto image = parse(TinyElf());
    ASSERT_TRUE(image);
    const auto dynamic = read_dynamic(*image);
    ASSERT_TRUE(dynamic) << dynamic.error().message;
    EXPECT_EQ(dynamic->needed, std::vector<std::string>{"libm.so.6"});
    ASSERT_EQ(dynamic->symbols.size(), 2U);
    EXPECT_EQ(dynamic->symbols[1].name, "answer");
    EXPECT_EQ(dynamic->symbols[1].address, 0x10000 + TinyElf::code);
    EXPECT_TRUE(dynamic->symbols[1].defined && dynamic->symbols[1].is_function());
}

TEST(Image, FilesThatAreNotOursAreRefusedAndNamed) {
    expect_not_ours({'h', 'e', 'l', 'l', 'o'}, "no ELF file");
    const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7500000\n";
    expect_not_ours({pointer.begin(), pointer.end()}, "Git-LFS pointer");
    TinyElf file;
    file.put(18, 62, 2);
    expect_not_ours(file.bytes, "x86-64");
    file = {};
    file.bytes[4] = 1;
    expect_not_ours(file.bytes, "32-bit");
    file = {};
    file.bytes[5] = 2;
    expect_not_ours(file.bytes, "little-endian");
    file = {};
    file.put(16, 1, 2);
    expect_not_ours(file.bytes, "e_type 1");
    file = {};
    EXPECT_TRUE(parse(file)) << "control: the unbroken file is ours";
    file.put(16, 2, 2);
    EXPECT_TRUE(parse(file)) << "executables are ours, too";
}

TEST(Image, TornFilesNameTheFieldAndItsOffset) {
    TinyElf file;
    file.bytes.clear();
    expect_torn(file, "e_ident");
    file = {};
    file.bytes.resize(63);
    expect_torn(file, "ELF header");
    file = {};
    file.bytes.resize(TinyElf::text);
    expect_torn(file, "p_offset");
    file = {};
    file.put(56, 0xfff0, 2);
    expect_torn(file, "e_phoff");
    file = {};
    file.put(32, ~std::uint64_t{7}, 8);
    expect_torn(file, "e_phoff");
    file = {};
    file.put(54, 32, 2);
    expect_torn(file, "e_phentsize");
    file = {};
    file.put(56, 0, 2);
    expect_torn(file, "e_phnum");
}

TEST(Image, SegmentsThatOverflowOrOverlapAreRefused) {
    TinyElf file;
    file.put(64 + 8, ~std::uint64_t{0}, 8);  // p_offset
    expect_torn(file, "p_offset");
    file = {};
    file.put(64 + 16, ~std::uint64_t{0} - 16, 8);  // p_vaddr
    expect_torn(file, "p_vaddr");
    file = {};
    file.put(64 + 40, 1, 8);  // p_memsz
    expect_torn(file, "p_memsz");
    file = {};
    file.segment(1, 1, 6, 0, 0x10000 + TinyElf::size - 1, 16);
    expect_torn(file, "overlap");
    file.segment(1, 1, 6, 0, 0x10000 + TinyElf::size, 16);
    EXPECT_TRUE(parse(file)) << "control: side by side is no overlap";
    file = {};
    file.put(64, 6, 4);
    expect_torn(file, "no segment is loaded");
}

TEST(Image, TheNumberOfSegmentsMayStandInSectionZero) {
    TinyElf file;
    file.put(56, 0xffff, 2);
    file.put(TinyElf::sections + 44, 2, 4);
    const auto image = parse(file);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_EQ(image->segments().size(), 2U);
    file.put(TinyElf::sections + 44, 0x7fffffff, 4);
    expect_torn(file, "e_phoff");
    file.put(40, ~std::uint64_t{0} - 8, 8);
    expect_torn(file, "e_phnum");
}

TEST(Image, ABrokenSectionTableOnlyCostsNames) {
    TinyElf file;
    file.put(40, 1 << 30, 8);
    auto image = parse(file);
    ASSERT_TRUE(image);
    EXPECT_EQ(image->warnings().size(), 1U);
    EXPECT_TRUE(read_dynamic(*image)) << "symbols do not need sections";
    file = {};
    file.put(60, 0, 2);  // e_shnum 0: the number stands in sh_size of section 0, which is 0
    image = parse(file);
    ASSERT_TRUE(image);
    EXPECT_TRUE(image->sections().empty());
    file = {};
    file.put(TinyElf::sections + 64 + 24, 1 << 30, 8);
    image = parse(file);
    ASSERT_TRUE(image);
    ASSERT_EQ(image->warnings().size(), 1U);
    EXPECT_NE(image->warnings()[0].find("section 1"), std::string::npos);
    file = {};
    file.put(TinyElf::sections + 64 + 32, 8, 8);  // cut off: segment complete, section table not
    file.bytes.resize(TinyElf::sections + 70);
    file.segment(0, 1, 5, 0, 0x10000, TinyElf::sections);
    image = parse(file);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_EQ(image->warnings().size(), 1U);
}

TEST(Image, ATableOfNamesMustEndAndHoldItsNames) {
    TinyElf file;
    file.put(TinyElf::dynamic + 24, 0x10, 8);  // DT_STRSZ: cuts "answer" in two, no NUL at the end
    auto image = parse(file);
    ASSERT_TRUE(image);
    auto dynamic = read_dynamic(*image);
    ASSERT_FALSE(dynamic);
    EXPECT_NE(dynamic.error().message.find("does not end with a NUL"), std::string::npos);
    file = {};
    file.put(TinyElf::symbols + 24, 0x400, 4);
    image = parse(file);
    dynamic = read_dynamic(*image);
    ASSERT_FALSE(dynamic);
    EXPECT_NE(dynamic.error().message.find("st_name"), std::string::npos);
    file = {};
    file.put(TinyElf::dynamic + 8, 0x900000, 8);
    image = parse(file);
    EXPECT_FALSE(read_dynamic(*image));
}

TEST(Image, AStringAtTheEndOfTheFileNeedsNoNulButIsMarked) {
    TinyElf file;
    file.put(40, 0, 8);  // no sections: strings come from the segment
    file.write(TinyElf::size - 5, "fives");
    const auto image = parse(file);
    ASSERT_TRUE(image);
    const Strings strings(*image);
    ASSERT_FALSE(strings.all().empty());
    EXPECT_EQ(strings.all().back().text, "fives");
    EXPECT_FALSE(strings.all().back().terminated);
    const Text* middle = strings.find(0x10000 + TinyElf::text + 7);
    ASSERT_NE(middle, nullptr);
    EXPECT_EQ(middle->text, "a text to be found");
    EXPECT_TRUE(middle->terminated);
    EXPECT_EQ(text_at(*image, 0x10000 + TinyElf::text + 7), "to be found");
    EXPECT_FALSE(text_at(*image, 0x10000 + TinyElf::size - 5)) << "no C string without a NUL";
}

TEST(Image, OnlyWellFormedUtf8IsPrintable) {
    const auto length = [](std::string s) {
        return printable_length(Bytes(reinterpret_cast<const std::uint8_t*>(s.data()), s.size()));
    };
    EXPECT_EQ(length("\x1b[31mred\n"), 9U);
    EXPECT_EQ(length("\xc3\xbc"
                     "ber"),
              5U);
    EXPECT_EQ(length("\xe4\xb8\xad"), 3U);
    EXPECT_EQ(length("\xc0\xaf"), 0U) << "overlong";
    EXPECT_EQ(length("\xed\xa0\x80"), 0U) << "half a surrogate pair";
    EXPECT_EQ(length("a\xe4\xb8"), 1U) << "cut off";
    EXPECT_EQ(length("a\x01"), 1U);
}

TEST(Image, DamagedFilesAreReadOrRefusedButNeverCrash) {
    std::mt19937_64 random(20);
    int read = 0, refused = 0;
    for (int i = 0; i < 4000; ++i) {
        TinyElf file;
        const int changes = 1 + static_cast<int>(random() % 4);
        for (int c = 0; c < changes; ++c) {
            const std::uint64_t edges[] = {0, 1, 0x7fffffff, 0xffffffff, ~std::uint64_t{0}, random(), random() % 1024};
            file.put(random() % (TinyElf::size - 8), edges[random() % 7], 1U << random() % 4);
        }
        if (random() % 8 == 0) {
            file.bytes.resize(random() % TinyElf::size);
        }
        const auto image = parse(file);
        if (!image) {
            ++refused;
            continue;
        }
        ++read;
        const auto dynamic = read_dynamic(*image);
        const Strings strings(*image);
        if (dynamic) {
            (void)describe(*image, *dynamic, strings);
        }
    }
    EXPECT_GT(read, 400);
    EXPECT_GT(refused, 400);
}

TEST(Sha256, KnownTextsHaveTheirPublishedHashes) {
    const auto hash = [](const std::string& s) {
        return sha256(Bytes(reinterpret_cast<const std::uint8_t*>(s.data()), s.size()));
    };
    EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hash(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace npu::elf
