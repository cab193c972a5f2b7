#include "doctor_selftest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "base/options.h"
#include "device/rknpu_device.h"
#include "device/rocket_device.h"
#include "gemm/engine.h"
#include "sim/sim.h"
#include "uapi/syscalls.h"

namespace npu::tools {

namespace {

// Rows, output channels and input channels: every core has channels, and 4-bit formats have several tiles of K.
constexpr std::uint32_t m = 16;
constexpr std::uint32_t n = 192;
constexpr std::uint32_t k = 1500;

// What a format may lose in its worst output channel: squared error over the energy of the products; a channel that was not
// written loses about 1. int8 has nothing to lose here. Sums in another order differ by about 2^-24 of their size, and one lane
// of fp16 was published to be low by 2^-16 now and then. Formats of 4 bits choose a scale for each tile of a channel.
struct Format {
    gemm::Pipeline pipeline;
    int largest;  // operand
    double allowed;
};

constexpr std::array formats{
    Format{gemm::Pipeline::fp16, 127, 1e-9}, Format{gemm::Pipeline::bf16, 127, 1e-9},
    Format{gemm::Pipeline::int8, 127, 0},    Format{gemm::Pipeline::w4a8, 7, 0.1},
    Format{gemm::Pipeline::int4, 7, 0.1},
};

struct Opened {
    std::unique_ptr<uapi::Syscalls> simulated;  // empty for a real device; outlives the device
    std::unique_ptr<device::Device> device;
};

Result<Opened> open(const std::string& which) {
    Opened opened;
    uapi::Syscalls* calls = &uapi::libc_syscalls();
    const bool simulated = which != "real";
    if (simulated) {
        sim::SimOptions options;
        options.driver = which == "simulated-rocket" ? sim::Driver::rocket : sim::Driver::rknpu;
        options.strict_sync = true;
        NPU_ASSIGN(const SimulationOptions simulation, simulation_options());
        NPU_ASSIGN(options.faults, sim::Faults::parse(simulation.faults));
        opened.simulated = sim::make_simulated_kernel(options);
        calls = opened.simulated.get();
    }
    const rockchip::ChipProfile* chip = simulated ? &rockchip::rk3588() : nullptr;
    if (const auto node = device::find_rknpu_node(*calls)) {
        NPU_ASSIGN(opened.device, device::open_rknpu(*calls, *node, {.simulated = simulated, .chip = chip}));
    } else if (const auto accel = device::find_rocket_node(*calls)) {
        NPU_ASSIGN(opened.device, device::open_rocket(*calls, *accel, {.simulated = simulated, .chip = chip}));
    } else {
        return make_error(ErrorCode::not_found, "no device file of rknpu or rocket can be opened");
    }
    return opened;
}

// Whole numbers up to `largest` in magnitude, which each row holds.
std::vector<float> operands(std::uint32_t rows, int largest, std::uint32_t seed) {
    std::mt19937 generator(seed);
    std::vector<float> values(std::size_t{rows} * k);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto span = static_cast<std::uint32_t>(2 * largest + 1);
        values[i] = i % k == 0 ? static_cast<float>(largest)
                               : static_cast<float>(static_cast<int>(generator() % span) - largest);
    }
    return values;
}

struct Product {
    std::vector<float> x, w;
    std::vector<double> exact;   // [m][n]
    std::vector<double> energy;  // of the products of each channel
};

Product make_product(int largest) {
    Product product{operands(m, largest, 1), operands(n, largest, 2), std::vector<double>(std::size_t{m} * n),
                    std::vector<double>(n)};
    for (std::size_t row = 0; row < m; ++row) {
        for (std::size_t channel = 0; channel < n; ++channel) {
            for (std::size_t i = 0; i < k; ++i) {
                const double value = static_cast<double>(product.x[row * k + i]) * product.w[channel * k + i];
                product.exact[row * n + channel] += value;
                product.energy[channel] += value * value;
            }
        }
    }
    return product;
}

Result<std::vector<float>> multiply(device::Device& device, const Product& product, gemm::Pipeline pipeline,
                                    std::uint32_t cores) {
    gemm::EngineOptions options;
    options.programs.cores = cores;
    gemm::Engine engine(device, options);
    std::vector<float> y(std::size_t{m} * n, NAN);
    NPU_TRY(engine.with_transient(
        {n, k, pipeline, false},
        [&](std::uint32_t channel, float* out) { std::copy_n(product.w.data() + std::size_t{channel} * k, k, out); },
        [&](const gemm::Engine::Multiply& run) -> Result<void> {
            NPU_TRY(run({product.x.data(), k, m}, {y.data(), n}));
            return {};
        }));
    return y;
}

// Of the worst channel; NaN when a result is missing.
double error_of(const Product& product, const std::vector<float>& y) {
    double worst = 0;
    for (std::size_t channel = 0; channel < n; ++channel) {
        double error = 0;
        for (std::size_t at = channel; at < y.size(); at += n) {
            error += (y[at] - product.exact[at]) * (y[at] - product.exact[at]);
        }
        const double relative = error / product.energy[channel];
        worst = relative <= worst ? worst : relative;  // NaN stays
        if (std::isnan(worst)) {
            break;
        }
    }
    return worst;
}

}  // namespace

Finding self_test(const std::string& which, const device::BoardFacts& facts) {
    Finding finding;
    if (which == "real" && !facts.users.empty()) {
        finding.summary = "not made, because another process uses the NPU";
        finding.evidence = {{facts.users.front().file, facts.users.front().name}};
        finding.remedy = "end that process first";
        return finding;
    }
    Result<Opened> opened = open(which);
    if (!opened) {
        finding.verdict = Verdict::problem;
        finding.summary = "the device cannot be opened: " + opened.error().message;
        finding.evidence = {{"open", opened.error().message}};
        finding.remedy = "see driver, driver-version and nodes above";
        return finding;
    }
    device::Device& device = *opened->device;
    const device::DeviceInfo& info = device.info();
    // Where each core has an address space of its own, all of them always take part.
    const std::uint32_t fewest = info.space_per_core ? info.chip->cores : 1;
    std::size_t failed = 0;
    for (const Format& format_ : formats) {
        const Product product = make_product(format_.largest);
        for (std::uint32_t cores = fewest; cores <= info.chip->cores; ++cores) {
            const auto y = multiply(device, product, format_.pipeline, cores);
            const double error = y ? error_of(product, *y) : NAN;
            const bool good = y && error <= format_.allowed;  // false for NaN
            failed += good ? 0 : 1;
            finding.evidence.push_back(
                {format("%s, %u core%s", gemm::pipeline_name(format_.pipeline), cores, cores == 1 ? "" : "s"),
                 !y ? y.error().message
                    : format("%s, error %.1e (at most %.0e)", good ? "right" : "WRONG", error, format_.allowed)});
        }
    }
    finding.verdict = failed == 0 ? Verdict::ok : Verdict::problem;
    finding.summary = format("%zu of %zu products are wrong or missing, on %s", failed, finding.evidence.size(),
                             info.description.c_str());
    if (failed == 0) {
        finding.summary = format("%zu products are right, on %s", finding.evidence.size(), info.description.c_str());
    } else {
        finding.remedy =
            "export GGML_NPU_CORES=N with the most cores that pass; else a newer driver (see driver-version)";
    }
    return finding;
}

}  // namespace npu::tools
