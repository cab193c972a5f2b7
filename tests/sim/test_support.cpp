#include "sim/test_support.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/float_bits.h"

namespace npu::sim::test {

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t window = std::uint64_t{1} << 32;

std::uint16_t target_of(std::uint16_t offset) {
    switch (offset >> 12) {
        case 0: return 0x0101;
        case 1: return 0x0201;
        case 3: return 0x0801;
        case 4: return 0x1001;
        case 5: return 0x2001;
        case 6: return 0x4001;
        default: return 0x8001;
    }
}

std::uint32_t c2_of(Precision precision) { return 128 / rockchip::info(precision).bits; }

}  // namespace

SparseMemory::SparseMemory() : mapped_(window / page) {
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, window, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED) {
        std::abort();
    }
}

SparseMemory::~SparseMemory() { ::munmap(base_, window); }

void SparseMemory::map(std::uint64_t iova, std::uint64_t bytes) {
    for (std::uint64_t at = iova / page; at <= (iova + bytes - 1) / page; ++at) {
        mapped_[at] = true;
    }
}

std::span<std::byte> SparseMemory::from(std::uint64_t iova) const {
    if (iova >= window) {
        return {};
    }
    std::uint64_t end = iova / page;
    while (end < mapped_.size() && mapped_[end]) {
        ++end;
    }
    return end * page > iova ? std::span(base_ + iova, end * page - iova) : std::span<std::byte>{};
}

void SparseMemory::fill(std::uint64_t iova, std::byte value, std::uint64_t bytes) const {
    std::memset(base_ + iova, static_cast<int>(value), bytes);
}

void Program::set(std::uint16_t offset, std::uint32_t value) {
    const auto found = std::ranges::find(registers_, offset, &std::pair<std::uint16_t, std::uint32_t>::first);
    if (found != registers_.end()) {
        found->second = value;
    } else {
        registers_.emplace_back(offset, value);
    }
}

void Program::erase(std::uint16_t offset) {
    std::erase_if(registers_, [offset](const auto& entry) { return entry.first == offset; });
}

std::uint32_t Program::get(std::uint16_t offset) const {
    return std::ranges::find(registers_, offset, &std::pair<std::uint16_t, std::uint32_t>::first)->second;
}

std::vector<std::uint64_t> Program::words(std::uint32_t enable, std::uint32_t next, std::uint32_t next_words) const {
    std::vector<std::uint64_t> result;
    for (const auto& [offset, value] : registers_) {
        result.push_back(command_word(offset, value));
    }
    result.push_back(next == 0 ? 0 : command_word(0x0010, next));
    result.push_back(command_word(0x0014, next == 0 ? 0 : (next_words + 1) / 2 - 1));
    result.push_back(std::uint64_t{0x0041} << 48);
    result.push_back(std::uint64_t{0x0081} << 48 | std::uint64_t{enable} << 16 | 0x0008);
    return result;
}

std::uint64_t command_word(std::uint16_t offset, std::uint32_t value) {
    return std::uint64_t{target_of(offset)} << 48 | std::uint64_t{value} << 16 | offset;
}

void write_words(const SparseMemory& memory, std::uint32_t iova, const std::vector<std::uint64_t>& words) {
    std::memcpy(memory.at(iova), words.data(), words.size() * 8);
}

std::uint64_t Matmul::a_bit(std::uint32_t row, std::uint32_t channel) const {
    const std::uint64_t bits = rockchip::info(input).bits;
    const std::uint64_t c2 = c2_of(input);
    if (mapping == Mapping::row_major) {
        return (std::uint64_t{row} * k + channel) * bits;
    }
    const std::uint64_t panel = mapping == Mapping::panel8 ? 8 : m;
    return (row / panel * (k / c2) * panel + channel / c2 * panel + row % panel) * 128 + channel % c2 * bits;
}

