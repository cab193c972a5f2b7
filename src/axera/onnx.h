// What is an .axmodel file on the outside? An ONNX ModelProto whose graph computes nothing that ONNX knows: each node
// is of the type "neu mode" and names, in a JSON attribute, initializers of bytes: the compiled program of the NPU
// (neu.h) and its constants ("params"). Inputs and outputs of the graph are ordinary tensors with names, types and
// shapes.
//
// Only the fields that such files have are spelt out here; whatever else a file holds is kept as it was and written
// back. Field numbers are those of the public schema of ONNX; which of them occur was seen in 157 files
// (../shared/reference/axera.md, 3.1).
//
// All structs hold views: the bytes that they were read from must outlive them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axera/bytes.h"
#include "axera/wire.h"
#include "base/result.h"

namespace npu::axera::onnx {

// Of TensorProto.DataType, those that were seen on inputs and outputs, and their neighbours.
enum class ElementType : std::uint32_t {
    undefined = 0,
    float32 = 1,
    uint8 = 2,
    int8 = 3,
    uint16 = 4,
    int16 = 5,
    int32 = 6,
    int64 = 7,
    boolean = 9,
    float16 = 10,
    float64 = 11,
    uint32 = 12,
    uint64 = 13,
    bfloat16 = 16,
};
const char* element_name(ElementType type);  // "bf16"; "type 99" has no name: "unknown"
unsigned element_bytes(ElementType type);    // 0 when unknown

struct Attribute {
    std::string name;
    std::optional<std::uint64_t> integer;
    std::optional<std::string> text;
    std::optional<std::uint64_t> type;  // of AttributeProto: 2 integer, 3 string
    std::vector<WireField> unknown;
};

struct Node {
    std::vector<std::string> inputs, outputs;
    std::string name, op_type;
    std::vector<Attribute> attributes;
    std::vector<WireField> unknown;

    [[nodiscard]] const Attribute* find(std::string_view attribute) const;
};

struct Tensor {
    std::vector<std::uint64_t> dims;
    std::optional<std::uint64_t> data_type;
    std::string name;
    Bytes raw;               // raw_data
    std::size_t offset = 0;  // of raw_data in the file that was read
    std::vector<WireField> unknown;
};

struct Dimension {
    std::optional<std::uint64_t> value;
    std::string parameter;  // instead of a value
    std::vector<WireField> unknown;
};

struct ValueInfo {
    std::string name;
    bool has_type = false;   // a tensor type stands in the file
    bool has_shape = false;  // and so does a shape
    std::optional<std::uint64_t> element;
    std::vector<Dimension> dims;
    std::vector<WireField> unknown, unknown_type, unknown_tensor_type, unknown_shape;

    [[nodiscard]] ElementType element_type() const { return static_cast<ElementType>(element.value_or(0)); }
};

struct Graph {
    std::vector<Node> nodes;
    std::string name;
    std::vector<Tensor> initializers;
    std::vector<ValueInfo> inputs, outputs, values;
    std::vector<WireField> unknown;

    [[nodiscard]] const Tensor* find_initializer(std::string_view name) const;
    [[nodiscard]] const ValueInfo* find_value(std::string_view name) const;  // inputs, outputs, then values
};

struct OperatorSet {
    std::optional<std::string> domain;
    std::optional<std::uint64_t> version;
    std::vector<WireField> unknown;
};

struct Property {
    std::string key, value;
    std::vector<WireField> unknown;
};

struct Model {
    std::optional<std::uint64_t> ir_version;
    std::string producer_name, doc_string;
    Graph graph;
    std::vector<OperatorSet> operator_sets;
    std::vector<Property> metadata;
    std::vector<WireField> unknown;

    [[nodiscard]] const std::string* find_metadata(std::string_view key) const;
};

// Reads a whole file. Errors: a field that is cut off, a type that no ONNX file has, no graph.
Result<Model> read_model(Bytes file);

// The file of a model. read_model(write_model(m)) has the values of m.
Buffer write_model(const Model& model);

}  // namespace npu::axera::onnx
