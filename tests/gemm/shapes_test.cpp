// Plans of random shapes, in every pair of formats and arrangement, on every number of cores, through the clients of both
// drivers on the strict machine, against exact integers. NPU_SHAPES sets how many shapes on each (default 60); a nightly run
// has 2000. Where each core has an address space, a program has one core.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/float_bits.h"
#include "compile/pack.h"
#include "compile/program.h"
#include "compile/search.h"
#include "device/rknpu_device.h"
#include "device/rocket_device.h"
#include "rockchip/checker.h"
#include "sim/sim.h"

namespace npu::compile {
namespace {

using rockchip::info;
using rockchip::rk3588;

struct Pair {
    Precision input;
    Precision output;
};

constexpr Pair pairs[] = {
    {Precision::int8, Precision::int32}, {Precision::int8, Precision::fp32},  {Precision::int8, Precision::int16},
    {Precision::int8, Precision::fp16},  {Precision::int4, Precision::int16}, {Precision::fp16, Precision::fp32},
    {Precision::fp16, Precision::fp16},  {Precision::bf16, Precision::fp32},  {Precision::tf32, Precision::fp32}};

// Values as integers. Floats stand for a quarter of them, small enough that every sum is exact in fp32.
struct Matrix {
    std::uint32_t rows;
    std::uint32_t columns;
    std::vector<std::int32_t> values;
};

std::int32_t draw(Precision precision, std::mt19937& random) {
    const auto between = [&](std::int32_t low, std::int32_t high) {
        return low + static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(high - low + 1));
    };
    switch (precision) {
        case Precision::int8: return random() % 8 == 0 ? (random() % 2 == 0 ? 127 : -127) : between(-127, 127);
        case Precision::int4: return random() % 8 == 0 ? (random() % 2 == 0 ? 7 : -8) : between(-8, 7);
        default: return between(-8, 8);
    }
}

Matrix random_matrix(std::uint32_t rows, std::uint32_t columns, Precision precision, std::mt19937& random) {
    Matrix matrix{rows, columns, std::vector<std::int32_t>(std::size_t{rows} * columns)};
    for (std::int32_t& value : matrix.values) {
        value = draw(precision, random);
    }
    return matrix;
}

std::vector<std::byte> encode(const Matrix& matrix, Precision precision, std::size_t stride) {
    std::vector<std::byte> bytes(matrix.rows * stride);
    for (std::uint32_t row = 0; row < matrix.rows; ++row) {
        std::byte* to = bytes.data() + row * stride;
        for (std::uint32_t i = 0; i < matrix.columns; ++i) {
            const std::int32_t value = matrix.values[std::size_t{row} * matrix.columns + i];
            const float quarter = static_cast<float>(value) / 4;
            const std::uint32_t single = std::bit_cast<std::uint32_t>(quarter);
            switch (precision) {
                case Precision::int4: to[i / 2] |= static_cast<std::byte>((value & 0xf) << (i % 2 * 4)); break;
                case Precision::int8: to[i] = static_cast<std::byte>(value); break;
                case Precision::tf32: std::memcpy(to + std::size_t{i} * 4, &single, 4); break;
                default: {
                    const std::uint16_t code =
                        precision == Precision::fp16 ? float_to_half(quarter) : float_to_bfloat(quarter);
                    std::memcpy(to + std::size_t{i} * 2, &code, 2);
                }
            }
        }
    }
    return bytes;
}

// The code of an exact sum in the output format.
std::uint32_t expected_code(const Pair& pair, std::int64_t sum, std::uint32_t shift) {
    if (info(pair.input).floating) {
        const float value = static_cast<float>(sum) / 16;
        return pair.output == Precision::fp16 ? float_to_half(value) : std::bit_cast<std::uint32_t>(value);
    }
    const double scaled = std::ldexp(static_cast<double>(sum), -static_cast<int>(shift));
    switch (pair.output) {
        case Precision::int16:
            return static_cast<std::uint16_t>(
                static_cast<std::int64_t>(std::clamp(std::nearbyint(scaled), -32768.0, 32767.0)));
        case Precision::fp16: return float_to_half(static_cast<float>(scaled));
        case Precision::fp32: return std::bit_cast<std::uint32_t>(static_cast<float>(sum));
        default: return static_cast<std::uint32_t>(sum);
    }
}

struct DriverCase {
    const char* name;
    sim::Driver driver;
    sim::RocketInterface rocket;
};

class RandomShapes : public testing::TestWithParam<DriverCase> {
  protected:
    RandomShapes() {
        sim::SimOptions options;
        options.driver = GetParam().driver;
        options.rocket = GetParam().rocket;
        options.strict_sync = true;
        options.poison_before_each_kick = true;
        options.log_findings = false;
        kernel_ = sim::make_simulated_kernel(options);
        auto device =
            options.driver == sim::Driver::rocket
                ? device::open_rocket(*kernel_, sim::usual_path(options.driver), {.simulated = true, .chip = &rk3588()})
                : device::open_rknpu(*kernel_, sim::usual_path(options.driver), {.simulated = true, .chip = &rk3588()});
        device_ = std::move(*device);
    }