std::uint64_t Matmul::b_bit(std::uint32_t kernel, std::uint32_t channel) const {
    std::uint64_t g = 16;
    std::uint64_t kb = 32;
    switch (input) {
        case Precision::int8: g = 32; break;
        case Precision::int4: g = 64; break;
        case Precision::tf32: kb = 16; break;
        default: break;
    }
    const std::uint64_t block = kernel / g * (k / kb) + channel / kb;
    return (block * g * kb + kernel % g * kb + channel % kb) * rockchip::info(input).bits;
}

std::uint64_t Matmul::c_bit(std::uint32_t row, std::uint32_t kernel) const {
    const std::uint64_t bits = rockchip::info(output).bits;
    const std::uint64_t c2 = c2_of(output);
    if (mapping == Mapping::row_major) {
        return (std::uint64_t{row} * n + kernel) * bits;
    }
    const std::uint64_t panel = mapping == Mapping::panel8 ? 8 : m;
    return (row / panel * (n / c2) * panel + kernel / c2 * panel + row % panel) * 128 + kernel % c2 * bits;
}

Program matmul_program(const Matmul& matmul) {
    const std::uint32_t m = matmul.m;
    const std::uint32_t n = matmul.n;
    const std::uint32_t row_bytes = matmul.k * rockchip::info(matmul.input).bits / 8;
    const std::uint32_t output_row_bytes = n * rockchip::info(matmul.output).bits / 8;
    std::uint32_t surfaces = 4;  // 16-byte pieces of a kernel group in the output
    switch (matmul.output) {
        case Precision::fp16:
        case Precision::int8: surfaces = 2; break;
        case Precision::int16:
        case Precision::int32: surfaces = matmul.input == Precision::int16 ? 4 : 8; break;
        default: surfaces = matmul.input == Precision::int8 ? 8 : 4; break;
    }
    std::uint32_t w = 1;
    std::uint32_t h = m;
    std::uint32_t line = row_bytes / 16;
    std::int32_t surface = 0;
    bool single_lines = true;
    std::uint32_t notch = output_row_bytes / 16 - 1;
    std::uint32_t output_surface = 16;
    switch (matmul.mapping) {
        case Mapping::row_major: break;
        case Mapping::native_wide:
            w = m, h = 1, line = 4 * m, surface = -3 * static_cast<std::int32_t>(m), single_lines = false;
            notch = 0, output_surface = 16 * m;
            break;
        case Mapping::native_tall:
            line = 4, surface = static_cast<std::int32_t>(m) - 4, single_lines = false;
            notch = 0, output_surface = 16 * m;
            break;
        case Mapping::panel8:
            w = 8, h = m / 8, line = 8 * row_bytes / 16;
            notch = (output_row_bytes / 16 - 1) * 8, output_surface = 16 * 8;
            break;
        case Mapping::plane:
            w = 5, h = m / 5, line = 4 * w, single_lines = false;
            surface = static_cast<std::int32_t>(w) * (static_cast<std::int32_t>(h) - 4);
            notch = 0, output_surface = 16 * m;
            break;
    }
    const auto code = static_cast<std::uint32_t>(matmul.input);
    const std::uint32_t dpu_code = matmul.input == Precision::tf32 ? 5 : code;
    const std::uint32_t out_code = matmul.output == Precision::fp32    ? 5
                                   : matmul.output == Precision::int32 ? 4
                                                                       : static_cast<std::uint32_t>(matmul.output);
    const std::uint32_t data_banks = std::clamp<std::uint32_t>((m * row_bytes + 32767) / 32768, 1, 11);

    Program p;
    p.set(0x4004, 0xe);
    p.set(0x100c, code << 7 | code << 4 | (single_lines ? 1U << 29 : 0));
    p.set(0x1010, 2 << 4);
    p.set(0x1014, 9);
    p.set(0x1020, w << 16 | h);
    p.set(0x1024, (matmul.k - 1) << 16 | matmul.k);
    p.set(0x1028, w);
    p.set(0x102c, m);
    p.set(0x1030, n * row_bytes);
    p.set(0x1034, row_bytes);
    p.set(0x1038, 0x01010000 | n);
    p.set(0x1040, (12 - data_banks) << 4 | data_banks);
    p.set(0x1044, (w * row_bytes + 63) / 64);
    p.set(0x104c, 0xb);
    for (std::uint16_t offset = 0x1050; offset <= 0x105c; offset += 4) {
        p.set(offset, 0x10000);
    }
    for (const std::uint16_t offset : {0x1060, 0x1064, 0x1068, 0x1074, 0x1100, 0x1104, 0x1180, 0x1184}) {
        p.set(offset, 0);
    }
    p.set(0x1070, matmul.a);
    p.set(0x1078, 0x000f000f);
    p.set(0x107c, line);
    p.set(0x1080, static_cast<std::uint32_t>(surface) & 0x0fffffff);
    p.set(0x1084, w << 16 | h);
    p.set(0x1088, matmul.k);
    p.set(0x1110, matmul.b);
    for (std::uint16_t offset = 0x1140; offset <= 0x117c; offset += 4) {
        p.set(offset, 0);
    }
    p.set(0x3010, code << 8 | 1);
    p.set(0x3014, (h - 1) << 16 | (w - 1));
    p.set(0x3018, n - 1);
    p.set(0x301c, 0);
    p.set(0x3030, 0);
    p.set(0x400c, 0x1e4);
    p.set(0x4010, out_code << 29 | dpu_code << 26 | dpu_code);
    p.set(0x4014, 0);
    p.set(0x4020, matmul.c);
    p.set(0x4024, output_surface);
    p.set(0x4030, w - 1);
    p.set(0x4034, h - 1);
    p.set(0x4038, notch << 16 | notch);
    p.set(0x403c, (n - 1) << 16 | (n - 1));
    p.set(0x4040, 0x53);
    const std::uint32_t e = surfaces - 1;
    p.set(0x4050, e << 8 | e << 5 | e << 2 | 2);
    p.set(0x4054, 0);
    p.set(0x4058, n - 1);
    p.set(0x405c, (h - 1) << 16 | (w - 1));
    p.set(0x4060, 0x53);
    p.set(0x4070, 0x383);
    p.set(0x4080, 0);
    p.set(0x4084, matmul.output == Precision::fp16 ? 0x10001 : 1);
    p.set(0x4088, 0);
    p.set(0x40c0, output_surface * surfaces);
    p.set(0x40c4, 0);
    return p;
}

