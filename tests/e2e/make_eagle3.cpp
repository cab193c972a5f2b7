// A model and EAGLE-3 drafts for it whose behaviour is known by construction: `npu-make-eagle3 TOKENIZER.gguf FOLDER` writes
// target.gguf, right.gguf, last.gguf and neighbours.gguf, of a few MB each.
//
// The model counts. Tokens stand on a circle of 11 * 12 * 13 places, and after each comes the next. A place is the angles of its
// remainders: cos and sin of 2 pi k i / m for each modulus m, so that going to the next place is a rotation, and two places
// that differ in any remainder are far apart.
//
// Its residual stream has the place of the current token in every layer. In three layers, and only there, it has one more thing: in
// layer 2 the remainder by 11 in a part of its own, in layer 3 that by 12, in layer 4 that by 13. The draft puts the place
// together from these three and from nothing else, rotates it once for every token, and is right always. A draft that is fed
// with other layers finds these parts empty.
//
// Attention is how a linear map gets into such a model: with large queries and keys that come from a constant in the stream, RoPE
// makes every position look at itself alone, so a layer adds O V x / rms(x), and rms(x) is the same for all tokens.
#include <ggml.h>
#include <gguf.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

namespace {

constexpr int width = 256;
constexpr int heads = 4;
constexpr int head_width = width / heads;
constexpr int layers = 7;
constexpr int feed_forward = 256;
constexpr int moduli[] = {11, 12, 13};
constexpr int places = 11 * 12 * 13;
constexpr int read_layers[] = {2, 3, 4};
constexpr float epsilon = 1e-6F;
constexpr float query = 20.0F;

// Dimensions of the stream: a constant, the place, and a part for each remainder.
constexpr int constant = 0;
constexpr int place = 1;
int planes(int modulus) { return (modulus - 1) / 2; }
int size_of(int group) { return 2 * planes(moduli[group]); }
int begin_of(int group) { return group == 0 ? 0 : begin_of(group - 1) + size_of(group - 1); }
int place_size() { return begin_of(2) + size_of(2); }
int part(int group) { return place + place_size() + begin_of(group); }

struct Matrix {  // [out][in]
    int in = 0;
    int out = 0;
    std::vector<float> values;
    Matrix(int in_, int out_)
        : in(in_), out(out_), values(static_cast<std::size_t>(in_) * static_cast<std::size_t>(out_)) {}
    float& at(int to, int from) {
        return values[static_cast<std::size_t>(to) * static_cast<std::size_t>(in) + static_cast<std::size_t>(from)];
    }
};

std::vector<float> angles(int i) {
    std::vector<float> values;
    for (const int m : moduli) {
        for (int k = 1; k <= planes(m); ++k) {
            const double angle = 2 * std::numbers::pi * k * i / m;
            values.push_back(static_cast<float>(std::cos(angle)));
            values.push_back(static_cast<float>(std::sin(angle)));
        }
    }
    return values;
}

// Root mean square of a stream that has the constant, the place, and the parts of these groups.
float rms(const std::vector<int>& groups, bool has_place = true) {
    double sum = 1;
    for (int group = 0; group < 3; ++group) {
        sum += has_place ? planes(moduli[group]) : 0;
    }
    for (const int group : groups) {
        sum += planes(moduli[group]);
    }
    return static_cast<float>(std::sqrt(sum / width + epsilon));
}

struct Free {
    void operator()(gguf_context* context) const { gguf_free(context); }
    void operator()(ggml_context* context) const { ggml_free(context); }
};

class File {
  public:
    File(const gguf_context* tokenizer, const char* architecture)
        : architecture_(architecture), file_(gguf_init_empty()), tensors_(ggml_init({64U << 20U, nullptr, false})) {
        gguf_set_kv(file_.get(), tokenizer);
        for (std::int64_t i = 0; i < gguf_get_n_kv(tokenizer); ++i) {
            const std::string key = gguf_get_key(tokenizer, i);
            if (!key.starts_with("tokenizer.")) {
                gguf_remove_key(file_.get(), key.c_str());
            }
        }
        gguf_set_val_str(file_.get(), "general.architecture", architecture);
    }
    void number(const std::string& key, std::uint32_t value) {
        gguf_set_val_u32(file_.get(), (architecture_ + "." + key).c_str(), value);
    }
    void layers_read(const int (&ids)[3]) {
        gguf_set_arr_data(file_.get(), (architecture_ + ".target_layers").c_str(), GGUF_TYPE_INT32, ids, 3);
    }
    void shape(int blocks) {
        number("block_count", static_cast<std::uint32_t>(blocks));
        number("context_length", 2048);
        number("embedding_length", width);
        number("feed_forward_length", feed_forward);
        number("attention.head_count", heads);
        number("attention.head_count_kv", heads);
        number("rope.dimension_count", head_width);
        gguf_set_val_f32(file_.get(), (architecture_ + ".attention.layer_norm_rms_epsilon").c_str(), epsilon);
    }
    void add(const std::string& name, const Matrix& matrix) {
        add(name, ggml_new_tensor_2d(tensors_.get(), GGML_TYPE_F32, matrix.in, matrix.out), matrix.values);
    }
    void ones(const std::string& name) {
        add(name, ggml_new_tensor_1d(tensors_.get(), GGML_TYPE_F32, width), std::vector<float>(width, 1.0F));
    }
    // A block that adds `map` of its input, which has this root mean square. Its attention reads from `from` on.
    void block(int index, int inputs, int from, float input_rms, const std::function<void(Matrix&)>& map) {
        const std::string name = "blk." + std::to_string(index) + ".";
        Matrix same(inputs, width);
        for (int i = 0; i < width; ++i) {
            same.at(i, from + constant) = query * input_rms;
        }
        Matrix value(inputs, width);
        for (int i = 0; i < width; ++i) {
            value.at(i, from + i) = input_rms;
        }
        Matrix out(width, width);
        map(out);
        ones(name + "attn_norm.weight");
        ones(name + "ffn_norm.weight");
        add(name + "attn_q.weight", same);
        add(name + "attn_k.weight", same);
        add(name + "attn_v.weight", value);
        add(name + "attn_output.weight", out);
        add(name + "ffn_gate.weight", Matrix(width, feed_forward));
        add(name + "ffn_up.weight", Matrix(width, feed_forward));
        add(name + "ffn_down.weight", Matrix(feed_forward, width));
    }
    [[nodiscard]] bool write(const std::string& path) const {
        return gguf_write_to_file(file_.get(), path.c_str(), false);
    }

