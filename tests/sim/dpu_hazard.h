// What the refusal tests of the DPU share: one mistake at a time in a program that runs, tried in both modes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/dpu_support.h"

namespace npu::sim::test {

using Writes = std::vector<std::pair<std::uint16_t, std::uint32_t>>;

struct DpuHazard {
    const char* name;
    Severity severity;
    std::vector<std::string> texts;
    Writes writes;
};

inline constexpr auto hang = Severity::hang;
inline constexpr auto corrupt = Severity::corrupt;
inline constexpr auto unmodelled = Severity::unmodelled;
inline constexpr std::uint32_t operand = 0x40000000;

inline Matmul halves() {
    return {.input = Precision::fp16,
            .output = Precision::fp16,
            .m = 16,
            .k = 64,
            .n = 32,
            .mapping = Mapping::native_tall};
}
inline Matmul floats() { return {.input = Precision::fp16, .output = Precision::fp32, .m = 8, .k = 64, .n = 32}; }
inline Matmul bytes() {
    return {.input = Precision::int8,
            .output = Precision::int8,
            .m = 12,
            .k = 64,
            .n = 64,
            .mapping = Mapping::native_tall};
}

// Runs a program with some registers changed, in both modes where that must be safe.
template <typename Run>
inline void expect_refused(const DpuHazard& hazard, Program program, std::uint32_t output, Run run) {
    for (const auto& [offset, value] : hazard.writes) {
        program.set(offset, value);
    }
    for (const Mode mode : {Mode::strict, Mode::lenient}) {
        DpuBench bench;
        bench.mode = mode;
        for (const std::uint32_t address : {0x10000000U, 0x20000000U, 0x30000000U, operand}) {
            bench.memory.map(address, 0x100000);
            bench.memory.fill(address, std::byte{0}, 0x10000);
        }
        bench.memory.fill(output, std::byte{0xee}, 0x10000);
        const Outcome outcome = run(bench, program);
        EXPECT_TRUE(has_finding(outcome.findings, hazard.severity, hazard.texts)) << hazard.name << ":\n"
                                                                                  << list_findings(outcome.findings);
        if (mode == Mode::strict) {
            EXPECT_FALSE(outcome.ran) << hazard.name;
            bool untouched = true;
            for (std::uint32_t i = 0; i < 0x10000; ++i) {
                untouched = untouched && *bench.memory.at(output + i) == std::byte{0xee};
            }
            EXPECT_TRUE(untouched) << hazard.name;
        } else if (hazard.severity == unmodelled) {
            EXPECT_FALSE(outcome.ran) << hazard.name << ": nobody knows what silicon does";
        }
    }
}

inline void expect_fed_refused(const Matmul& matmul, const DpuHazard& hazard, const Program& program,
                               std::uint32_t enable) {
    FedSums sums;
    const std::size_t count = std::size_t{matmul.m} * matmul.n;
    if (rockchip::info(matmul.input).floating) {
        sums.floats.assign(count, 1.5F);
    } else {
        sums.integers.assign(count, 77);
    }
    expect_refused(hazard, program, matmul.c, [&](DpuBench& bench, const Program& changed) {
        const Convolution feed = feed_of(matmul);
        FedSums given = sums;
        const bool windows = (changed.get(0x4050) & 2) == 0 && changed.get(0x4054) != 0;
        given.window_sums.assign(windows && !given.integers.empty() ? matmul.m : 0, 3);
        return bench.run_fed(changed, feed, given, enable);
    });
}

inline void expect_flying_refused(const FlyingShape& shape, const DpuHazard& hazard, const Program& program) {
    expect_refused(hazard, program, shape.destination,
                   [&](DpuBench& bench, const Program& changed) { return bench.run_flying(changed); });
}

inline Program idle_rdma_program(const Matmul& matmul) {
    Program p = matmul_program(matmul);
    const Convolution feed = feed_of(matmul);
    add_idle_rdma(p, feed.width, feed.height, matmul.n);
    return p;
}

inline Program fused_program() {
    Program p = matmul_program(halves());
    add_fused_operand(p, halves(), operand, 0x108202c0, 2, 2);
    return p;
}

inline constexpr FlyingShape half_cube{
    .input = Precision::fp16, .output = Precision::fp16, .width = 5, .height = 2, .channels = 32};
inline constexpr FlyingShape byte_cube{.input = Precision::int8, .output = Precision::int8, .width = 5, .channels = 32};
inline constexpr FlyingShape word_cube{
    .input = Precision::int32, .output = Precision::int32, .width = 5, .channels = 32};

inline Program flying_add(const FlyingShape& shape) {
    Program p = flying_program(shape);
    const unsigned bytes = rockchip::info(shape.input).bits / 8U;
    add_operand(p, shape, bytes == 2 ? 0x108202c0 : bytes == 1 ? 0x104203c0 : 0x10c203c0, bytes);
    return p;
}

inline Program flying_table() {
    Program p = flying_program(half_cube);
    p.set(0x4070, 0x300);
    p.set(0x4088, 0x8000c000);
    p.set(0x4108, 0x68);
    p.set(0x410c, 0x50500);
    p.set(0x4110, 0xffffc000);
    p.set(0x411c, 0x4000);
    for (const std::uint16_t offset : {0x4114, 0x4118, 0x4120, 0x4124, 0x4128, 0x412c}) {
        p.set(offset, 0);
    }
    return p;
}

}  // namespace npu::sim::test