std::uint32_t read_element(const std::byte* base, std::uint64_t bit, unsigned bits) {
    std::uint32_t word = 0;
    std::memcpy(&word, base + bit / 8, bits < 8 ? 1 : bits / 8);
    word >>= bit % 8;
    return bits == 32 ? word : word & ((1U << bits) - 1);
}

void write_element(std::byte* base, std::uint64_t bit, unsigned bits, std::uint32_t code) {
    if (bits >= 8) {
        std::memcpy(base + bit / 8, &code, bits / 8);
        return;
    }
    const unsigned shift = bit % 8;
    const auto old = static_cast<unsigned>(base[bit / 8]);
    base[bit / 8] = static_cast<std::byte>((old & ~(((1U << bits) - 1) << shift)) | code << shift);
}

std::vector<std::uint32_t> random_codes(Precision precision, std::size_t count, std::mt19937& random, Range range) {
    std::vector<std::uint32_t> codes(count);
    std::normal_distribution<float> normal;
    for (std::uint32_t& code : codes) {
        for (bool good = false; !good;) {
            code = static_cast<std::uint32_t>(random());
            good = true;
            if (!rockchip::info(precision).floating) {
                code &= (1U << rockchip::info(precision).bits) - 1;
            } else if (range == Range::moderate) {
                const float value = normal(random);
                code = precision == Precision::fp16   ? float_to_half(value)
                       : precision == Precision::bf16 ? float_to_bfloat(value)
                                                      : std::bit_cast<std::uint32_t>(value);
            } else {
                code &= precision == Precision::tf32 ? 0xffffffffU : 0xffffU;
                good = std::isfinite(as_float(precision, code));
            }
        }
    }
    std::vector<std::uint32_t> extremes;
    switch (precision) {
        case Precision::int8: extremes = {0x80, 0x7f, 0, 0xff}; break;
        case Precision::int16: extremes = {0x8000, 0x7fff, 0, 0xffff}; break;
        case Precision::int4: extremes = {8, 7, 0, 15}; break;
        case Precision::fp16: extremes = {0x7bff, 0xfbff, 0x0001, 0x8001, 0x03ff, 0x0400, 0, 0x8000}; break;
        case Precision::bf16: extremes = {0x7f7f, 0xff7f, 0x0001, 0x8001, 0, 0x8000}; break;
        default: extremes = {0x7f7fffff, 0xff7fffff, 0x00002000, 0x80002000, 0x00001fff, 0, 0x80000000}; break;
    }
    if (rockchip::info(precision).floating && range == Range::moderate) {
        extremes = {0};
    }
    for (const std::uint32_t extreme : extremes) {
        codes[random() % count] = extreme;
    }
    return codes;
}

