// What does the metadata entry "extra_data" say? It is a protobuf message in base64 that the card's runtime reads
// beside the graph: how each input and output is laid out and to which shape group it belongs, which constants each
// program takes, and for how many of the NPU's engines the model was built. Field numbers:
// ../shared/reference/axera.md, 3.2. What is not spelt out here is kept and written back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axera/wire.h"
#include "base/result.h"

namespace npu::axera {

struct TensorExtra {
    std::string name;
    std::optional<std::uint64_t> layout, color_space, enable_stride, group_index;
    std::vector<WireField> unknown;
};

struct ExtraInput {  // what a program takes beside its tensors
    std::string name;
    std::optional<std::uint64_t> type;  // absent: constant, 2: parameters computed at run time
    std::string constant_key, expression_key;
    std::vector<WireField> unknown;
};

struct ExtraProgram {
    std::string key;
    std::optional<std::uint64_t> batch;
    std::vector<ExtraInput> inputs;
    std::vector<WireField> unknown;
};

struct ExtraSubgraph {
    std::string name;
    std::vector<ExtraProgram> programs;
    std::vector<WireField> unknown;
};

struct BuildInfo {
    std::optional<std::uint64_t> max_dynamic_batch, npu_mode;  // mode: absent or 0: NPU1, 2: NPU3
    std::vector<WireField> unknown;
};

// Views into the decoded bytes, which must outlive it.
struct ExtraData {
    std::vector<TensorExtra> tensors;
    std::string version;
    std::vector<ExtraSubgraph> subgraphs;
    std::optional<BuildInfo> build;
    std::vector<WireField> unknown;
};

Result<ExtraData> read_extra_data(Bytes message);
Buffer write_extra_data(const ExtraData& data);

}  // namespace npu::axera
