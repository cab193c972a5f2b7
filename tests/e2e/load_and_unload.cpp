// Loads a model, computes a batch of eight tokens and frees everything, again and again in one process, and says whether memory,
// descriptors or mappings grow: `npu-load-and-unload MODEL CYCLES`. What the first tenth of the cycles takes is not counted:
// allocators and thread pools keep what they have once had.
#include <ggml-backend.h>
#include <llama.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
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

bool run_once(const char* path) {
    llama_model_params model_options = llama_model_default_params();
    model_options.n_gpu_layers = 99;
    llama_model* model = llama_model_load_from_file(path, model_options);
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

}  // namespace

int main(int count, char** arguments) {
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
    Usage before;
    for (int cycle = 0; cycle < cycles; ++cycle) {
        if (cycle == cycles / 10) {
            before = usage();
        }
        if (!run_once(arguments[1])) {
            std::fprintf(stderr, "cycle %d failed\n", cycle);
            return 1;
        }
    }
    const Usage after = usage();
    std::printf("%d cycles: resident %ld -> %ld KiB, descriptors %ld -> %ld, mappings %ld -> %ld\n", cycles,
                before.resident_kib, after.resident_kib, before.descriptors, after.descriptors, before.mappings,
                after.mappings);
    constexpr long noise_kib = 2048;  // of an allocator; a model has 12 MB
    constexpr long noise_mappings = 4;
    return after.resident_kib <= before.resident_kib + noise_kib && after.descriptors <= before.descriptors &&
                   after.mappings <= before.mappings + noise_mappings
               ? 0
               : 1;
}
