// How fast weights of a model file become resident: taken apart, quantised to the pipeline's format and packed, on one thread,
// in GB of the file's bytes per second of thread time. Beside it: the same by way of ggml's floats, as the plugin does it for
// types without blocks; that with rotation; ggml's conversion to floats alone; and a memcpy of the file's bytes.
//   cmake --build build --target load_speed && build/bin/load_speed
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "gemm/weights.h"
#include "plugin/blocks.h"
#include "plugin/ggml_host.h"

namespace npu::gemm {
namespace {

constexpr std::uint32_t n = 2048;
constexpr std::uint32_t k = 4096;
constexpr int rounds = 5;  // the best counts: other load on the machine only slows it down

class HostBuffer final : public device::Buffer {
  public:
    explicit HostBuffer(std::size_t bytes) : memory_(bytes) {
        data_ = memory_.data();
        bytes_ = bytes;
    }
    Result<void> to_device(std::size_t /*offset*/, std::size_t /*bytes*/) override { return {}; }
    Result<void> from_device(std::size_t /*offset*/, std::size_t /*bytes*/) override { return {}; }

  private:
    std::vector<std::byte> memory_;
};

double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Work>
double best_seconds(Work work) {
    double best = 1e9;
    for (int round = 0; round < rounds; ++round) {
        const double start = processor_seconds();
        work();
        best = std::min(best, processor_seconds() - start);
    }
    return best;
}

void measure(ggml_type type, Pipeline pipeline) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> row(k);
    const std::size_t row_bytes = ggml_row_size(type, k);
    std::vector<std::byte> file(row_bytes * n);
    for (std::uint32_t i = 0; i < n; ++i) {
        for (float& value : row) {
            value = normal(random);
        }
        ggml_quantize_chunk(type, row.data(), file.data() + i * row_bytes, 0, 1, k, nullptr);
    }
    const rockchip::ChipProfile& chip = rockchip::rk3588();
    const WeightsShape shape{n, k, pipeline};
    HostBuffer buffer(resident_bytes(shape, chip, 1));
    std::vector<std::byte> copy(file.size());
    const double copying = best_seconds([&] { std::memcpy(copy.data(), file.data(), file.size()); });
    const auto to_float = ggml_get_type_traits(type)->to_float;
    const double dequantising = best_seconds([&] {
        for (std::uint32_t i = 0; i < n; ++i) {
            to_float(file.data() + i * row_bytes, row.data(), k);
        }
    });
    const RowReader read_row = [&](std::uint32_t i, float* to) { to_float(file.data() + i * row_bytes, to, k); };
    const plugin::BlockFormat format = plugin::block_format(type);
    const BlockReader read_blocks = [&](std::uint32_t i, BlockTarget to) {
        format(file.data() + i * row_bytes, k, to);
    };
    const auto load = [&](const BlockReader& blocks, bool rotated = false) {
        return best_seconds([&] {
            const WeightsShape as{shape.n, shape.k, shape.pipeline, rotated};
            const auto weights = prepare_weights(as, read_row, {{&buffer}, 0, buffer.bytes()}, chip, blocks);
            if (!weights) {
                std::printf("%s\n", weights.error().message.c_str());
            }
        });
    };
    const double by_floats = load({});
    const double loading = format != nullptr ? load(read_blocks) : by_floats;
    const double rotated = pipeline == Pipeline::fp16 ? by_floats : load({}, true);
    const double gigabytes = static_cast<double>(file.size()) * 1e-9;
    std::printf("%-6s %-6s %8.2f %9.2f %8.2f %12.2f %8.2f\n", ggml_type_name(type), pipeline_name(pipeline),
                gigabytes / loading, gigabytes / by_floats, gigabytes / rotated, gigabytes / dequantising,
                gigabytes / copying);
}

}  // namespace
}  // namespace npu::gemm

int main() {
    using npu::gemm::Pipeline;
    std::printf("GB/s of the file's bytes, N=%u K=%u\n%-6s %-6s %8s %9s %8s %12s %8s\n", npu::gemm::n, npu::gemm::k,
                "type", "as", "loading", "by floats", "rotated", "dequantising", "memcpy");
    for (const Pipeline pipeline : {Pipeline::int8, Pipeline::w4a8}) {
        for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_IQ4_NL,
                                     GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K}) {
            npu::gemm::measure(type, pipeline);
        }
    }
    npu::gemm::measure(GGML_TYPE_F16, Pipeline::fp16);
    return 0;
}
