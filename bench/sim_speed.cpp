// How fast the simulated array computes on this host, per core, in multiply-accumulates of thread time:
//   cmake --build build --target sim_speed && build/bin/sim_speed
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "sim/test_support.h"

namespace npu::sim::test {
namespace {

// Of this thread only, so that other load on the host does not count.
double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void measure(const char* name, const MacKernels& kernels, Matmul matmul, bool outlier = false) {
    std::mt19937 random(1);
    SparseMemory memory;
    Operands operands = random_operands(matmul, random, Range::moderate);
    if (outlier) {  // one outlier per row, as language models have
        for (std::uint32_t m = 0; m < matmul.m; ++m) {
            operands.a[std::size_t{m} * matmul.k + 7] = 0x6400;  // 1024
        }
    }
    load_operands(memory, matmul, operands);
    const auto words = matmul_program(matmul).words();
    memory.map(0x1000, words.size() * 8);
    write_words(memory, 0x1000, words);
    CoreOptions options;
    options.kernels = &kernels;
    Core core(options);
    const double start = processor_seconds();
    int kicks = 0;
    double seconds = 0;
    std::uint64_t macs = 0;
    while (seconds < 0.3) {
        const KickResult result = core.run(kick_at(0x1000, words.size()), memory);
        if (!result.finished) {
            std::fprintf(stderr, "%s\n", list_findings(result.findings).c_str());
            std::exit(1);
        }
        macs += result.work[0].macs;
        ++kicks;
        seconds = processor_seconds() - start;
    }
    std::printf("%-22s %-8s M=%-4u K=%-5u N=%-5u  %6.2f GMAC/s  %8.1f us/task\n", name, kernels.name, matmul.m,
                matmul.k, matmul.n, static_cast<double>(macs) / seconds * 1e-9, seconds / kicks * 1e6);
}

void measure_all() {
    for (const MacKernels* kernels : {avx2_kernels(), &portable_kernels()}) {
        if (kernels == nullptr) {
            continue;
        }
        const Matmul half{.input = Precision::fp16, .output = Precision::fp32, .k = 2048, .n = 2048};
        const Matmul byte{.input = Precision::int8, .output = Precision::int32, .k = 2048, .n = 2048};
        for (const std::uint32_t m : {1U, 8U, 64U}) {
            Matmul matmul = half;
            matmul.m = m;
            measure("fp16 -> fp32", *kernels, matmul);
            measure("fp16 -> fp32, outlier", *kernels, matmul, true);
            matmul = byte;
            matmul.m = m;
            measure("int8 -> int32", *kernels, matmul);
        }
        const auto one = [&](const char* name, Precision input, Precision output, std::uint32_t m, std::uint32_t k,
                             std::uint32_t n) {
            measure(name, *kernels, {.input = input, .output = output, .m = m, .k = k, .n = n});
        };
        one("int4 -> int16", Precision::int4, Precision::int16, 64, 2048, 2048);
        one("tf32 -> fp32", Precision::tf32, Precision::fp32, 32, 2048, 1024);
        one("bf16 -> fp32", Precision::bf16, Precision::fp32, 64, 2048, 1024);
        one("small: fp16 -> fp32", Precision::fp16, Precision::fp32, 1, 192, 192);
        one("small: int8 -> int32", Precision::int8, Precision::int32, 1, 192, 192);
    }
}

}  // namespace
}  // namespace npu::sim::test

int main() {
    npu::sim::test::measure_all();
    return 0;
}
