// From the structs of onnx.h to bytes, and what can be asked of them.
#include <algorithm>
#include <array>

#include "axera/onnx.h"

namespace npu::axera::onnx {

namespace {

struct ElementInfo {
    ElementType type;
    const char* name;
    unsigned bytes;
};

constexpr std::array elements{
    ElementInfo{ElementType::float32, "f32", 4},  ElementInfo{ElementType::uint8, "u8", 1},
    ElementInfo{ElementType::int8, "s8", 1},      ElementInfo{ElementType::uint16, "u16", 2},
    ElementInfo{ElementType::int16, "s16", 2},    ElementInfo{ElementType::int32, "s32", 4},
    ElementInfo{ElementType::int64, "s64", 8},    ElementInfo{ElementType::boolean, "bool", 1},
    ElementInfo{ElementType::float16, "f16", 2},  ElementInfo{ElementType::float64, "f64", 8},
    ElementInfo{ElementType::uint32, "u32", 4},   ElementInfo{ElementType::uint64, "u64", 8},
    ElementInfo{ElementType::bfloat16, "bf16", 2}};

const ElementInfo* find(ElementType type) {
    const auto* at = std::find_if(elements.begin(), elements.end(), [&](const auto& e) { return e.type == type; });
    return at == elements.end() ? nullptr : at;
}

Buffer write(const Attribute& attribute) {
    WireWriter to;
    to.text_if(1, attribute.name);
    to.varint(3, attribute.integer);
    if (attribute.text) {
        to.text(4, *attribute.text);
    }
    to.varint(20, attribute.type);
    to.raw(attribute.unknown);
    return to.take();
}

Buffer write(const Node& node) {
    WireWriter to;
    for (const std::string& name : node.inputs) {
        to.text(1, name);
    }
    for (const std::string& name : node.outputs) {
        to.text(2, name);
    }
    to.text_if(3, node.name);
    to.text_if(4, node.op_type);
    for (const Attribute& attribute : node.attributes) {
        to.bytes(5, write(attribute));
    }
    to.raw(node.unknown);
    return to.take();
}

Buffer write(const Tensor& tensor) {
    WireWriter to;
    for (const std::uint64_t dim : tensor.dims) {
        to.varint(1, dim);
    }
    to.varint(2, tensor.data_type);
    to.text_if(8, tensor.name);
    if (!tensor.raw.empty()) {
        to.bytes(9, tensor.raw);
    }
    to.raw(tensor.unknown);
    return to.take();
}

Buffer write(const Dimension& dimension) {
    WireWriter to;
    to.varint(1, dimension.value);
    to.text_if(2, dimension.parameter);
    to.raw(dimension.unknown);
    return to.take();
}

Buffer write(const ValueInfo& value) {
    WireWriter to;
    to.text_if(1, value.name);
    if (value.has_type || !value.unknown_type.empty()) {
        WireWriter type;
        if (value.has_type) {
            WireWriter tensor_type;
            tensor_type.varint(1, value.element);
            if (value.has_shape) {
                WireWriter shape;
                for (const Dimension& dimension : value.dims) {
                    shape.bytes(1, write(dimension));
                }
                shape.raw(value.unknown_shape);
                tensor_type.bytes(2, shape.take());
            }
            tensor_type.raw(value.unknown_tensor_type);
            type.bytes(1, tensor_type.take());
        }
        type.raw(value.unknown_type);
        to.bytes(2, type.take());
    }
    to.raw(value.unknown);
    return to.take();
}

Buffer write(const Graph& graph) {
    WireWriter to;
    for (const Node& node : graph.nodes) {
        to.bytes(1, write(node));
    }
    to.text_if(2, graph.name);
    for (const Tensor& tensor : graph.initializers) {
        to.bytes(5, write(tensor));
    }
    for (const ValueInfo& value : graph.inputs) {
        to.bytes(11, write(value));
    }
    for (const ValueInfo& value : graph.outputs) {
        to.bytes(12, write(value));
    }
    for (const ValueInfo& value : graph.values) {
        to.bytes(13, write(value));
    }
    to.raw(graph.unknown);
    return to.take();
}

Buffer write(const OperatorSet& set) {
    WireWriter to;
    if (set.domain) {
        to.text(1, *set.domain);
    }
    to.varint(2, set.version);
    to.raw(set.unknown);
    return to.take();
}

Buffer write(const Property& property) {
    WireWriter to;
    to.text_if(1, property.key);
    to.text_if(2, property.value);
    to.raw(property.unknown);
    return to.take();
}

template <typename T>
const T* named(const std::vector<T>& list, std::string_view name) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const T& element) { return element.name == name; });
    return at == list.end() ? nullptr : &*at;
}

}  // namespace

const char* element_name(ElementType type) {
    const ElementInfo* info = find(type);
    return info != nullptr ? info->name : "unknown";
}

unsigned element_bytes(ElementType type) {
    const ElementInfo* info = find(type);
    return info != nullptr ? info->bytes : 0;
}

const Attribute* Node::find(std::string_view attribute) const { return named(attributes, attribute); }

const Tensor* Graph::find_initializer(std::string_view wanted) const { return named(initializers, wanted); }

const ValueInfo* Graph::find_value(std::string_view wanted) const {
    for (const std::vector<ValueInfo>* list : {&inputs, &outputs, &values}) {
        if (const ValueInfo* found = named(*list, wanted)) {
            return found;
        }
    }
    return nullptr;
}

const std::string* Model::find_metadata(std::string_view key) const {
    for (const Property& property : metadata) {
        if (property.key == key) {
            return &property.value;
        }
    }
    return nullptr;
}

Buffer write_model(const Model& model) {
    WireWriter to;
    to.varint(1, model.ir_version);
    to.text_if(2, model.producer_name);
    to.text_if(6, model.doc_string);
    to.bytes(7, write(model.graph));
    for (const OperatorSet& set : model.operator_sets) {
        to.bytes(8, write(set));
    }
    for (const Property& property : model.metadata) {
        to.bytes(14, write(property));
    }
    to.raw(model.unknown);
    return to.take();
}

}  // namespace npu::axera::onnx