    std::unique_ptr<device::Buffer> buffer(std::size_t bytes, const std::byte* contents = nullptr) {
        auto made = device_->allocate(bytes);
        EXPECT_TRUE(made) << (made ? "" : made.error().message);
        if (contents != nullptr) {
            std::memcpy((*made)->data(), contents, bytes);
        }
        EXPECT_TRUE((*made)->to_device(0, bytes));
        return std::move(*made);
    }

    // What a plan computes: the codes of every result that the host reads, [tile][m][n]; empty after a failure.
    std::vector<std::uint32_t> run(const Plan& plan, const Matrix& a, const Matrix& b) {
        const Precision input = plan.shape.input;
        const std::size_t stride = align_up<std::size_t>(packed_bytes(input, plan.padded_k), 16);
        std::vector<std::byte> packed(plan.feature_bytes());
        const std::vector<std::byte> rows = encode(a, input, stride);
        pack_features(plan.feature_layout(), {rows.data(), stride}, 0, a.rows, a.columns, packed.data());
        const auto features = buffer(packed.size(), packed.data());
        packed.assign(plan.weight_bytes(), std::byte{});
        const std::vector<std::byte> kernels = encode(b, input, stride);
        for (std::size_t tile = 0; tile < plan.k_tiles.size(); ++tile) {
            const KTile& k = plan.k_tiles[tile];
            pack_weights(plan.weight_layout(tile), {kernels.data() + packed_bytes(input, k.k0), stride}, 0, b.rows,
                         std::min(k.k, b.columns - k.k0), packed.data() + plan.weight_offset(tile));
        }
        const auto weights = buffer(packed.size(), packed.data());
        const auto output = buffer(plan.output_bytes());
        auto program = build_program(plan, {}, rk3588());
        EXPECT_TRUE(program) << (program ? "" : program.error().message);
        const std::size_t words = program->words.size() * sizeof(std::uint64_t);
        const auto list = buffer(words);
        EXPECT_TRUE(relocate(*program, {features->iova(), weights->iova(), output->iova(), list->iova()}));
        std::memcpy(list->data(), program->words.data(), words);
        EXPECT_TRUE(list->to_device(0, words));
        const rockchip::CheckBuffer buffers[] = {{features->iova(), features->bytes(), false},
                                                 {weights->iova(), weights->bytes(), false},
                                                 {output->iova(), output->bytes(), true},
                                                 {list->iova(), list->bytes(), false}};
        std::vector<device::TaskChain::Entry> entries;
        for (const TaskEntry& task : program->tasks) {
            entries.push_back({list->iova() + task.word_offset * sizeof(std::uint64_t), task.body_words, task.enable,
                               rockchip::interrupt_dpu});
        }
        std::vector<device::TaskChain> chains;
        for (const CoreRange& core : program->cores) {
            const TaskEntry& first = program->tasks[core.first_task];
            const auto violations = rockchip::check_program({.words = program->words,
                                                             .words_iova = list->iova(),
                                                             .first_word = first.word_offset,
                                                             .body_words = first.body_words,
                                                             .task_number = core.task_count,
                                                             .interrupt_mask = rockchip::interrupt_dpu,
                                                             .buffers = buffers},
                                                            rk3588());
            EXPECT_EQ(rockchip::first_refusal(violations), nullptr) << rockchip::first_refusal(violations)->message;
            chains.push_back({std::span(entries).subspan(core.first_task, core.task_count)});
        }
        const auto ran = device_->run(chains, std::chrono::seconds(60));
        EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
        for (const sim::Finding& finding : kernel_->findings()) {
            EXPECT_NE(finding.severity, sim::Severity::hang) << finding.message;
            EXPECT_NE(finding.severity, sim::Severity::corrupt) << finding.message;
        }
        EXPECT_TRUE(output->from_device(0, plan.output_bytes()));
        if (HasFailure()) {
            return {};
        }
        return read(plan, *output);
    }

