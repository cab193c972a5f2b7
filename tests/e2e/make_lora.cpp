// Writes a random adapter of low rank for a model: `npu-make-lora MODEL.gguf OUT.gguf`. Each matrix of each layer, N x K, gets a
// product B A, of A (rank x K) and B (N x rank), that is large enough to change the text. What a model writes with it has no
// meaning.
#include <ggml.h>
#include <gguf.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>

namespace {

constexpr std::int64_t rank = 8;

struct Free {
    void operator()(gguf_context* context) const { gguf_free(context); }
    void operator()(ggml_context* context) const { ggml_free(context); }
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: npu-make-lora MODEL.gguf OUT.gguf\n");
        return 2;
    }
    ggml_context* shapes = nullptr;
    const std::unique_ptr<gguf_context, Free> model(gguf_init_from_file(argv[1], {.no_alloc = true, .ctx = &shapes}));
    const std::unique_ptr<ggml_context, Free> shapes_owner(shapes);
    const std::int64_t key = model ? gguf_find_key(model.get(), "general.architecture") : -1;
    if (key < 0) {
        std::fprintf(stderr, "%s is no model\n", argv[1]);
        return 1;
    }
    const std::unique_ptr<ggml_context, Free> memory(
        ggml_init({.mem_size = std::size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    const std::unique_ptr<gguf_context, Free> file(gguf_init_empty());
    gguf_set_val_str(file.get(), "general.type", "adapter");
    gguf_set_val_str(file.get(), "general.architecture", gguf_get_val_str(model.get(), key));
    gguf_set_val_str(file.get(), "adapter.type", "lora");
    gguf_set_val_f32(file.get(), "adapter.lora.alpha",
                     static_cast<float>(rank));  // alpha / rank scales the product: by 1

    std::mt19937 random(1);
    const auto add = [&](const std::string& name, std::int64_t k, std::int64_t n, float deviation) {
        ggml_tensor* tensor = ggml_new_tensor_2d(memory.get(), GGML_TYPE_F32, k, n);
        std::normal_distribution<float> normal(0.0F, deviation);
        for (std::int64_t i = 0; i < k * n; ++i) {
            static_cast<float*>(tensor->data)[i] = normal(random);
        }
        ggml_set_name(tensor, name.c_str());
        gguf_add_tensor(file.get(), tensor);
    };
    for (ggml_tensor* t = ggml_get_first_tensor(shapes); t != nullptr; t = ggml_get_next_tensor(shapes, t)) {
        const std::string name = ggml_get_name(t);
        if (name.starts_with("blk.") && ggml_n_dims(t) == 2) {
            add(name + ".lora_a", t->ne[0], rank, 1.0F / std::sqrt(static_cast<float>(t->ne[0])));
            add(name + ".lora_b", rank, t->ne[1], 0.1F);
        }
    }
    if (gguf_get_n_tensors(file.get()) == 0 || !gguf_write_to_file(file.get(), argv[2], false)) {
        std::fprintf(stderr, "cannot write an adapter for %s to %s\n", argv[1], argv[2]);
        return 1;
    }
    return 0;
}
