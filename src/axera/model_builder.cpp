#include "axera/model_builder.h"

#include <list>
#include <nlohmann/json.hpp>

#include "axera/base64.h"
#include "axera/records.h"

namespace npu::axera {

namespace {

constexpr const char* params_key = "npu_params";
constexpr std::uint32_t ocm_bytes_npu3 = 0xAFF000;
constexpr std::uint32_t ocm_bytes_npu1 = 0x2FF000;
constexpr std::uint16_t program_version = 0x1000;  // register of the first record, as Pulsar2 3.1 writes it

std::string suffixed(const std::string& name, std::size_t group) {
    return group == 0 ? name : format("%s_%zu", name.c_str(), group);
}

std::string program_key(std::size_t group) { return format("subgraph_npu_%zu_b1_neu", group); }

Result<std::uint64_t> bytes_of(const TensorRecipe& tensor) {
    std::uint64_t bytes = onnx::element_bytes(tensor.type);
    for (const std::uint64_t dim : tensor.dims) {
        if (__builtin_mul_overflow(bytes, dim, &bytes)) {
            bytes = 0;
        }
    }
    if (bytes == 0 || tensor.dims.empty()) {
        return make_error(ErrorCode::invalid_argument, "tensor '%s' needs a type of known size and a shape",
                          tensor.name.c_str());
    }
    return bytes;
}

onnx::ValueInfo value_of(const TensorRecipe& tensor, std::size_t group) {
    onnx::ValueInfo value;
    value.name = suffixed(tensor.name, group);
    value.has_type = value.has_shape = true;
    value.element = static_cast<std::uint64_t>(tensor.type);
    for (const std::uint64_t dim : tensor.dims) {
        value.dims.push_back({dim, {}, {}});
    }
    return value;
}

// The segments that an idle program has: every engine but the last signals its first event; the last, which is the
// first convolution engine, waits for them and ends.
std::vector<Buffer> idle_segments(std::size_t engines) {
    std::vector<Buffer> segments;
    const auto begin = [] {
        Buffer segment;
        append_record(segment, {Operation::variable, 0, program_version, 0});
        return segment;
    };
    const auto event = [](EventKind kind, std::uint32_t engine, std::uint32_t number) {
        return Record{Operation::event, 0, 0, engine << 20 | number << 4 | static_cast<std::uint32_t>(kind)};
    };
    for (std::size_t i = 0; i + 1 < engines; ++i) {
        Buffer& segment = segments.emplace_back(begin());
        append_record(segment, event(EventKind::signal, static_cast<std::uint32_t>(engines - 1 - i), 1));
    }
    Buffer& last = segments.emplace_back(begin());
    for (std::uint32_t engine = 1; engine < engines; ++engine) {
        append_record(last, event(EventKind::wait, engine, 1));
    }
    append_record(last, event(EventKind::end, 0, 0));
    for (Buffer& segment : segments) {
        segment.resize((segment.size() + 31) / 32 * 32);
    }
    return segments;
}

std::vector<Descriptor> descriptors_of(bool three_thirds) {
    using enum EngineKind;
    const std::vector<EngineKind> kinds =
        three_thirds ? std::vector<EngineKind>{sdma,        sdma,        sdma,        vector,      vector,
                                               vector,      tensor,      tensor,      tensor,      convolution,
                                               convolution, convolution, convolution, convolution, convolution}
                     : std::vector<EngineKind>{sdma, vector, tensor, convolution, convolution};
    std::vector<Descriptor> descriptors;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        Descriptor& part = descriptors.emplace_back();
        part.kind = kinds[i];
        part.first_word = static_cast<std::uint32_t>(kinds.size() - i);  // only the order; set_segments places it
        part.packed = kinds[i] == convolution && i + 1 == kinds.size() ? 1 : 0;
    }
    return descriptors;
}

Result<Buffer> build_program(const ModelRecipe& recipe, const GroupRecipe& group, std::size_t number) {
    Neu neu;
    neu.npu_mode = recipe.three_thirds ? 2 : 0;
    neu.ocm_bytes = recipe.three_thirds ? ocm_bytes_npu3 : ocm_bytes_npu1;
    neu.unit = 0x1000;
    neu.name = format("subgraph_npu_%zu_b1", number);
    neu.options = "{}";
    neu.symbols.push_back({"_ocm_base", 0});
    const auto add_symbol = [&](const std::string& name) {
        neu.symbols.push_back({name, static_cast<std::uint32_t>(neu.symbols.size())});
    };
    for (const auto* list : {&group.inputs, &group.outputs}) {
        const bool is_input = list == &group.inputs;
        for (const TensorRecipe& tensor : *list) {
            const std::string name = suffixed(tensor.name, number);
            NPU_ASSIGN(const std::uint64_t bytes, bytes_of(tensor));
            (is_input ? neu.inputs : neu.outputs).push_back({name, bytes});
            neu.inputs.push_back({name + "_offset", 4});
            add_symbol(name);
            add_symbol(name + "_offset");
        }
    }
    neu.inputs.push_back({"params", recipe.params.size()});
    add_symbol("params");
    neu.descriptors = descriptors_of(recipe.three_thirds);
    Buffer image;
    NPU_TRY(set_segments(neu, idle_segments(neu.descriptors.size()), image));
    return write_neu(neu);
}

onnx::Attribute text_attribute(const char* name, std::string text) {
    return {name, std::nullopt, std::move(text), 3, {}};
}

onnx::Node node_of(const GroupRecipe& group, std::size_t number) {
    onnx::Node node;
    node.name = format("subgraph_npu_%zu", number);
    node.op_type = "neu mode";
    for (const TensorRecipe& tensor : group.inputs) {
        node.inputs.push_back(suffixed(tensor.name, number));
    }
    for (const TensorRecipe& tensor : group.outputs) {
        node.outputs.push_back(suffixed(tensor.name, number));
    }
    const nlohmann::ordered_json params{
        {"name", "params"}, {"const_data_key", params_key}, {"type", "DotNeuInputConst"}, {"dyn_param_expr_key", ""}};
    const nlohmann::ordered_json program{
        {"neu_key", program_key(number)}, {"batch", 1}, {"extra_inputs", nlohmann::ordered_json::array({params})}};
    const nlohmann::ordered_json info{
        {"name", node.name}, {"dotneus", nlohmann::ordered_json::array({program})}, {"type", "NPUDotNeu"}};
    node.attributes.push_back(text_attribute("neu_name", node.name));
    node.attributes.push_back(text_attribute("npu_graph_info", info.dump()));
    node.attributes.push_back({"version", 1, std::nullopt, 2, {}});
    return node;
}

Buffer extra_of(const ModelRecipe& recipe) {
    ExtraData extra;
    extra.version = "1";
    for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
        for (const auto* list : {&recipe.groups[g].inputs, &recipe.groups[g].outputs}) {
            for (const TensorRecipe& tensor : *list) {
                TensorExtra& entry = extra.tensors.emplace_back();
                entry.name = suffixed(tensor.name, g);
                if (g != 0) {
                    entry.group_index = g;
                }
            }
        }
        ExtraSubgraph& graph = extra.subgraphs.emplace_back();
        graph.name = format("subgraph_npu_%zu", g);
        ExtraProgram& program = graph.programs.emplace_back();
        program.key = program_key(g);
        program.batch = 1;
        program.inputs.push_back({"params", std::nullopt, params_key, "", {}});
    }
    extra.build.emplace().max_dynamic_batch = 0;
    extra.build->npu_mode = recipe.three_thirds ? 2 : 0;
    return write_extra_data(extra);
}

