// `npu capture`: residual streams of any layers, for every token of a text, as the device computes them. This is what an EAGLE-3
// draft is trained on and fed with, and what closed runtimes show of the last layer only.
//
// llama.cpp calls back for every node of a graph that somebody wants to see. Its models name what leaves block i "l_out-i",
// across architectures; one that does not name it so is said to be unsupported.
#include <ggml-backend.h>
#include <llama.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "layer_list.h"
#include "safetensors.h"

namespace {

using npu::Error;
using npu::ErrorCode;
using npu::make_error;
using npu::Result;

struct Options {
    std::string model;
    std::string layers = "2,n/2,n-3";
    std::string prompt;
    std::string file;
    std::string output;
    std::uint32_t context = 0;
    std::uint32_t batch = 512;
    int gpu_layers = 99;
    int threads = 0;
    bool cpu = false;
};

struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
    void operator()(llama_context* context) const { llama_free(context); }
};

// Collects rows of the tensors with certain names.
class Collector {
  public:
    explicit Collector(const std::vector<std::uint32_t>& layers) {
        for (const std::uint32_t layer : layers) {
            rows_[name_of(layer)];
        }
    }

    static std::string name_of(std::uint32_t layer) {
        return layer == 0 ? "embd" : "l_out-" + std::to_string(layer - 1);
    }
    [[nodiscard]] const std::vector<float>& rows(std::uint32_t layer) const { return rows_.at(name_of(layer)); }

    // ggml asks first whether the node is wanted, then shows it.
    static bool see(ggml_tensor* tensor, bool ask, void* collector) {
        auto& rows = static_cast<Collector*>(collector)->rows_;
        const auto found = rows.find(tensor->name);
        if (found == rows.end()) {
            return !ask;
        }
        if (!ask && tensor->type == GGML_TYPE_F32 && ggml_is_contiguous(tensor)) {
            const std::size_t before = found->second.size();
            found->second.resize(before + static_cast<std::size_t>(ggml_nelements(tensor)));
            ggml_backend_tensor_get(tensor, found->second.data() + before, 0, ggml_nbytes(tensor));
        }
        return true;
    }

  private:
    std::map<std::string, std::vector<float>> rows_;
};

Result<std::vector<llama_token>> tokenize(const llama_vocab* vocab, const std::string& text) {
    std::vector<llama_token> tokens(text.size() + 8);
    const int count = llama_tokenize(vocab, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                                     static_cast<std::int32_t>(tokens.size()), true, true);
    if (count <= 0) {
        return make_error(ErrorCode::invalid_argument, "the text has no tokens: give some with --prompt or --file");
    }
    tokens.resize(static_cast<std::size_t>(count));
    return tokens;
}

Result<void> decode(llama_context* context, const std::vector<llama_token>& tokens, std::uint32_t batch_size) {
    llama_batch batch = llama_batch_init(static_cast<std::int32_t>(batch_size), 0, 1);
    const std::unique_ptr<llama_batch, void (*)(llama_batch*)> owner(&batch,
                                                                     [](llama_batch* b) { llama_batch_free(*b); });
    for (std::size_t first = 0; first < tokens.size(); first += batch_size) {
        batch.n_tokens = static_cast<std::int32_t>(std::min<std::size_t>(batch_size, tokens.size() - first));
        for (std::int32_t i = 0; i < batch.n_tokens; ++i) {
            batch.token[i] = tokens[first + static_cast<std::size_t>(i)];
            batch.pos[i] = static_cast<llama_pos>(first) + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;  // of a token without output the last layer is not computed
        }
        if (const int status = llama_decode(context, batch); status != 0) {
            return make_error(ErrorCode::device_failure,
                              "llama.cpp could not compute the text (status %d; its log says why)", status);
        }
    }
    return {};
}

