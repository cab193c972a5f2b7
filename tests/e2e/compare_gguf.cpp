// How far the tensors of one GGUF file are from those of the same name in another: `npu-compare-gguf A B` prints their number and
// the largest normalised squared error of a tensor. Fails when the files have different tensors.
#include <ggml.h>
#include <gguf.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace {

struct Free {
    void operator()(gguf_context* context) const { gguf_free(context); }
    void operator()(ggml_context* context) const { ggml_free(context); }
};

struct File {
    std::unique_ptr<gguf_context, Free> index;
    std::unique_ptr<ggml_context, Free> tensors;
};

File read(const char* path) {
    ggml_context* tensors = nullptr;
    File file;
    file.index.reset(gguf_init_from_file(path, {false, &tensors}));
    file.tensors.reset(tensors);
    return file;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: %s A.gguf B.gguf\n", arguments[0]);
        return 2;
    }
    const File a = read(arguments[1]);
    const File b = read(arguments[2]);
    if (!a.index || !b.index || gguf_get_n_tensors(a.index.get()) != gguf_get_n_tensors(b.index.get())) {
        std::fprintf(stderr, "the files cannot be read, or have different numbers of tensors\n");
        return 1;
    }
    double worst = 0;
    for (std::int64_t index = 0; index < gguf_get_n_tensors(a.index.get()); ++index) {
        const ggml_tensor* tensor = ggml_get_tensor(a.tensors.get(), gguf_get_tensor_name(a.index.get(), index));
        const ggml_tensor* other = ggml_get_tensor(b.tensors.get(), tensor->name);
        if (other == nullptr || tensor->type != GGML_TYPE_F32 || !ggml_are_same_shape(tensor, other)) {
            std::fprintf(stderr, "%s is missing, or no float tensor of the same shape\n", tensor->name);
            return 1;
        }
        double error = 0;
        double energy = 0;
        for (std::int64_t i = 0; i < ggml_nelements(tensor); ++i) {
            const double x = static_cast<const float*>(tensor->data)[i];
            const double difference = x - static_cast<const float*>(other->data)[i];
            error += difference * difference;
            energy += x * x;
        }
        worst = std::max(worst, energy > 0 ? error / energy : error);
    }
    std::printf("%lld %.3e\n", static_cast<long long>(gguf_get_n_tensors(a.index.get())), worst);
    return 0;
}