Operands random_operands(const Matmul& matmul, std::mt19937& random, Range range) {
    return {random_codes(matmul.input, std::size_t{matmul.m} * matmul.k, random, range),
            random_codes(matmul.input, std::size_t{matmul.n} * matmul.k, random, range)};
}

void load_operands(SparseMemory& memory, const Matmul& matmul, const Operands& operands) {
    memory.map(matmul.a, matmul.a_bytes());
    memory.map(matmul.b, matmul.b_bytes());
    memory.map(matmul.c, matmul.c_bytes());
    const unsigned bits = rockchip::info(matmul.input).bits;
    for (std::uint32_t k = 0; k < matmul.k; ++k) {
        for (std::uint32_t m = 0; m < matmul.m; ++m) {
            write_element(memory.at(matmul.a), matmul.a_bit(m, k), bits, operands.a[std::size_t{m} * matmul.k + k]);
        }
        for (std::uint32_t n = 0; n < matmul.n; ++n) {
            write_element(memory.at(matmul.b), matmul.b_bit(n, k), bits, operands.b[std::size_t{n} * matmul.k + k]);
        }
    }
    memory.fill(matmul.c, std::byte{0xee}, matmul.c_bytes());
}

std::vector<std::uint32_t> read_product(const SparseMemory& memory, const Matmul& matmul) {
    std::vector<std::uint32_t> product;
    for (std::uint32_t m = 0; m < matmul.m; ++m) {
        for (std::uint32_t n = 0; n < matmul.n; ++n) {
            const unsigned bits = rockchip::info(matmul.output).bits;
            product.push_back(read_element(memory.at(matmul.c), matmul.c_bit(m, n), bits));
        }
    }
    return product;
}

Kick kick_at(std::uint32_t base, std::size_t words, std::uint32_t tasks) {
    return {.base = base, .amount = static_cast<std::uint32_t>((words + 1) / 2 - 1), .task_number = tasks};
}

bool has_finding(const std::vector<Finding>& findings, Severity severity, std::vector<std::string> texts) {
    return std::ranges::any_of(findings, [&](const Finding& finding) {
        return finding.severity == severity && std::ranges::all_of(texts, [&](const std::string& text) {
                   return finding.message.find(text) != std::string::npos;
               });
    });
}

std::string list_findings(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& finding : findings) {
        text += std::string(severity_name(finding.severity)) + ": " + finding.message + "\n";
    }
    return text;
}

}  // namespace npu::sim::test
