#include "axera/model_file.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "axera/base64.h"

namespace npu::axera {

namespace {

constexpr std::string_view neural_node = "neu mode";

// Bytes of a tensor from its type and shape; 0 when they are not known or do not fit.
std::uint64_t bytes_of_shape(const ModelTensor& tensor) {
    std::uint64_t bytes = onnx::element_bytes(tensor.type);
    for (const std::uint64_t dim : tensor.dims) {
        if (__builtin_mul_overflow(bytes, dim, &bytes)) {
            return 0;
        }
    }
    return tensor.dims.empty() ? 0 : bytes;
}

// Inputs, outputs and values of a graph by name; of several with one name, the first.
using Values = std::map<std::string_view, const onnx::ValueInfo*>;

Values values_of(const onnx::Graph& graph) {
    Values values;
    for (const auto* list : {&graph.inputs, &graph.outputs, &graph.values}) {
        for (const onnx::ValueInfo& value : *list) {
            values.emplace(value.name, &value);
        }
    }
    return values;
}

ModelTensor tensor_of(const Values& values, const std::string& name, std::size_t group) {
    ModelTensor tensor;
    tensor.name = name;
    tensor.base_name = name;
    const std::string suffix = format("_%zu", group);
    if (group != 0 && name.size() > suffix.size() && name.ends_with(suffix)) {
        tensor.base_name.resize(name.size() - suffix.size());
    }
    if (const auto value = values.find(name); value != values.end()) {
        tensor.type = value->second->element_type();
        for (const onnx::Dimension& dimension : value->second->dims) {
            tensor.dims.push_back(dimension.value.value_or(0));
        }
    }
    tensor.bytes = bytes_of_shape(tensor);
    return tensor;
}

// What the JSON attribute of a node says of its programs.
struct NodePrograms {
    std::vector<std::string> keys;
    std::vector<ProgramInput> inputs;
};

Result<NodePrograms> programs_of(const onnx::Node& node) {
    const onnx::Attribute* info = node.find("npu_graph_info");
    if (info == nullptr || !info->text) {
        return make_error(ErrorCode::invalid_argument,
                          "node '%s' has no attribute npu_graph_info, which names its programs", node.name.c_str());
    }
    const nlohmann::json json = nlohmann::json::parse(*info->text, nullptr, false);
    const auto text = [](const nlohmann::json& from, const char* key) -> std::string {
        return from.is_object() && from.contains(key) && from[key].is_string() ? from[key].get<std::string>() : "";
    };
    if (!json.is_object() || !json.contains("dotneus") || !json["dotneus"].is_array()) {
        return make_error(ErrorCode::invalid_argument, "npu_graph_info of node '%s' is not JSON with a list 'dotneus'",
                          node.name.c_str());
    }
    NodePrograms programs;
    for (const nlohmann::json& entry : json["dotneus"]) {
        programs.keys.push_back(text(entry, "neu_key"));
        if (!entry.is_object() || !entry.contains("extra_inputs") || !entry["extra_inputs"].is_array()) {
            continue;
        }
        for (const nlohmann::json& input : entry["extra_inputs"]) {
            programs.inputs.push_back({text(input, "name"), text(input, "type"), text(input, "const_data_key"),
                                       text(input, "dyn_param_expr_key")});
        }
    }
    return programs;
}

// The programs of a model by the name of their initializer, each read once.
class Programs {
  public:
    explicit Programs(ModelFile& model) : model_(model) {}

    Result<std::size_t> find(const std::string& key, const onnx::Node& node) {
        if (const auto known = index_.find(key); known != index_.end()) {
            return known->second;
        }
        const auto& initializers = model_.onnx.graph.initializers;
        const onnx::Tensor* tensor = model_.onnx.graph.find_initializer(key);
        if (tensor == nullptr) {
            return make_error(ErrorCode::invalid_argument,
                              "node '%s' wants the program '%s', and no initializer has that name", node.name.c_str(),
                              key.c_str());
        }
        Result<Neu> neu = read_neu(tensor->raw);
        if (!neu) {
            return make_error(neu.error().code, "program '%s': %s", key.c_str(), neu.error().message.c_str());
        }
        model_.programs.push_back(
            {key, static_cast<std::size_t>(tensor - initializers.data()), std::move(neu).value()});
        index_[key] = model_.programs.size() - 1;
        return model_.programs.size() - 1;
    }

  private:
    ModelFile& model_;
    std::map<std::string, std::size_t> index_;
};

void take_bytes_of_program(std::vector<ModelTensor>& tensors, const std::vector<NeuTensor>& program) {
    for (ModelTensor& tensor : tensors) {
        const auto at = std::find_if(program.begin(), program.end(), [&](const NeuTensor& candidate) {
            return candidate.name == tensor.name || candidate.name == tensor.base_name;
        });
        if (at != program.end()) {
            tensor.bytes = at->bytes;
        }
    }
}

// Whether no node reads what another wrote, so that each is a group of its own.
bool nodes_stand_alone(const onnx::Graph& graph) {
    std::set<std::string_view> written;
    for (const onnx::Node& node : graph.nodes) {
        if (node.op_type != neural_node) {
            return false;
        }
        written.insert(node.outputs.begin(), node.outputs.end());
    }
    return std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const onnx::Node& node) {
        return std::any_of(node.inputs.begin(), node.inputs.end(),
                           [&](const std::string& name) { return written.count(name) != 0; });
    });
}

