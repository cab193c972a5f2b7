// Loads a model, computes a batch of eight tokens and frees everything, again and again in one process, and says whether memory,
// descriptors or mappings grow: `npu-load-and-unload MODEL CYCLES`. What the first tenth of the cycles takes is not counted:
// allocators and thread pools keep what they have once had. Says, too, how much memory it had at most and how long loading
// took at best. `npu-load-and-unload --pages BYTES` says how long two threads take to touch so much memory of the kind that the
// simulated NPU has.
#include <ggml-backend.h>
#include <llama.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Usage {
    long resident_kib = 0;
    long descriptors = 0;
    long mappings = 0;
};

Usage usage() {
    Usage now;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmRSS:")) {
            now.resident_kib = std::atol(line.c_str() + 6);
        }
    }
    now.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        ++now.mappings;
    }
    return now;
}

// The most memory that the process has at once, looked at every few milliseconds. Pages that it maps twice count once: the
// simulated NPU has a mapping of its own of what the client maps, which the kernel's own peak (VmHWM) would add up.
class PeakMemory {
  public:
    PeakMemory() : watcher_([this] { watch(); }) {}
    ~PeakMemory() {
        done_ = true;
        watcher_.join();
    }
    PeakMemory(const PeakMemory&) = delete;
    PeakMemory& operator=(const PeakMemory&) = delete;
    [[nodiscard]] long kib() const { return peak_kib_; }

  private:
    void watch() {
        while (!done_) {
            std::ifstream sums("/proc/self/smaps_rollup");
            for (std::string line; std::getline(sums, line);) {
                if (line.starts_with("Pss:")) {
                    peak_kib_ = std::max(peak_kib_.load(), std::atol(line.c_str() + 4));
                }
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
        }
    }

    std::atomic<bool> done_ = false;
    std::atomic<long> peak_kib_ = 0;
    std::thread watcher_;  // last: it uses the others
};

bool run_once(const char* path, double& load_seconds) {
    llama_model_params model_options = llama_model_default_params();
    model_options.n_gpu_layers = 99;
    const auto start = std::chrono::steady_clock::now();
    llama_model* model = llama_model_load_from_file(path, model_options);
    load_seconds =
        std::min(load_seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    if (model == nullptr) {
        return false;
    }
    llama_context_params context_options = llama_context_default_params();
    context_options.n_ctx = 128;
    context_options.n_batch = 128;
    context_options.n_threads = 2;
    context_options.n_threads_batch = 2;
    llama_context* context = llama_init_from_model(model, context_options);
    std::vector<llama_token> tokens{1, 2, 3, 4, 5, 6, 7, 8};
    const bool computed =
        context != nullptr &&
        llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))) == 0;
    llama_free(context);
    llama_model_free(model);
    return computed;
}

double seconds_to_touch(std::size_t bytes) {
    constexpr std::size_t page = 4096;
    const int file = memfd_create("pages", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
        return 0;
    }
    auto* memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (memory == MAP_FAILED) {
        return 0;
    }
    const auto touch = [&](std::size_t first) {
        for (std::size_t i = first; i < bytes; i += 2 * page) {
            memory[i] = 1;
        }
    };
    const auto start = std::chrono::steady_clock::now();
    std::thread other(touch, page);
    touch(0);
    other.join();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int count, char** arguments) {
    if (count == 3 && std::string(arguments[1]) == "--pages") {
        std::printf("%.3f\n", seconds_to_touch(std::strtoull(arguments[2], nullptr, 10)));
        return 0;
    }
    if (count != 3) {
        std::fprintf(stderr, "usage: %s MODEL CYCLES\n", arguments[0]);
        return 2;
    }
    const int cycles = std::atoi(arguments[2]);
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
            if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) {
                std::fputs(text, stderr);
            }
        },
        nullptr);
    ggml_backend_load_all_from_path(HOST_LIBRARIES);  // and what GGML_BACKEND_PATH names
    llama_backend_init();
    std::optional<PeakMemory> peak(std::in_place);
    Usage before;
    double load_seconds = std::numeric_limits<double>::infinity();
    for (int cycle = 0; cycle < cycles; ++cycle) {
        if (cycle == cycles / 10) {
            before = usage();
        }
        if (!run_once(arguments[1], load_seconds)) {
            std::fprintf(stderr, "cycle %d failed\n", cycle);
            return 1;
        }
    }
    const long peak_kib = peak->kib();
    peak.reset();
    const Usage after = usage();
    std::printf(
        "%d cycles: resident %ld -> %ld KiB, descriptors %ld -> %ld, mappings %ld -> %ld; peak %ld KiB, "
        "loaded in %.3f s\n",
        cycles, before.resident_kib, after.resident_kib, before.descriptors, after.descriptors, before.mappings,
        after.mappings, peak_kib, load_seconds);
    constexpr long noise_kib = 2048;  // of an allocator; a model has 12 MB
    constexpr long noise_mappings = 4;
    constexpr int fewest_cycles_to_judge = 10;
    const bool grew = after.resident_kib > before.resident_kib + noise_kib || after.descriptors > before.descriptors ||
                      after.mappings > before.mappings + noise_mappings;
    return grew && cycles >= fewest_cycles_to_judge ? 1 : 0;
}
