// From bytes to the structs of onnx.h, one function for each message.
#include <algorithm>

#include "axera/onnx.h"
#include "axera/wire_message.h"

namespace npu::axera::onnx {

namespace {

Result<Attribute> read_attribute(Bytes message) {
    Attribute attribute;
    NPU_TRY(read_fields(message, "attribute", attribute.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(attribute.name, field);
            case 3: return set(attribute.integer, field);
            case 4: return set(attribute.text, field);
            case 20: return set(attribute.type, field);
            default: return false;
        }
    }));
    return attribute;
}

Result<Node> read_node(Bytes message) {
    Node node;
    NPU_TRY(read_fields(message, "node", node.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return append(node.inputs, field);
            case 2: return append(node.outputs, field);
            case 3: return set(node.name, field);
            case 4: return set(node.op_type, field);
            case 5: return append(node.attributes, field, read_attribute);
            default: return false;
        }
    }));
    return node;
}

// Repeated numbers stand one by one or packed in one field; both are legal.
Result<bool> read_numbers(const WireField& field, std::vector<std::uint64_t>& numbers) {
    if (field.type == WireType::varint) {
        numbers.push_back(field.value);
        return true;
    }
    if (field.type != WireType::bytes) {
        return false;
    }
    // Each varint is given a tag of its own so that the one reader of varints reads it.
    for (std::size_t at = 0; at < field.bytes.size();) {
        std::size_t end = at;
        while (end < field.bytes.size() && (field.bytes[end] & 0x80) != 0) {
            ++end;
        }
        Buffer one{0x08};
        one.insert(one.end(), field.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                   field.bytes.begin() + static_cast<std::ptrdiff_t>(std::min(end + 1, field.bytes.size())));
        WireReader reader(one, "packed numbers");
        NPU_ASSIGN(const WireField number, reader.next());
        numbers.push_back(number.value);
        at = end + 1;
    }
    return true;
}

Result<Tensor> read_tensor(Bytes message) {
    Tensor tensor;
    NPU_TRY(read_fields(message, "initializer", tensor.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return read_numbers(field, tensor.dims);
            case 2: return set(tensor.data_type, field);
            case 8: return set(tensor.name, field);
            case 9:
                if (field.type == WireType::bytes) {
                    tensor.raw = field.bytes;
                    return true;
                }
                return false;
            default: return false;
        }
    }));
    return tensor;
}

Result<Dimension> read_dimension(Bytes message) {
    Dimension dimension;
    NPU_TRY(read_fields(message, "dimension", dimension.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(dimension.value, field);
            case 2: return set(dimension.parameter, field);
            default: return false;
        }
    }));
    return dimension;
}

Result<bool> read_shape(Bytes message, ValueInfo& value) {
    value.has_shape = true;
    NPU_TRY(read_fields(message, "shape", value.unknown_shape, [&](const WireField& field) -> Result<bool> {
        return field.number == 1 ? append(value.dims, field, read_dimension) : Result<bool>(false);
    }));
    return true;
}

Result<bool> read_tensor_type(Bytes message, ValueInfo& value) {
    NPU_TRY(read_fields(message, "tensor type", value.unknown_tensor_type, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(value.element, field);
            case 2:
                return field.type == WireType::bytes && !value.has_shape ? read_shape(field.bytes, value)
                                                                         : Result<bool>(false);
            default: return false;
        }
    }));
    return true;
}

Result<ValueInfo> read_value(Bytes message) {
    ValueInfo value;
    const auto read_type = [&](const WireField& field) -> Result<bool> {
        if (field.number == 1 && field.type == WireType::bytes && !value.has_type) {
            value.has_type = true;
            return read_tensor_type(field.bytes, value);
        }
        return false;
    };
    NPU_TRY(read_fields(message, "value", value.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(value.name, field);
            case 2:
                if (field.type != WireType::bytes || value.has_type || !value.unknown_type.empty()) {
                    return false;
                }
                NPU_TRY(read_fields(field.bytes, "type", value.unknown_type, read_type));
                return true;
            default: return false;
        }
    }));
    return value;
}

Result<bool> read_graph(Bytes message, Graph& graph) {
    NPU_TRY(read_fields(message, "graph", graph.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return append(graph.nodes, field, read_node);
            case 2: return set(graph.name, field);
            case 5: return append(graph.initializers, field, read_tensor);
            case 11: return append(graph.inputs, field, read_value);
            case 12: return append(graph.outputs, field, read_value);
            case 13: return append(graph.values, field, read_value);
            default: return false;
        }
    }));
    return true;
}

Result<OperatorSet> read_operator_set(Bytes message) {
    OperatorSet set_of;
    NPU_TRY(read_fields(message, "operator set", set_of.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(set_of.domain, field);
            case 2: return set(set_of.version, field);
            default: return false;
        }
    }));
    return set_of;
}

Result<Property> read_property(Bytes message) {
    Property property;
    NPU_TRY(read_fields(message, "metadata", property.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(property.key, field);
            case 2: return set(property.value, field);
            default: return false;
        }
    }));
    return property;
}

}  // namespace

Result<Model> read_model(Bytes file) {
    Model model;
    bool has_graph = false;
    NPU_TRY(read_fields(file, "model", model.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(model.ir_version, field);
            case 2: return set(model.producer_name, field);
            case 6: return set(model.doc_string, field);
            case 7:
                if (field.type != WireType::bytes || has_graph) {
                    return make_error(ErrorCode::invalid_argument,
                                      has_graph ? "model: a second graph; a model has one"
                                                : "model: field 7 should be the graph and is a number");
                }
                has_graph = true;
                return read_graph(field.bytes, model.graph);
            case 8: return append(model.operator_sets, field, read_operator_set);
            case 14: return append(model.metadata, field, read_property);
            default: return false;
        }
    }));
    if (!has_graph) {
        return make_error(ErrorCode::invalid_argument,
                          "the file of %zu bytes holds no ONNX graph; an .axmodel is an ONNX ModelProto", file.size());
    }
    for (Tensor& tensor : model.graph.initializers) {
        tensor.offset = tensor.raw.empty() ? 0 : static_cast<std::size_t>(tensor.raw.data() - file.data());
    }
    return model;
}

}  // namespace npu::axera::onnx
