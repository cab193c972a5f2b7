// What llama.cpp itself extracts for EAGLE-3 drafts, by an interface of its own (llama-ext.h), which npu capture does not use:
// `npu-layer-inputs MODEL LAYER TEXT` writes the input of a block for every token of a text to standard output, as floats.
#include <ggml-backend.h>
#include <llama-ext.h>
#include <llama.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int count, char** arguments) {
    if (count != 4) {
        std::fprintf(stderr, "usage: %s MODEL LAYER TEXT\n", arguments[0]);
        return 2;
    }
    ggml_backend_load_all_from_path(HOST_LIBRARIES);
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    llama_model_params model_options = llama_model_default_params();
    model_options.n_gpu_layers = 99;
    llama_model* model = llama_model_load_from_file(arguments[1], model_options);
    if (model == nullptr) {
        return 1;
    }
    const char* text = arguments[3];
    std::vector<llama_token> tokens(std::strlen(text) + 8);
    tokens.resize(static_cast<std::size_t>(llama_tokenize(llama_model_get_vocab(model), text,
                                                          static_cast<std::int32_t>(std::strlen(text)), tokens.data(),
                                                          static_cast<std::int32_t>(tokens.size()), true, true)));
    const auto layer = static_cast<std::uint32_t>(std::atoi(arguments[2]));
    llama_context* context = llama_init_from_model(model, llama_context_default_params());
    llama_set_embeddings_layer_inp(context, layer, true);
    if (llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))) != 0) {
        return 1;
    }
    std::fwrite(llama_get_embeddings_layer_inp(context, layer), sizeof(float),
                tokens.size() * static_cast<std::size_t>(llama_model_n_embd(model)), stdout);
    llama_free(context);
    llama_model_free(model);
    return 0;
}
