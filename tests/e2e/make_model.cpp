// Writes a model of a given size with random weights: `npu-make-model TOKENIZER.gguf OUT.gguf MEGABYTES [TYPE]`. The
// architecture is llama with layers of 2048 x 2048 and 2048 x 5632, of which it has as many as the size needs; vocabulary and
// tokenizer are those of the model it is given. What such a model writes has no meaning; what it costs to load and run is what a
// real one of the size costs.
#include <ggml.h>
#include <gguf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t embedding = 2048;
constexpr std::int64_t feed_forward = 5632;
constexpr std::int64_t layer_weights = 4 * embedding * embedding + 3 * embedding * feed_forward;

struct Free {
    void operator()(gguf_context* context) const { gguf_free(context); }
    void operator()(ggml_context* context) const { ggml_free(context); }
};

class Writer {
  public:
    Writer(ggml_context* memory, gguf_context* file) : memory_(memory), file_(file) {}

    void matrix(const std::string& name, ggml_type type, std::int64_t k, std::int64_t n) {
        ggml_tensor* tensor = ggml_new_tensor_2d(memory_, type, k, n);
        // One random row and its rotations by one block: rows differ, and a gigabyte is written in seconds.
        std::normal_distribution<float> normal(0.0F, 0.02F);
        std::vector<float> values(static_cast<std::size_t>(k));
        for (float& value : values) {
            value = normal(random_);
        }
        const std::size_t row_bytes = ggml_row_size(type, k);
        std::vector<char> row(2 * row_bytes);
        ggml_quantize_chunk(type, values.data(), row.data(), 0, 1, k, nullptr);
        std::memcpy(row.data() + row_bytes, row.data(), row_bytes);
        const std::size_t blocks = row_bytes / ggml_type_size(type);
        for (std::int64_t i = 0; i < n; ++i) {
            const std::size_t shift = static_cast<std::size_t>(i) % blocks * ggml_type_size(type);
            std::memcpy(static_cast<char*>(tensor->data) + static_cast<std::size_t>(i) * row_bytes, row.data() + shift,
                        row_bytes);
        }
        add(tensor, name);
    }

    void norm(const std::string& name) {
        ggml_tensor* tensor = ggml_new_tensor_1d(memory_, GGML_TYPE_F32, embedding);
        for (std::int64_t i = 0; i < embedding; ++i) {
            static_cast<float*>(tensor->data)[i] = 1.0F;
        }
        add(tensor, name);
    }

  private:
    void add(ggml_tensor* tensor, const std::string& name) {
        ggml_set_name(tensor, name.c_str());
        gguf_add_tensor(file_, tensor);
    }

    ggml_context* memory_;
    gguf_context* file_;
    std::mt19937 random_{1};
};

ggml_type type_named(const char* name) {
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const char* candidate = ggml_type_name(static_cast<ggml_type>(i));
        if (candidate != nullptr && std::strcmp(candidate, name) == 0) {
            return static_cast<ggml_type>(i);
        }
    }
    return GGML_TYPE_COUNT;
}

// Copies the keys of the tokenizer.
void copy_tokenizer(gguf_context* to, const gguf_context* from) {
    gguf_set_kv(to, from);
    for (std::int64_t i = 0; i < gguf_get_n_kv(from); ++i) {
        const std::string key = gguf_get_key(from, i);
        if (!key.starts_with("tokenizer.")) {
            gguf_remove_key(to, key.c_str());
        }
    }
}

}  // namespace

int main(int count, char** arguments) {
    const ggml_type type = count == 5 ? type_named(arguments[4]) : GGML_TYPE_Q4_0;
    if (count < 4 || count > 5 || type == GGML_TYPE_COUNT) {
        std::fprintf(stderr, "usage: %s TOKENIZER.gguf OUT.gguf MEGABYTES [TYPE]\n", arguments[0]);
        return 2;
    }
    const std::unique_ptr<gguf_context, Free> tokenizer(gguf_init_from_file(arguments[1], {true, nullptr}));
    if (!tokenizer) {
        std::fprintf(stderr, "cannot read %s\n", arguments[1]);
        return 1;
    }
    const auto vocabulary = static_cast<std::int64_t>(
        gguf_get_arr_n(tokenizer.get(), gguf_find_key(tokenizer.get(), "tokenizer.ggml.tokens")));
    const double layer_bytes = static_cast<double>(ggml_row_size(type, embedding)) / embedding * layer_weights;
    const int layers = std::max(1, static_cast<int>(std::atof(arguments[3]) * 1e6 / layer_bytes + 0.5));

    std::unique_ptr<gguf_context, Free> file(gguf_init_empty());
    copy_tokenizer(file.get(), tokenizer.get());
    gguf_set_val_str(file.get(), "general.architecture", "llama");
    gguf_set_val_u32(file.get(), "llama.block_count", static_cast<std::uint32_t>(layers));
    gguf_set_val_u32(file.get(), "llama.context_length", 4096);
    gguf_set_val_u32(file.get(), "llama.embedding_length", embedding);
    gguf_set_val_u32(file.get(), "llama.feed_forward_length", feed_forward);
    gguf_set_val_u32(file.get(), "llama.attention.head_count", 16);
    gguf_set_val_f32(file.get(), "llama.attention.layer_norm_rms_epsilon", 1e-5F);

    const std::size_t memory = static_cast<std::size_t>(layer_bytes * (layers + 1)) +
                               2 * static_cast<std::size_t>(vocabulary) * embedding * sizeof(float) + (64U << 20U);
    const std::unique_ptr<ggml_context, Free> tensors(ggml_init({memory, nullptr, false}));
    Writer writer(tensors.get(), file.get());
    writer.matrix("token_embd.weight", type, embedding, vocabulary);
    writer.matrix("output.weight", type, embedding, vocabulary);
    writer.norm("output_norm.weight");
    for (int i = 0; i < layers; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        writer.norm(layer + "attn_norm.weight");
        writer.norm(layer + "ffn_norm.weight");
        for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
            writer.matrix(layer + name + ".weight", type, embedding, embedding);
        }
        writer.matrix(layer + "ffn_gate.weight", type, embedding, feed_forward);
        writer.matrix(layer + "ffn_up.weight", type, embedding, feed_forward);
        writer.matrix(layer + "ffn_down.weight", type, feed_forward, embedding);
    }
    if (!gguf_write_to_file(file.get(), arguments[2], false)) {
        std::fprintf(stderr, "cannot write %s\n", arguments[2]);
        return 1;
    }
    std::printf("%d layers of %s\n", layers, ggml_type_name(type));
    return 0;
}