Result<void> check(const ModelRecipe& recipe) {
    if (recipe.groups.empty()) {
        return make_error(ErrorCode::invalid_argument, "a model needs at least one shape group");
    }
    for (const GroupRecipe& group : recipe.groups) {
        for (const auto list : {&GroupRecipe::inputs, &GroupRecipe::outputs}) {
            const std::vector<TensorRecipe>& first = recipe.groups.front().*list;
            const bool same = std::equal(first.begin(), first.end(), (group.*list).begin(), (group.*list).end(),
                                         [](const TensorRecipe& a, const TensorRecipe& b) { return a.name == b.name; });
            if (!same) {
                return make_error(ErrorCode::invalid_argument,
                                  "all shape groups of a model have the same tensors in the same order");
            }
        }
    }
    return {};
}

}  // namespace

Result<Buffer> build_model(const ModelRecipe& recipe) {
    NPU_TRY(check(recipe));
    onnx::Model model;
    model.ir_version = 8;
    model.producer_name = "ggml-npu";
    model.doc_string = format("Pulsar2 Version:  %s\nPulsar2 Commit: none", recipe.version.c_str());
    model.graph.name = "ax-model";
    model.operator_sets.push_back({std::nullopt, 16, {}});
    const auto add_initializer = [&](const std::string& key, Bytes raw) {
        onnx::Tensor& tensor = model.graph.initializers.emplace_back();
        tensor.name = key;
        tensor.data_type = static_cast<std::uint64_t>(onnx::ElementType::uint8);
        tensor.dims = {raw.size()};
        tensor.raw = raw;
    };
    add_initializer(params_key, recipe.params);
    std::list<Buffer> programs;  // initializers are views into these
    for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
        const GroupRecipe& group = recipe.groups[g];
        model.graph.nodes.push_back(node_of(group, g));
        NPU_ASSIGN(Buffer program, build_program(recipe, group, g));
        add_initializer(program_key(g), programs.emplace_back(std::move(program)));
        for (const TensorRecipe& tensor : group.inputs) {
            model.graph.inputs.push_back(value_of(tensor, g));
        }
        for (const TensorRecipe& tensor : group.outputs) {
            model.graph.outputs.push_back(value_of(tensor, g));
        }
    }
    const Buffer extra = extra_of(recipe);
    model.metadata.push_back({"extra_data", encode_base64(extra), {}});
    return onnx::write_model(model);
}

ModelRecipe matmul_recipe(onnx::ElementType type, std::uint64_t rows, std::uint64_t columns, std::uint64_t depth) {
    ModelRecipe recipe;
    recipe.groups.push_back({{{"x", type, {rows, depth}}, {"y", type, {columns, depth}}},
                             {{"r", onnx::ElementType::float32, {rows, columns}}}});
    recipe.params.assign(64, 0);
    return recipe;
}

}  // namespace npu::axera
