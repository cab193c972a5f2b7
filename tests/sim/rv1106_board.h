// One published program of the RV1106 in memory: command lists, constants, input and output at fixed offsets from the
// DMA base. Runs the chain as the command lists say.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rockchip/chip.h"
#include "sim/core.h"
#include "sim/rv1106.h"

namespace npu::sim::test {

using nlohmann::json;
using Words = std::vector<std::uint64_t>;

inline constexpr std::uint32_t dma_base = 0x40000000;
inline constexpr std::size_t arena_bytes = 0x4000;
inline constexpr std::byte untouched{0xee};

inline std::vector<std::byte> from_hex(const std::string& text) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

// Memory as the blocks see it: the DMA base is added to every address of a register.
class Relocated final : public Memory {
  public:
    Relocated(const Memory& memory, std::uint32_t base) : memory_(memory), base_(base) {}
    [[nodiscard]] std::span<std::byte> from(std::uint64_t iova) const override { return memory_.from(iova + base_); }

  private:
    const Memory& memory_;
    std::uint32_t base_;
};

struct Outcome {
    bool finished = true;
    std::vector<Finding> findings;
    std::vector<rockchip::TaskWork> work;
};

// Arena of one program: command lists, constants, input and output at fixed offsets from the DMA base.
class Board {
  public:
    explicit Board(const json& file) : file_(file) {
        for (const json& program : file.at("programs")) {
            Words words;
            for (const json& word : program.at("words")) {
                words.push_back(std::stoull(word.get<std::string>(), nullptr, 16));
            }
            programs_[program.at("offset").get<std::uint32_t>()] = words;
        }
        EXPECT_TRUE(memory_.map(dma_base, arena_));
        for (const json& constant : file.at("constants")) {
            write(constant.at("offset"), from_hex(constant.at("hex")));
        }
        std::fill_n(at(output()), output_bytes(), untouched);
    }
    Board(const Board&) = delete;
    Board& operator=(const Board&) = delete;

    [[nodiscard]] std::byte* at(std::uint32_t offset) { return arena_.data() + offset; }
    void write(std::uint32_t offset, const std::vector<std::byte>& bytes) {
        ASSERT_LE(offset + bytes.size(), arena_.size());
        std::memcpy(at(offset), bytes.data(), bytes.size());
    }
    // Packed pixels, three bytes each, into lines of 16 pixels.
    void load_image(const std::vector<std::uint8_t>& pixels) {
        for (std::size_t i = 0; i < pixels.size(); ++i) {
            const std::size_t pixel = i / 3;
            *at(input() + static_cast<std::uint32_t>((pixel / width() * 16 + pixel % width()) * 3 + i % 3)) =
                static_cast<std::byte>(pixels[i]);
        }
    }

    [[nodiscard]] std::uint32_t input() const { return file_.at("arena").at("input"); }
    [[nodiscard]] std::uint32_t output() const { return file_.at("arena").at("output"); }
    [[nodiscard]] std::uint32_t width() const { return file_.at("shape").at("w"); }
    [[nodiscard]] std::uint32_t pixels() const { return width() * file_.at("shape").at("h").get<std::uint32_t>(); }
    [[nodiscard]] std::size_t output_bytes() const { return std::size_t{pixels()} * 16; }
    [[nodiscard]] std::vector<std::byte> outputs() { return {at(output()), at(output()) + output_bytes()}; }
    // Lanes of an output pixel that the program writes: the last task's channels.
    [[nodiscard]] std::uint32_t lanes() const {
        for (const std::uint64_t word : programs_.rbegin()->second) {
            if ((word & 0xffff) == 0x403c) {
                return static_cast<std::uint32_t>(word >> 32 & 0x1fff) + 1;
            }
        }
        return 0;
    }

    // Follows the chain from the first list. `change` sees each word of a body and may alter or (0) drop it.
    Outcome run(std::uint64_t seed = 1, const std::function<std::uint64_t(std::size_t, std::uint64_t)>& change = {},
                std::uint32_t base = dma_base, Mode mode = Mode::strict) {
        Outcome outcome;
        std::uint32_t next = 0;
        std::size_t place = 0;
        for (std::uint32_t task = 0; task < programs_.size() && outcome.finished; ++task) {
            Judge judge(0, task, mode);
            Rv1106Registers registers(seed + task);
            std::uint32_t enable = 0;
            for (std::uint64_t word : programs_.at(next)) {
                rockchip::Command command = rockchip::decode(word);
                if (command.target == rockchip::target::enable) {
                    enable = command.value;
                } else if (command.target == rockchip::target::pc) {
                    next = command.offset == 0x0010 ? command.value : next;
                } else if (command.target != rockchip::target::separator) {
                    if (change) {
                        word = change(place++, word);
                    }
                    if (word != 0) {
                        registers.apply(rockchip::decode(word), judge);
                    }
                }
            }
            const Relocated memory(memory_, base);
            const auto work = run_rv1106_task(registers, enable, memory, judge);
            outcome.finished = work.has_value();
            if (work) {
                outcome.work.push_back(*work);
            }
            outcome.findings.insert(outcome.findings.end(), judge.findings().begin(), judge.findings().end());
        }
        return outcome;
    }
    // The whole chain by a core of that chip, from command lists in memory. The core sees the arena at address 0.
    KickResult run_on_core(Mode mode = Mode::strict) {
        MappedMemory memory;
        EXPECT_TRUE(memory.map(0, arena_));
        for (const auto& [offset, words] : programs_) {
            std::memcpy(at(offset), words.data(), words.size() * sizeof words[0]);
        }
        CoreOptions options;
        options.chip = &rockchip::rv1106();
        options.mode = mode;
        Core core(options);
        Kick kick;
        kick.base = programs_.begin()->first;
        kick.amount = rockchip::fetch_amount(static_cast<std::uint32_t>(programs_.begin()->second.size()));
        kick.task_number = static_cast<std::uint32_t>(programs_.size());
        return core.run(kick, memory);
    }
    // Words of all bodies, in the order in which `change` sees them.
    [[nodiscard]] Words bodies() const {
        Words words;
        for (const auto& [offset, program] : programs_) {
            words.insert(words.end(), program.begin(), program.end() - 4);
        }
        return words;
    }

  private:
    const json& file_;
    std::map<std::uint32_t, Words> programs_;  // by offset, which is the order of the chain
    std::vector<std::byte> arena_ = std::vector<std::byte>(arena_bytes);
    MappedMemory memory_;
};

}  // namespace npu::sim::test
