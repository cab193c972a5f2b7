// Command lists that are nearly right. A machine refuses noise at its first check; to get behind all of them a fuzzer has
// to start from what works. A recipe is a register list from the published facts (matmul, convolution, depthwise,
// element-wise, activation table, pooling); then single fields are changed, registers left out, repeated or swapped, and
// the tail is damaged. Without any change a recipe is a program that runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/input.h"
#include "rockchip/command.h"

namespace npu::fuzz {

// Where a program finds its data. Each part is at least `bytes` long.
struct Places {
    std::uint32_t features = 0;
    std::uint32_t weights = 0;
    std::uint32_t outputs = 0;
    std::uint32_t operands = 0;
};
inline constexpr std::uint32_t place_bytes = 0x8000;

// A longer list does not fit the place that the targets keep for it.
inline constexpr std::size_t most_words = 1536;

struct List {
    std::vector<std::uint64_t> words;  // tail included
    std::uint32_t body_words = 0;      // as the drivers count: without the tail of four words
    std::uint32_t enable = 0;
};

// A changed recipe. `next` is the address of the next list (0: none) and `next_words` its length, tail included; lists of
// a chain are therefore made from the last to the first.
List draw_list(Input& input, const Places& places, std::uint32_t next = 0, std::uint32_t next_words = 0);

// Fills up to place_bytes with the kind of data that the input names: random bits, fp16 around 1, floats that are special,
// extremes of int8, zeros.
void fill_data(Input& input, std::span<std::uint8_t> data);

}  // namespace npu::fuzz
