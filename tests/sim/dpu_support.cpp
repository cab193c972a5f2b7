#include "sim/dpu_support.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "rockchip/command.h"
#include "sim/register_check.h"

namespace npu::sim::test {

void DpuBench::apply(const std::vector<std::uint64_t>& words) {
    for (const std::uint64_t word : words) {
        const rockchip::Command command = rockchip::decode(word);
        if (command.offset < 0x1000) {
            continue;
        }
        if (command.offset == 0x4100 || command.offset == 0x4104) {
            dpu.lut_write(command.offset, command.value);
        }
        registers_.block(block_of(command.offset)).write(command.offset, command.value);
    }
}

Outcome DpuBench::read(const Program& program, std::uint32_t enable, const Convolution* feed) {
    registers_.poison(11);
    apply(program.words(enable));
    Outcome outcome;
    Judge judge(0, 0, mode);
    RegisterReader reader(registers_, mode);
    RegisterCheck check(reader, judge);
    outcome.task = read_dpu(check, enable, feed);
    for (const std::uint16_t offset : reader.missing()) {
        judge.refuse_register(Severity::hang, offset, 0, "never written");
    }
    dpu.check(outcome.task, judge);
    outcome.ran = !judge.refused();
    for (const auto& streams : {dpu_reads(outcome.task), dpu_writes(outcome.task)}) {
        for (const MemoryAccess& access : streams) {
            const auto bytes = static_cast<std::uint64_t>(access.extent.end - access.extent.begin);
            const bool mapped = !(seen == nullptr ? memory : *seen)
                                     .range(static_cast<std::uint64_t>(access.extent.begin), bytes)
                                     .empty();
            EXPECT_TRUE(mapped || !outcome.ran || !expects_mapped) << access.what;
            outcome.ran = outcome.ran && mapped;
        }
    }
    outcome.findings = judge.findings();
    return outcome;
}

Outcome DpuBench::run_flying(const Program& program) {
    const Outcome outcome = read(program, 0x18, nullptr);
    if (outcome.ran) {
        dpu.begin(outcome.task, seen == nullptr ? memory : *seen);
        dpu.run_flying();
        dpu.finish();
    }
    return outcome;
}

Outcome DpuBench::run_fed(const Program& program, const Convolution& feed, const FedSums& sums, std::uint32_t enable) {
    const Outcome outcome = read(program, enable, &feed);
    if (!outcome.ran) {
        return outcome;
    }
    const std::uint32_t pixels = feed.output_width * feed.output_height;
    const std::uint32_t group = outcome.task.group_channels;
    const std::uint32_t given = feed.depthwise ? feed.output_channels : feed.kernels;
    EXPECT_EQ(outcome.task.wants_window_sums, !sums.window_sums.empty());
    dpu.begin(outcome.task, seen == nullptr ? memory : *seen);
    for (std::uint32_t first = 0; first < feed.output_channels; first += group) {
        // A whole group; kernels that are not there give 0.
        const auto cut = [&](const auto& all) {
            auto part = all;
            part.assign(all.empty() ? 0 : std::size_t{pixels} * group, 0);
            for (std::uint32_t p = 0; p < pixels && !all.empty(); ++p) {
                for (std::uint32_t c = 0; c < group && first + c < given; ++c) {
                    part[std::size_t{p} * group + c] = all[std::size_t{p} * given + first + c];
                }
            }
            return part;
        };
        const std::vector<float> floats = cut(sums.floats);
        const std::vector<std::int64_t> wide = cut(sums.integers);
        const std::vector<std::int64_t> windows =
            sums.window_sums_per_channel ? cut(sums.window_sums) : sums.window_sums;
        const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
        Accumulators delivered;
        delivered.pixels = pixels;
        delivered.first_channel = first;
        delivered.channels = group;
        delivered.floats = floats.empty() ? nullptr : floats.data();
        if (!wide.empty() && feed.input == Precision::int16) {
            delivered.wide = wide.data();
        } else if (!wide.empty()) {
            delivered.integers = narrow.data();
        }
        delivered.window_sums = windows.empty() ? nullptr : windows.data();
        delivered.window_sums_per_channel = sums.window_sums_per_channel;
        dpu.take(delivered);
    }
    dpu.finish();
    return outcome;
}

Convolution feed_of(const Matmul& matmul) {
    Convolution feed;
    feed.input = matmul.input;
    feed.channels = matmul.k;
    feed.kernels = matmul.n;
    feed.width = 1;
    feed.height = matmul.m;
    if (matmul.mapping == Mapping::native_wide) {
        feed.width = matmul.m, feed.height = 1;
    } else if (matmul.mapping == Mapping::plane) {
        feed.width = 5, feed.height = matmul.m / 5;
    } else if (matmul.mapping == Mapping::panel8) {
        feed.width = 8, feed.height = matmul.m / 8;
    }
    feed.output_width = feed.width;
    feed.output_height = feed.height;
    const std::uint32_t group = feed.kernels_per_group();
    feed.output_channels = (matmul.n + group - 1) / group * group;
    return feed;
}

namespace {

std::uint32_t dpu_code(Precision precision) { return rockchip::info(precision).dpu_code; }

}  // namespace

void add_idle_rdma(Program& program, std::uint32_t width, std::uint32_t height, std::uint32_t channels) {
    program.set(0x5004, 0xe);
    program.set(0x500c, width - 1);
    program.set(0x5010, height - 1);
    program.set(0x5014, channels - 1);
    for (const std::uint16_t offset :
         {0x5018, 0x501c, 0x5020, 0x5028, 0x502c, 0x5038, 0x5040, 0x5048, 0x504c, 0x5064, 0x506c}) {
        program.set(offset, 0);
    }
    program.set(0x5034, 1);
    program.set(0x5044, 0x7810);
    program.set(0x5068, 0x01010101);
}

Program flying_program(const FlyingShape& shape) {
    const std::uint32_t code = dpu_code(shape.input);
    const bool narrow = shape.output == Precision::fp16 || shape.output == Precision::bf16;
    const std::uint32_t surface = 16 * shape.pixels();
    Program p;
    p.set(0x4004, 0xe);
    p.set(0x400c, 0x1e5);
    p.set(0x4010, dpu_code(shape.output) << 29 | code << 26 | code);
    p.set(0x4020, shape.destination);
    p.set(0x4024, surface);
    p.set(0x4030, shape.width - 1);
    p.set(0x4034, shape.height - 1);
    p.set(0x4038, 0);
    p.set(0x403c, (shape.channels - 1) << 16 | (shape.channels - 1));
    p.set(0x4040, 0x53);
    p.set(0x4050, 2);
    p.set(0x4058, shape.channels - 1);
    p.set(0x405c, (shape.height - 1) << 16 | (shape.width - 1));
    p.set(0x4060, 0x53);
    p.set(0x4070, 0x383);
    p.set(0x4080, 0);
    p.set(0x4084, narrow ? 0x10001 : 1);
    p.set(0x4088, 0);
    p.set(0x40c0, surface);
    p.set(0x40c4, 0);
    add_idle_rdma(p, shape.width, shape.height, shape.channels);
    p.set(0x5018, shape.source);
    p.set(0x5044, code << 15 | 0x7800 | code << 5 | (shape.input == Precision::fp16 ? 8U : 0) | 1);
    return p;
}

void add_operand(Program& program, const FlyingShape& shape, std::uint32_t element_wise, std::uint32_t operand_bytes) {
    program.set(0x4070, element_wise);
    program.set(0x4074, 0);
    program.set(0x4078, 1);
    program.set(0x5034, 0x40000000 | (operand_bytes == 4 ? 3U : operand_bytes) << 2);
    program.set(0x5038, shape.operand);
    program.set(0x5040, 16 * shape.pixels());
}

void add_fused_operand(Program& program, const Matmul& matmul, std::uint32_t address, std::uint32_t element_wise,
                       std::uint32_t format, std::uint32_t operand_bytes) {
    const Convolution feed = feed_of(matmul);
    add_idle_rdma(program, feed.width, feed.height, matmul.n);
    program.set(0x4070, element_wise);
    program.set(0x4074, 0);
    program.set(0x4078, 1);
    program.set(0x5018, address);
    program.set(0x5034, 0x40000000 | (operand_bytes == 4 ? 3U : operand_bytes) << 2);
    program.set(0x5038, address + 16 * matmul.m);
    program.set(0x5044, format << 15 | 0x7800 | 0x500 | format << 5);
    for (const std::uint16_t offset : {0x5040, 0x504c, 0x506c}) {
        program.set(offset, 16 * matmul.m);
    }
}

namespace {

std::uint64_t cube_byte(std::uint32_t pixels, std::uint32_t bytes, std::uint32_t pixel, std::uint32_t channel) {
    const std::uint32_t c2 = 16 / bytes;
    return (std::uint64_t{channel / c2} * pixels + pixel) * 16 + channel % c2 * bytes;
}

}  // namespace

void load_cube(SparseMemory& memory, std::uint32_t address, std::uint32_t pixels, std::uint32_t channels,
               std::uint32_t element_bytes, const std::vector<std::uint32_t>& codes) {
    memory.map(address, cube_byte(pixels, element_bytes, pixels - 1, channels - 1) + 16);
    for (std::uint32_t p = 0; p < pixels; ++p) {
        for (std::uint32_t c = 0; c < channels; ++c) {
            write_element(memory.at(address), 8 * cube_byte(pixels, element_bytes, p, c), 8 * element_bytes,
                          codes[std::size_t{p} * channels + c]);
        }
    }
}

std::vector<std::uint32_t> read_cube(const SparseMemory& memory, std::uint32_t address, std::uint32_t pixels,
                                     std::uint32_t channels, std::uint32_t element_bytes) {
    std::vector<std::uint32_t> codes;
    for (std::uint32_t p = 0; p < pixels; ++p) {
        for (std::uint32_t c = 0; c < channels; ++c) {
            codes.push_back(
                read_element(memory.at(address), 8 * cube_byte(pixels, element_bytes, p, c), 8 * element_bytes));
        }
    }
    return codes;
}

std::vector<std::int64_t> random_sums(std::size_t count, std::mt19937& random) {
    std::vector<std::int64_t> values(count);
    for (std::int64_t& value : values) {
        value = static_cast<std::int32_t>(random()) >> (random() % 32);
    }
    const std::int64_t extremes[] = {std::numeric_limits<std::int32_t>::min(),
                                     std::numeric_limits<std::int32_t>::max(),
                                     0,
                                     1,
                                     -1,
                                     1 << 15,
                                     -(1 << 15),
                                     1 << 7};
    for (const std::int64_t extreme : extremes) {
        values[random() % count] = extreme;
    }
    return values;
}

std::vector<float> random_floats(std::size_t count, std::mt19937& random) {
    std::vector<float> values(count);
    std::normal_distribution<float> normal;
    for (float& value : values) {
        value =
            random() % 4 == 0 ? std::ldexp(normal(random), static_cast<int>(random() % 60) - 30) : 8 * normal(random);
    }
    values[random() % count] = 0.0F;
    values[random() % count] = 65504.0F;
    values[random() % count] = -1e30F;
    return values;
}

unsigned bytes_of(Precision precision) { return rockchip::info(precision).bits / 8U; }

std::uint32_t integer_word(Precision format, Operation operation) {
    const std::uint32_t size = format == Precision::int8 ? 1 : format == Precision::int16 ? 2 : 3;
    const std::uint32_t comparison = operation <= minimum ? 1U << 21 : 0;
    const std::uint32_t what = operation == multiply ? 4U : static_cast<std::uint32_t>(operation) << 16;
    return 0x100003c0 | size << 22 | comparison | what;
}

std::uint32_t half_word(Operation operation) {
    return operation == multiply ? 0x108003c4 : 0x108002c0 | static_cast<std::uint32_t>(operation) << 16;
}

std::int64_t sign_extend(std::uint32_t code, unsigned bits) {
    return static_cast<std::int32_t>(code << (32 - bits)) >> (32 - bits);
}

std::int64_t reference_integer(Operation operation, std::int64_t x, std::int64_t y) {
    switch (operation) {
        case maximum: return std::max(x, y);
        case minimum: return std::min(x, y);
        case add: return x + y;
        case subtract: return x - y;
        default: return x * sign_extend(static_cast<std::uint32_t>(y), 16);
    }
}

// Rounded once to fp32: a float64 holds sums, differences and products of these operands closely enough.
float reference_float(Operation operation, double x, double y) {
    switch (operation) {
        case maximum: return static_cast<float>(std::max(x, y));
        case minimum: return static_cast<float>(std::min(x, y));
        case add: return static_cast<float>(x + y);
        case subtract: return static_cast<float>(x - y);
        case divide: return static_cast<float>(x / y);
        default: return static_cast<float>(x * y);
    }
}

std::vector<std::uint32_t> random_integers(Precision format, std::size_t count, std::mt19937& random) {
    const unsigned bits = rockchip::info(format).bits;
    std::vector<std::uint32_t> codes(count);
    for (std::uint32_t& code : codes) {
        code = static_cast<std::uint32_t>(static_cast<std::int32_t>(random()) >> (32 - bits + random() % bits));
        code = bits == 32 ? code : code & ((1U << bits) - 1);
    }
    codes[random() % count] = 1U << (bits - 1);
    codes[random() % count] = (1U << (bits - 1)) - 1;
    return codes;
}

std::int64_t reference_shift(__int128 value, unsigned shift, bool ties_away) {
    const __int128 one = static_cast<__int128>(1) << shift;
    __int128 low = value / one;
    if (low * one > value) {
        --low;
    }
    const __int128 below = value - low * one;
    const __int128 above = (low + 1) * one - value;
    if (below == above) {
        const bool up = ties_away ? value > 0 : low % 2 != 0;
        return static_cast<std::int64_t>(low + (up ? 1 : 0));
    }
    return static_cast<std::int64_t>(below < above ? low : low + 1);
}

std::int64_t clamp_to(std::int64_t value, unsigned bits) {
    const std::int64_t limit = std::int64_t{1} << (bits - 1);
    return value >= limit ? limit - 1 : value < -limit ? -limit : value;
}

}  // namespace npu::sim::test
