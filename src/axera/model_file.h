// What is in an .axmodel? This puts the layers together: the ONNX envelope (onnx.h), the metadata (extra_data.h), the
// compiled programs (neu.h), and the shape groups that a caller chooses from when it runs the model.
//
// A shape group is one set of input and output shapes that the model was compiled for. A model for language has several
// (one to decode a token, others to take a prompt in chunks); each is a node of the graph with a program of its own,
// and all share one blob of constants. Tensors of later groups may carry the group's number as a suffix: mask, mask_1.
// A graph whose nodes feed each other (a network with parts on the CPU) is one group: its own inputs and outputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axera/extra_data.h"
#include "axera/neu.h"
#include "axera/onnx.h"

namespace npu::axera {

struct ModelTensor {
    std::string name;       // as in the graph
    std::string base_name;  // without the suffix of its group
    onnx::ElementType type = onnx::ElementType::undefined;
    std::vector<std::uint64_t> dims;  // empty when unknown
    std::uint64_t bytes = 0;          // as the program says; else of type and dims; 0 when neither is known
};

// A compiled program and where it stands.
struct Program {
    std::string key;              // name of its initializer
    std::size_t initializer = 0;  // index in the graph
    Neu neu;
};

struct ProgramInput {  // what a node adds to its tensors, from "npu_graph_info"
    std::string name, type, constant_key, expression_key;
};

struct ShapeGroup {
    std::string name;  // of the node
    std::vector<ModelTensor> inputs, outputs;
    std::vector<std::size_t> programs;  // indices; more than one: several batch sizes, or a graph of several nodes
    std::vector<ProgramInput> extra_inputs;
};

// A file and views into it. Moves, but does not copy.
struct ModelFile {
    Buffer bytes;
    onnx::Model onnx;
    Buffer extra_bytes;
    std::optional<ExtraData> extra;
    std::vector<Program> programs;
    std::vector<ShapeGroup> groups;

    ModelFile() = default;
    ModelFile(ModelFile&&) = default;
    ModelFile& operator=(ModelFile&&) = default;
    ModelFile(const ModelFile&) = delete;
    ModelFile& operator=(const ModelFile&) = delete;

    [[nodiscard]] std::string compiler_version() const;  // "3.1", from the document string; empty when it has none
    [[nodiscard]] std::uint64_t command_bytes() const;   // CMM that the images of all programs take
    [[nodiscard]] std::uint64_t constant_bytes() const;  // of the initializers that are no programs
    [[nodiscard]] std::uint8_t npu_mode() const;         // the largest of all programs
};

// Reads a model. Every error names what is wrong; nothing of the file is trusted.
Result<ModelFile> parse_model(Buffer bytes);

// The same from a file.
Result<ModelFile> read_model_file(const std::string& path);

// The bytes of a file; an error that names it.
Result<Buffer> read_bytes(const std::string& path);

// The model with every segment unpacked and packed again and every program written anew by our writers.
Result<Buffer> rebuild_model(const ModelFile& model);

// What differs between the values of two models, as "programs[0].symbols", or empty when they are equivalent: the same
// envelope, tensors, symbols, descriptors (but for places and packed sizes) and records.
std::string difference(const ModelFile& a, const ModelFile& b);

}  // namespace npu::axera