Result<void> find_groups(ModelFile& model) {
    const onnx::Graph& graph = model.onnx.graph;
    Programs programs(model);
    const Values values = values_of(graph);
    const bool apart = nodes_stand_alone(graph);
    if (!apart) {
        ShapeGroup& whole = model.groups.emplace_back();
        whole.name = graph.name;
        for (const onnx::ValueInfo& value : graph.inputs) {
            whole.inputs.push_back(tensor_of(values, value.name, 0));
        }
        for (const onnx::ValueInfo& value : graph.outputs) {
            whole.outputs.push_back(tensor_of(values, value.name, 0));
        }
    }
    for (const onnx::Node& node : graph.nodes) {
        if (node.op_type != neural_node) {
            continue;
        }
        NPU_ASSIGN(const NodePrograms wanted, programs_of(node));
        ShapeGroup& group = apart ? model.groups.emplace_back() : model.groups.front();
        for (const std::string& key : wanted.keys) {
            NPU_ASSIGN(const std::size_t index, programs.find(key, node));
            group.programs.push_back(index);
        }
        group.extra_inputs.insert(group.extra_inputs.end(), wanted.inputs.begin(), wanted.inputs.end());
        if (!apart) {
            continue;
        }
        group.name = node.name;
        const std::size_t number = model.groups.size() - 1;
        for (const std::string& name : node.inputs) {
            group.inputs.push_back(tensor_of(values, name, number));
        }
        for (const std::string& name : node.outputs) {
            group.outputs.push_back(tensor_of(values, name, number));
        }
        if (!group.programs.empty()) {
            const Neu& neu = model.programs[group.programs.front()].neu;
            take_bytes_of_program(group.inputs, neu.inputs);
            take_bytes_of_program(group.outputs, neu.outputs);
        }
    }
    return {};
}

}  // namespace

std::string ModelFile::compiler_version() const {
    constexpr std::string_view label = "Pulsar2 Version:";
    const std::size_t at = onnx.doc_string.find(label);
    if (at == std::string::npos) {
        return {};
    }
    const std::size_t first = onnx.doc_string.find_first_not_of(' ', at + label.size());
    const std::size_t end = onnx.doc_string.find('\n', at);
    return first == std::string::npos || first >= std::min(end, onnx.doc_string.size())
               ? std::string()
               : onnx.doc_string.substr(first, end == std::string::npos ? end : end - first);
}

std::uint64_t ModelFile::command_bytes() const {
    std::uint64_t bytes = 0;
    for (const Program& program : programs) {
        bytes += program.neu.image.size();
    }
    return bytes;
}

std::uint64_t ModelFile::constant_bytes() const {
    std::uint64_t bytes = 0;
    for (const onnx::Tensor& tensor : onnx.graph.initializers) {
        bytes += tensor.raw.size();
    }
    for (const Program& program : programs) {
        bytes -= onnx.graph.initializers[program.initializer].raw.size();
    }
    return bytes;
}

std::uint8_t ModelFile::npu_mode() const {
    std::uint8_t mode = 0;
    for (const Program& program : programs) {
        mode = std::max(mode, program.neu.npu_mode);
    }
    return mode;
}

Result<ModelFile> parse_model(Buffer bytes) {
    ModelFile model;
    model.bytes = std::move(bytes);
    NPU_ASSIGN(model.onnx, onnx::read_model(model.bytes));
    if (const std::string* extra = model.onnx.find_metadata("extra_data")) {
        NPU_ASSIGN(model.extra_bytes, decode_base64(*extra));
        NPU_ASSIGN(model.extra, read_extra_data(model.extra_bytes));
    }
    NPU_TRY(find_groups(model));
    if (model.programs.empty()) {
        return make_error(
            ErrorCode::invalid_argument,
            "the ONNX graph '%s' has no node of the type '%s' with a program; this is an ONNX model that was "
            "not compiled for the NPU",
            model.onnx.graph.name.c_str(), neural_node.data());
    }
    return model;
}

Result<Buffer> read_bytes(const std::string& path) {
    std::ifstream stream(path, std::ios::binary | std::ios::ate);
    const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
    if (size < 0) {
        return make_error(ErrorCode::not_found, "cannot open '%s'; is the path right and may you read it?",
                          path.c_str());
    }
    Buffer bytes(static_cast<std::size_t>(size));
    stream.seekg(0);
    if (!stream.read(reinterpret_cast<char*>(bytes.data()), size)) {
        return make_error(ErrorCode::not_found, "cannot read the %lld bytes of '%s'", static_cast<long long>(size),
                          path.c_str());
    }
    return bytes;
}

Result<ModelFile> read_model_file(const std::string& path) {
    NPU_ASSIGN(Buffer bytes, read_bytes(path));
    Result<ModelFile> model = parse_model(std::move(bytes));
    if (!model) {
        return make_error(model.error().code, "%s: %s", path.c_str(), model.error().message.c_str());
    }
    return model;
}

}  // namespace npu::axera
