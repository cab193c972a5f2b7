// `npu axmodel weights` and `npu axmodel patch`: where a matrix of weights lies in a compiled model, and putting
// another into its place. Weights are files of float32, row after row.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "axera/weight_patch.h"
#include "axmodel.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path, output, constant, rule = "b";
    std::vector<std::string> shapes, weights;  // ROWSxCOLUMNS and ROWSxCOLUMNS[@N]=FILE
};

struct Target {
    std::uint64_t rows = 0, columns = 0;
    std::optional<std::size_t> which;  // of several places, counted from 0
    std::string file;
};

// "ROWSxCOLUMNS", "ROWSxCOLUMNS@N", either followed by "=FILE" when `with_file`.
Target target_of(const std::string& text, bool with_file) {
    Target target;
    const std::size_t sign = text.find('=');
    const std::string shape = text.substr(0, sign);
    char* end = nullptr;
    target.rows = std::strtoull(shape.c_str(), &end, 10);
    bool good = target.rows != 0 && *end == 'x';
    if (good) {
        target.columns = std::strtoull(end + 1, &end, 10);
        good = target.columns != 0;
    }
    if (good && *end == '@') {
        const char* const from = end + 1;
        target.which = std::strtoull(from, &end, 10);
        good = end != from;
    }
    good = good && *end == '\0' && with_file == (sign != std::string::npos);
    if (!good) {
        fail(format("'%s' should be ROWSxCOLUMNS%s, as in 1024x3072%s", text.c_str(), with_file ? "[@N]=FILE" : "",
                    with_file ? "@1=up.f32" : ""));
    }
    target.file = with_file ? text.substr(sign + 1) : "";
    return target;
}

// The constants of a model: the one that --constant names, else the largest that is no program.
const axera::onnx::Tensor& constant_of(const axera::ModelFile& model, const std::string& name) {
    const axera::onnx::Tensor* found = nullptr;
    const auto& initializers = model.onnx.graph.initializers;
    for (std::size_t i = 0; i < initializers.size(); ++i) {
        const bool is_program = std::any_of(model.programs.begin(), model.programs.end(),
                                            [&](const axera::Program& program) { return program.initializer == i; });
        const bool wanted = name.empty() ? !is_program : initializers[i].name == name;
        if (wanted && (found == nullptr || initializers[i].raw.size() > found->raw.size())) {
            found = &initializers[i];
        }
    }
    if (found == nullptr || found->raw.empty()) {
        fail(name.empty() ? "the model has no constants" : format("the model has no constants '%s'", name.c_str()));
    }
    return *found;
}

std::string describe(const axera::WeightPlace& place) {
    return format("%llux%llu at byte %zu: %s", static_cast<unsigned long long>(place.rows),
                  static_cast<unsigned long long>(place.columns), place.offset,
                  axera::layout_name(place.layout).c_str());
}

void list(const Options& options) {
    const axera::ModelFile model = model_or_fail(options.path);
    const axera::onnx::Tensor& constants = constant_of(model, options.constant);
    std::size_t found = 0;
    for (const std::string& shape : options.shapes) {
        const Target target = target_of(shape, false);
        std::size_t number = 0;
        for (const axera::WeightPlace& place : axera::find_weights(constants.raw, target.rows, target.columns)) {
            print(format("%s[%zu] %s\n", constants.name.c_str(), number++, describe(place).c_str()));
            ++found;
        }
    }
    if (found == 0) {
        fail("no weights of that shape in a known layout", 1);
    }
}

axera::WeightPlace place_of(const axera::onnx::Tensor& constants, const Target& target) {
    const std::vector<axera::WeightPlace> places = axera::find_weights(constants.raw, target.rows, target.columns);
    if (places.empty()) {
        fail(format("%s holds no %llux%llu weights in a known layout", constants.name.c_str(),
                    static_cast<unsigned long long>(target.rows), static_cast<unsigned long long>(target.columns)));
    }
    if (!target.which && places.size() != 1) {
        fail(format(
            "%s holds %zu matrices of %llux%llu; say which, counted from 0: %llux%llu@N=FILE (npu axmodel weights)",
            constants.name.c_str(), places.size(), static_cast<unsigned long long>(target.rows),
            static_cast<unsigned long long>(target.columns), static_cast<unsigned long long>(target.rows),
            static_cast<unsigned long long>(target.columns)));
    }
    if (target.which.value_or(0) >= places.size()) {
        fail(format("%s holds %zu matrices of that shape, counted from 0", constants.name.c_str(), places.size()));
    }
    return places[target.which.value_or(0)];
}

void patch(const Options& options) {
    const axera::ModelFile model = model_or_fail(options.path);
    const axera::onnx::Tensor& constants = constant_of(model, options.constant);
    axera::Buffer patched = model.bytes;
    const auto bytes = std::span(patched).subspan(constants.offset, constants.raw.size());
    const axera::QuantiserRule rule = options.rule == "a" ? axera::QuantiserRule::a : axera::QuantiserRule::b;
    for (const std::string& text : options.weights) {
        const Target target = target_of(text, true);
        const axera::WeightPlace place = place_of(constants, target);
        const Result<axera::Buffer> file = axera::read_bytes(target.file);
        if (!file) {
            fail(file.error().message);
        }
        if (file->size() != place.rows * place.columns * sizeof(float)) {
            fail(format("'%s' has %zu bytes; %llux%llu float32 have %llu", target.file.c_str(), file->size(),
                        static_cast<unsigned long long>(place.rows), static_cast<unsigned long long>(place.columns),
                        static_cast<unsigned long long>(place.rows * place.columns * sizeof(float))));
        }
        std::vector<float> weights(place.rows * place.columns);
        std::memcpy(weights.data(), file->data(), file->size());
        if (const Result<void> done = axera::patch_weights(bytes, place, weights, rule); !done) {
            fail(done.error().message);
        }
        print(format("%s: %s\n", constants.name.c_str(), describe(place).c_str()));
    }
    std::ofstream stream(options.output, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(patched.data()), static_cast<std::streamsize>(patched.size()));
    if (!stream.flush()) {
        fail(format("cannot write '%s'", options.output.c_str()));
    }
}

}  // namespace

void add_axmodel_patch(CLI::App& parent) {
    auto listing = std::make_shared<Options>();
    CLI::App* weights = parent.add_subcommand("weights", "Says where weights of a shape lie; ends with 1 when nowhere");
    weights->add_option("FILE", listing->path, "Model")->required()->type_name("");
    weights->add_option("SHAPE", listing->shapes, "ROWSxCOLUMNS of a matrix")->required()->type_name("");
    weights->add_option("--constant", listing->constant, "Initializer (default: the largest)")->type_name("NAME");
    weights->callback([listing] { list(*listing); });
    auto options = std::make_shared<Options>();
    CLI::App* command = parent.add_subcommand("patch", "Puts other weights into a model, quantised as it is");
    command->add_option("FILE", options->path, "Model")->required()->type_name("");
    command->add_option("OUT", options->output, "The patched model")->required()->type_name("");
    command->add_option("--weights", options->weights, "float32 weights, row after row, for a matrix of this shape")
        ->required()
        ->type_name("ROWSxCOLUMNS[@N]=FILE");
    command
        ->add_option("--rule", options->rule,
                     "How weights become codes: a (-w/128 or /8) or b (|w|/127 or /7, default)")
        ->check(CLI::IsMember({"a", "b"}))
        ->type_name("RULE");
    command->add_option("--constant", options->constant, "Initializer (default: the largest)")->type_name("NAME");
    command->callback([options] { patch(*options); });
}

}  // namespace npu::tools