  private:
    void add(const std::string& name, ggml_tensor* tensor, const std::vector<float>& values) {
        std::memcpy(tensor->data, values.data(), ggml_nbytes(tensor));
        ggml_set_name(tensor, name.c_str());
        gguf_add_tensor(file_.get(), tensor);
    }

    std::string architecture_;
    std::unique_ptr<gguf_context, Free> file_;
    std::unique_ptr<ggml_context, Free> tensors_;
};

// Only tokens that are text are counted; all others are never said.
bool is_counted(int token, int vocabulary) { return token >= vocabulary - places; }
int place_of(int token, int vocabulary) { return (token - (vocabulary - places) + places) % places; }

// Says the token after the place that the stream has.
Matrix next_tokens(int vocabulary) {
    Matrix output(width, vocabulary);
    for (int token = 0; token < vocabulary; ++token) {
        const std::vector<float> before = angles(place_of(token, vocabulary) - 1);
        for (int i = 0; is_counted(token, vocabulary) && i < place_size(); ++i) {
            output.at(token, place + i) = before[static_cast<std::size_t>(i)];
        }
    }
    return output;
}

bool write_target(const gguf_context* tokenizer, int vocabulary, const std::string& path) {
    File file(tokenizer, "llama");
    file.shape(layers);
    Matrix embedding(width, vocabulary);
    for (int token = 0; token < vocabulary; ++token) {
        embedding.at(token, constant) = 1;
        const std::vector<float> at = angles(place_of(token, vocabulary));
        for (int i = 0; i < place_size(); ++i) {
            embedding.at(token, place + i) = at[static_cast<std::size_t>(i)];
        }
    }
    file.add("token_embd.weight", embedding);
    file.add("output.weight", next_tokens(vocabulary));
    file.ones("output_norm.weight");
    for (int block = 0; block < layers; ++block) {
        const auto shows = [](int layer) { return layer - read_layers[0]; };  // the group that a layer shows
        const auto is_group = [](int group) { return group >= 0 && group < 3; };
        const int before = shows(block);
        const int after = shows(block + 1);
        file.block(block, width, 0, is_group(before) ? rms({before}) : rms({}), [&](Matrix& map) {
            for (int i = 0; is_group(before) && i < size_of(before); ++i) {
                map.at(part(before) + i, part(before) + i) = -1;
            }
            for (int i = 0; is_group(after) && i < size_of(after); ++i) {
                map.at(part(after) + i, place + begin_of(after) + i) = 1;
            }
        });
    }
    return file.write(path);
}

bool write_draft(const gguf_context* tokenizer, int vocabulary, const int (&ids)[3], const std::string& path) {
    File file(tokenizer, "eagle3");
    file.shape(1);
    file.layers_read(ids);
    file.number("target_hidden_size", width);
    Matrix fuse(3 * width, width);
    fuse.at(constant, constant) = 1;
    for (int group = 0; group < 3; ++group) {
        for (int i = 0; i < size_of(group); ++i) {
            fuse.at(place + begin_of(group) + i, group * width + part(group) + i) = 1;
        }
    }
    file.add("fc.weight", fuse);
    file.ones("output_norm.weight");
    file.add("output.weight", next_tokens(vocabulary));
    file.ones("blk.0.attn_norm_2.weight");
    file.block(0, 2 * width, width, rms({}), [](Matrix& map) {  // to the next place
        for (int group = 0; group < 3; ++group) {
            for (int k = 1; k <= planes(moduli[group]); ++k) {
                const double angle = 2 * std::numbers::pi * k / moduli[group];
                const int at = place + begin_of(group) + 2 * (k - 1);
                map.at(at, at) = map.at(at + 1, at + 1) = static_cast<float>(std::cos(angle) - 1);
                map.at(at, at + 1) = static_cast<float>(-std::sin(angle));
                map.at(at + 1, at) = static_cast<float>(std::sin(angle));
            }
        }
    });
    return file.write(path);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: %s TOKENIZER.gguf FOLDER\n", arguments[0]);
        return 2;
    }
    const std::unique_ptr<gguf_context, Free> tokenizer(gguf_init_from_file(arguments[1], {true, nullptr}));
    if (!tokenizer) {
        std::fprintf(stderr, "cannot read %s\n", arguments[1]);
        return 1;
    }
    const auto vocabulary =
        static_cast<int>(gguf_get_arr_n(tokenizer.get(), gguf_find_key(tokenizer.get(), "tokenizer.ggml.tokens")));
    const std::string folder = arguments[2];
    const bool written = write_target(tokenizer.get(), vocabulary, folder + "/target.gguf") &&
                         write_draft(tokenizer.get(), vocabulary, read_layers, folder + "/right.gguf") &&
                         write_draft(tokenizer.get(), vocabulary, {6, 6, 6}, folder + "/last.gguf") &&
                         write_draft(tokenizer.get(), vocabulary, {3, 4, 5}, folder + "/neighbours.gguf");
    if (!written) {
        std::fprintf(stderr, "cannot write to %s\n", folder.c_str());
        return 1;
    }
    return 0;
}