    static std::vector<std::uint32_t> read(const Plan& plan, const device::Buffer& output) {
        const std::size_t element = info(plan.shape.output).bits / 8;
        std::vector<std::uint32_t> codes;
        std::vector<std::byte> row(plan.shape.n * element);
        for (std::size_t tile = 0; tile < plan.result_tiles(); ++tile) {
            for (std::uint32_t m = 0; m < plan.shape.m; ++m) {
                unpack_output(plan.output_layout(), output.data() + plan.result_offset(tile), m, 1, plan.shape.n,
                              {row.data(), row.size()});
                for (std::uint32_t n = 0; n < plan.shape.n; ++n) {
                    std::uint32_t code = 0;
                    std::memcpy(&code, row.data() + n * element, element);
                    codes.push_back(code);
                }
            }
        }
        return codes;
    }

    std::unique_ptr<sim::SimulatedKernel> kernel_;
    std::unique_ptr<device::Device> device_;
};

// Sums of every K tile, [tile][m][n].
std::vector<std::vector<std::int64_t>> exact_sums(const Plan& plan, const Matrix& a, const Matrix& b) {
    std::vector<std::vector<std::int64_t>> sums;
    for (const KTile& tile : plan.k_tiles) {
        const std::uint32_t end = std::min(tile.k0 + tile.k, a.columns);
        std::vector<std::int64_t>& of_tile = sums.emplace_back();
        for (std::uint32_t m = 0; m < a.rows; ++m) {
            for (std::uint32_t n = 0; n < b.rows; ++n) {
                std::int64_t sum = 0;
                for (std::uint32_t k = tile.k0; k < end; ++k) {
                    sum += a.values[std::size_t{m} * a.columns + k] * b.values[std::size_t{n} * b.columns + k];
                }
                of_tile.push_back(sum);
            }
        }
    }
    return sums;
}

std::vector<std::uint32_t> expected(const Plan& plan, const Pair& pair, const Matrix& a, const Matrix& b) {
    std::vector<std::uint32_t> codes;
    for (const std::vector<std::int64_t>& sums : exact_sums(plan, a, b)) {
        if (plan.reduces() && !codes.empty()) {
            for (std::size_t i = 0; i < sums.size();
                 ++i) {  // sixteenths are exact in fp32, and rounded to fp16 each time
                codes[i] = pair.output == Precision::fp16
                               ? float_to_half(half_to_float(static_cast<std::uint16_t>(codes[i])) +
                                               static_cast<float>(sums[i]) / 16)
                               : codes[i] + static_cast<std::uint32_t>(sums[i]);
            }
            continue;
        }
        for (const std::int64_t sum : sums) {
            codes.push_back(expected_code(pair, sum, plan.result_shift()));
        }
    }
    return codes;
}

// Half of the time next to a multiple of something that matters.
std::uint32_t dimension(std::uint32_t most, std::mt19937& random) {
    constexpr std::uint32_t units[] = {4, 16, 32, 64, 128, 1024, 2048, 4096};
    std::uniform_real_distribution<double> exponent(0, std::log2(most));
    auto value = static_cast<std::uint32_t>(std::exp2(exponent(random)));
    if (random() % 2 == 0) {
        const std::uint32_t unit = units[random() % std::size(units)];
        value = align_up(value, unit) + static_cast<std::uint32_t>(random() % 3) - 1;
    }
    return std::clamp(value, 1U, most);
}

MatmulShape random_shape(const Pair& pair, std::mt19937& random) {
    constexpr std::uint64_t most_products = std::uint64_t{1} << 25;
    for (;;) {
        const MatmulShape shape{dimension(600, random), dimension(9000, random), dimension(12000, random), pair.input,
                                pair.output};
        if (std::uint64_t{shape.m} * shape.n * shape.k <= most_products) {
            return shape;
        }
    }
}

int rounds() {
    const char* wanted = std::getenv("NPU_SHAPES");
    return wanted != nullptr ? std::atoi(wanted) : 60;
}

TEST_P(RandomShapes, WhosePartialSumsAreAddedOnTheChipAgreeWithExactIntegers) {
    std::mt19937 random(78);
    std::size_t odd_rows = 0;
    std::size_t rounded = 0;
    for (int round = 0; round < rounds() / 2; ++round) {
        const Pair pair =
            round % 3 == 2 ? Pair{Precision::fp16, Precision::fp16} : Pair{Precision::int8, Precision::int32};
        MatmulShape shape = random_shape(pair, random);
        shape.k = std::max(shape.k, 200U);  // three K tiles of whole channel blocks
        const device::DeviceInfo& device = device_->info();
        PlanOptions options{.cores = device.space_per_core ? 1 : 1 + static_cast<std::uint32_t>(random() % 3)};
        options.feature = random() % 3 == 0 ? Arrangement::row_major : Arrangement::native;
        const std::uint32_t row_bytes = padded_kernels(pair.input, shape.n) * 4;
        const bool row_major = pair.output == Precision::int32 && random() % 3 == 0 && row_bytes / 16 <= 8192;
        options.output = row_major ? Arrangement::row_major : Arrangement::native;
        options.weight_reuse = device.chains && random() % 2 == 0;
        options.rows_in_fours = random() % 4 == 0;
        options.emit_rdma = device.needs_rdma || random() % 4 == 0;
        options.max_k = align_up(ceil_div(shape.k, 3U + static_cast<std::uint32_t>(random() % 3)), 32U);
        const auto plans = search_plans(shape, rk3588(), options, rockchip::conditions(rk3588()), Reduce::device);
        ASSERT_TRUE(plans) << plans.error().message;
        const Plan& plan = (*plans)[random() % plans->size()].plan;
        ASSERT_TRUE(plan.reduces() && plan.k_tiles.size() >= 3) << plan.k_tiles.size();
        odd_rows += shape.m % 4 != 0 ? 1 : 0;
        Matrix a = random_matrix(shape.m, shape.k, pair.input, random);
        if (pair.output == Precision::fp16) {
            for (std::int32_t& value : a.values) {
                value *= 7;  // sums beyond eleven bits
            }
        }
        const Matrix b = random_matrix(shape.n, shape.k, pair.input, random);
        const std::string what =
            format("round %d: %s, M=%u N=%u K=%u in %zu tiles, %u cores, features %d, output %d", round,
                   info(pair.input).name, shape.m, shape.n, shape.k, plan.k_tiles.size(), options.cores,
                   static_cast<int>(options.feature), static_cast<int>(options.output));
        const std::vector<std::uint32_t> got = run(plan, a, b);
        ASSERT_FALSE(got.empty()) << what;
        ASSERT_EQ(got.size(), std::size_t{shape.m} * shape.n);
        const std::vector<std::uint32_t> wanted = expected(plan, pair, a, b);
        ASSERT_TRUE(got == wanted) << what;
        const auto sums = exact_sums(plan, a, b);
        for (std::size_t i = 0; i < wanted.size() && pair.output == Precision::fp16; ++i) {
            std::int64_t whole = 0;
            for (const auto& of_tile : sums) {
                whole += of_tile[i];
            }
            rounded += wanted[i] != expected_code(pair, whole, 0) ? 1 : 0;
        }
        a.values[shape.k - 1] ^= 6;  // the control: another value in the last tile
        EXPECT_TRUE(shape.n < 4 || pair.output == Precision::fp16 || got != expected(plan, pair, a, b)) << what;
        kernel_->clear_findings();
    }
    EXPECT_GT(odd_rows, 0U);
    EXPECT_GT(rounded, 0U) << "rounding at every tile must show";
}

TEST_P(RandomShapes, OfEveryPairOfFormatsAgreeWithExactIntegers) {
    const int count = rounds();
    std::mt19937 random(77);
    for (int round = 0; round < count; ++round) {
        const Pair& pair = pairs[static_cast<std::size_t>(round) % std::size(pairs)];
        const MatmulShape shape = random_shape(pair, random);
        const device::DeviceInfo& device = device_->info();
        PlanOptions options{.cores = device.space_per_core ? 1 : 1 + static_cast<std::uint32_t>(random() % 3)};
        // A transposed K of int4 and row-major arrangements beyond their fields are refused by name; see plan_test.
        options.feature = random() % 3 == 0 ? Arrangement::row_major : Arrangement::native;
        const std::uint32_t row_bytes = padded_kernels(pair.input, shape.n) * info(pair.output).bits / 8;
        options.output = random() % 3 == 0 && row_bytes / 16 <= 8192 ? Arrangement::row_major : Arrangement::native;
        options.weight_reuse = device.chains && random() % 2 == 0;
        options.data_reuse = device.chains && random() % 2 == 0;
        options.rows_in_fours = random() % 4 == 0;
        options.emit_rdma = device.needs_rdma || random() % 4 == 0;
        options.max_k = random() % 2 == 0 ? best_max_k(shape.n, shape.k, pair.input, pair.output, rk3588()) : 0;
        const auto plans = search_plans(shape, rk3588(), options, rockchip::conditions(rk3588()), Reduce::automatic);
        ASSERT_TRUE(plans) << plans.error().message;
        const Plan& plan = (*plans)[random() % plans->size()].plan;
        Matrix a = random_matrix(shape.m, shape.k, pair.input, random);
        const Matrix b = random_matrix(shape.n, shape.k, pair.input, random);
        const std::string what =
            format("round %d: %s to %s, M=%u N=%u K=%u, %u cores, features %d, output %d", round, info(pair.input).name,
                   info(pair.output).name, shape.m, shape.n, shape.k, options.cores, static_cast<int>(options.feature),
                   static_cast<int>(options.output));
        const std::vector<std::uint32_t> got = run(plan, a, b);
        ASSERT_FALSE(got.empty()) << what;
        ASSERT_TRUE(got == expected(plan, pair, a, b)) << what;
        a.values[random() % a.values.size()] ^= 6;                      // the control: another value of one operand
        const bool may_hide = shape.n < 4 || plan.result_shift() != 0;  // weights of zero, or a sum that rounds alike
        EXPECT_TRUE(may_hide || got != expected(plan, pair, a, b)) << what;
        kernel_->clear_findings();
    }
}

INSTANTIATE_TEST_SUITE_P(Drivers, RandomShapes,
                         testing::Values(DriverCase{"rknpu", sim::Driver::rknpu, {}},
                                         DriverCase{"rocket_0_0", sim::Driver::rocket, {}},
                                         DriverCase{"rocket_1_5", sim::Driver::rocket, {1, 5}}),
                         [](const auto& driver) { return std::string(driver.param.name); });

}  // namespace
}  // namespace npu::compile
