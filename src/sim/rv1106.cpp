#include "sim/rv1106.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "sim/rv1106_task.h"

namespace npu::sim {

namespace {

constexpr std::uint32_t table_group_bytes = 32;
constexpr std::uint32_t table_shift = 14;
constexpr std::uint64_t output_lanes = 16;

// One output channel, ready to multiply.
struct Channel {
    std::int32_t bias = 0;
    std::int32_t multiplier = 0;
    std::array<std::int32_t, 16> weights{};  // zero point taken away
};

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

// round(value / 2^shift), ties to even.
std::int64_t shift_half_even(std::int64_t value, std::uint32_t shift) {
    const std::int64_t whole = value >> shift;
    const std::int64_t rest = value - whole * (std::int64_t{1} << shift);
    const std::int64_t half = std::int64_t{1} << (shift - 1);
    return whole + (rest > half || (rest == half && whole % 2 != 0) ? 1 : 0);
}

bool fits_32_bits(std::int64_t value) {
    return value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
}

Channel read_channel(const Rv1106Task& task, std::uint32_t number, std::span<const std::byte> weights,
                     std::span<const std::byte> table, Judge& judge) {
    Channel channel;
    channel.bias = load<std::int32_t>(table, number * 4);
    const std::int32_t table_zero = load<std::int16_t>(table, 16 + number * 2);
    channel.multiplier = load<std::uint16_t>(table, 24 + number * 2);
    for (std::uint32_t i = 0; i < task.kernel_bytes; ++i) {
        channel.weights[i] = load<std::int8_t>(weights, number * task.kernel_bytes + i) + table_zero;
    }
    // The array multiplies four lanes, the image has three; the programs make the fourth weight the zero point.
    if (task.image && channel.weights[3] != 0) {
        judge.refuse(Severity::unmodelled,
                     "weight 3 of kernel %u at 0x%" PRIx64
                     " is not the zero point of the channel table: what an image holds in its fourth lane is not known",
                     number, task.weights);
    }
    return channel;
}

// Empty when a sum leaves 32 bits: what silicon does then is not known.
std::optional<std::int8_t> output_of(const Rv1106Task& task, const Channel& channel, const std::byte* pixel) {
    std::int64_t sum = channel.bias;
    for (std::uint32_t i = 0; i < task.pixel_bytes; ++i) {
        const auto code = std::to_integer<std::uint8_t>(pixel[i]);
        const std::int32_t x = task.image ? code - task.input_zero : static_cast<std::int8_t>(code);
        sum += std::int64_t{x} * channel.weights[i];
    }
    std::int64_t scaled = shift_half_even(sum * channel.multiplier, table_shift);
    if (!fits_32_bits(sum) || !fits_32_bits(scaled)) {
        return std::nullopt;
    }
    if (task.relu) {
        scaled = std::max<std::int64_t>(scaled, 0);
    }
    const std::int64_t out = shift_half_even(scaled * task.multiplier, task.shift) + task.zero_point;
    return static_cast<std::int8_t>(std::clamp<std::int64_t>(out, -128, 127));
}

std::span<std::byte> mapped(const Memory& memory, std::uint64_t address, std::uint64_t bytes, const char* what,
                            Judge& judge) {
    const std::span<std::byte> found = memory.range(address, bytes);
    if (found.empty()) {
        judge.stop(Severity::hang, "DMA error: %s at 0x%" PRIx64 ", %" PRIu64 " bytes, do not lie in one mapped buffer",
                   what, address, bytes);
    }
    return found;
}

}  // namespace

std::optional<rockchip::TaskWork> run_rv1106_task(const Rv1106Registers& registers, std::uint32_t enable,
                                                  const Memory& memory, Judge& judge) {
    const auto task = read_rv1106_task(registers, enable, judge);
    if (!task) {
        return std::nullopt;
    }
    const auto features = mapped(memory, task->features, task->feature_bytes(), "features", judge);
    const auto weights = mapped(memory, task->weights, task->weight_bytes(), "weights", judge);
    const auto table = mapped(memory, task->channel_table, table_group_bytes, "the channel table", judge);
    const auto outputs = mapped(memory, task->outputs, task->output_bytes(), "outputs", judge);
    if (judge.refused()) {
        return std::nullopt;
    }
    std::vector<Channel> channels;
    for (std::uint32_t number = 0; number < task->kernels; ++number) {
        channels.push_back(read_channel(*task, number, weights, table, judge));
    }
    std::vector<std::int8_t> lanes;  // all of them before the first write: outputs may lie on the inputs
    for (std::uint64_t pixel = 0; pixel < task->pixels() && !judge.refused(); ++pixel) {
        const std::uint64_t at = pixel / task->width * task->line_bytes + pixel % task->width * task->pixel_bytes;
        for (std::uint32_t number = 0; number < task->kernels; ++number) {
            const auto lane = output_of(*task, channels[number], features.data() + at);
            if (!lane) {
                judge.refuse(Severity::unmodelled,
                             "the sum of pixel %" PRIu64
                             ", channel %u leaves 32 bits; what silicon does then is not known",
                             pixel, number);
                break;
            }
            lanes.push_back(*lane);
        }
    }
    if (judge.refused()) {
        return std::nullopt;
    }
    for (std::uint64_t i = 0; i < lanes.size(); ++i) {
        outputs[i / task->kernels * output_lanes + i % task->kernels] = static_cast<std::byte>(lanes[i]);
    }
    rockchip::TaskWork work;
    work.macs = task->pixels() * task->weight_bytes();
    work.feature_bytes = task->feature_bytes();
    work.weight_bytes = task->weight_bytes();
    work.output_bytes = task->pixels() * task->kernels;
    work.operand_bytes = table_group_bytes;
    work.precision = rockchip::Precision::int8;
    return work;
}

}  // namespace npu::sim