Result<void> capture(const Options& options) {
    std::string text = options.prompt;
    if (!options.file.empty()) {
        std::ifstream file(options.file, std::ios::binary);
        if (!file) {
            return make_error(ErrorCode::not_found, "cannot read %s", options.file.c_str());
        }
        text.assign(std::istreambuf_iterator<char>(file), {});
    }
    llama_model_params model_options = llama_model_default_params();
    model_options.n_gpu_layers = options.gpu_layers;
    const std::unique_ptr<llama_model, Free> model(llama_model_load_from_file(options.model.c_str(), model_options));
    if (!model) {
        return make_error(ErrorCode::not_found, "llama.cpp could not load %s (its log says why)",
                          options.model.c_str());
    }
    const auto n = static_cast<std::uint32_t>(llama_model_n_layer(model.get()));
    NPU_ASSIGN(const std::vector<std::uint32_t> layers, npu::tools::parse_layers(options.layers, n));
    NPU_ASSIGN(const std::vector<llama_token> tokens, tokenize(llama_model_get_vocab(model.get()), text));

    Collector collector(layers);
    llama_context_params context_options = llama_context_default_params();
    context_options.n_ctx = options.context != 0 ? options.context : static_cast<std::uint32_t>(tokens.size());
    context_options.n_batch = options.batch;
    context_options.n_ubatch = options.batch;
    context_options.cb_eval = Collector::see;
    context_options.cb_eval_user_data = &collector;
    if (options.threads > 0) {
        context_options.n_threads = context_options.n_threads_batch = options.threads;
    }
    const std::unique_ptr<llama_context, Free> context(llama_init_from_model(model.get(), context_options));
    if (!context) {
        return make_error(ErrorCode::out_of_memory, "llama.cpp could not make a context of %u tokens",
                          context_options.n_ctx);
    }
    NPU_TRY(decode(context.get(), tokens, options.batch));

    const auto width = static_cast<std::uint64_t>(llama_model_n_embd(model.get()));
    char architecture[64] = "unknown";
    llama_model_meta_val_str(model.get(), "general.architecture", architecture, sizeof(architecture));
    std::vector<npu::tools::SafeTensor> tensors{{"tokens", "I32", {tokens.size()}, std::as_bytes(std::span(tokens))}};
    for (const std::uint32_t layer : layers) {
        const std::vector<float>& rows = collector.rows(layer);
        if (rows.size() != tokens.size() * width) {
            return make_error(
                ErrorCode::unsupported,
                "the architecture '%s' does not show layer %u: llama.cpp has no tensor '%s' of %llu x %zu in "
                "its graph",
                architecture, layer, Collector::name_of(layer).c_str(), static_cast<unsigned long long>(width),
                tokens.size());
        }
        tensors.push_back(
            {"layer." + std::to_string(layer), "F32", {tokens.size(), width}, std::as_bytes(std::span(rows))});
    }
    // A layer that is named twice is written once.
    std::sort(tensors.begin() + 1, tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    tensors.erase(
        std::unique(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; }),
        tensors.end());
    NPU_TRY(npu::tools::write_safetensors(
        options.output, tensors,
        {{"model", options.model},
         {"architecture", architecture},
         {"layers", std::to_string(n)},
         {"meaning", "layer.i is what flows into block i, for each token; layer.n leaves the last block"}}));
    std::printf("%zu tokens, %zu layers of %llu: %s\n", tokens.size(), tensors.size() - 1,
                static_cast<unsigned long long>(width), options.output.c_str());
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App program(
        "Writes residual streams of a model's layers, for every token of a text, as the device computes them.",
        "npu capture");
    Options options;
    program.add_option("-m,--model", options.model, "GGUF model")->required();
    program.add_option("-l,--layers", options.layers, "Layers by comma; n is their number. Layer i flows into block i")
        ->capture_default_str();
    auto* prompt = program.add_option("-p,--prompt", options.prompt, "Text");
    program.add_option("-f,--file", options.file, "File with the text")->excludes(prompt);
    program.add_option("-o,--output", options.output, "File to write, in the safetensors format")->required();
    program.add_option("-c,--context", options.context, "Context length; 0: as long as the text")
        ->capture_default_str();
    program.add_option("-b,--batch", options.batch, "Tokens at once")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    program.add_option("-t,--threads", options.threads, "Threads of the CPU; 0: llama.cpp's choice")
        ->capture_default_str();
    program.add_option("--gpu-layers", options.gpu_layers, "Layers on the NPU")->capture_default_str();
    program.add_flag("--cpu", options.cpu, "Computes on the CPU instead of the NPU");
    program.footer(
        "The NPU is that of the plugin beside this program, or of the one that GGML_BACKEND_PATH names.\n\n"
        "  npu capture -m model.gguf -p 'In the beginning' -o states.safetensors\n"
        "  npu capture -m model.gguf --layers 0,n-1,n -f book.txt -o states.safetensors");
    CLI11_PARSE(program, argc, argv);

    if (options.cpu) {
        unsetenv("GGML_BACKEND_PATH");
    } else {
        setenv("GGML_BACKEND_PATH", PLUGIN_PATH, 0);
    }
    llama_log_set(
        [](ggml_log_level level, const char* line, void*) {
            if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) {
                std::fputs(line, stderr);
            }
        },
        nullptr);
    ggml_backend_load_all_from_path(HOST_LIBRARIES);
    llama_backend_init();
    const auto done = capture(options);
    llama_backend_free();
    if (!done) {
        std::fprintf(stderr, "npu capture: %s\n", done.error().message.c_str());
        return 2;
    }
    return 0;
}
