#include "axera/extra_data.h"

#include "axera/wire_message.h"

namespace npu::axera {

namespace {

Result<TensorExtra> read_tensor(Bytes message) {
    TensorExtra tensor;
    NPU_TRY(read_fields(message, "extra_data tensor", tensor.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(tensor.name, field);
            case 2: return set(tensor.layout, field);
            case 3: return set(tensor.color_space, field);
            case 4: return set(tensor.enable_stride, field);
            case 5: return set(tensor.group_index, field);
            default: return false;
        }
    }));
    return tensor;
}

Result<ExtraInput> read_input(Bytes message) {
    ExtraInput input;
    NPU_TRY(read_fields(message, "extra_data input", input.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(input.name, field);
            case 2: return set(input.type, field);
            case 3: return set(input.constant_key, field);
            case 10: return set(input.expression_key, field);
            default: return false;
        }
    }));
    return input;
}

Result<ExtraProgram> read_program(Bytes message) {
    ExtraProgram program;
    NPU_TRY(read_fields(message, "extra_data program", program.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(program.key, field);
            case 2: return set(program.batch, field);
            case 3: return append(program.inputs, field, read_input);
            default: return false;
        }
    }));
    return program;
}

Result<ExtraSubgraph> read_subgraph(Bytes message) {
    ExtraSubgraph graph;
    NPU_TRY(read_fields(message, "extra_data subgraph", graph.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return set(graph.name, field);
            case 10: return append(graph.programs, field, read_program);
            default: return false;
        }
    }));
    return graph;
}

Result<BuildInfo> read_build(Bytes message) {
    BuildInfo build;
    NPU_TRY(read_fields(message, "extra_data build", build.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 2: return set(build.max_dynamic_batch, field);
            case 3: return set(build.npu_mode, field);
            default: return false;
        }
    }));
    return build;
}

Buffer write(const TensorExtra& tensor) {
    WireWriter to;
    to.text_if(1, tensor.name);
    to.varint(2, tensor.layout);
    to.varint(3, tensor.color_space);
    to.varint(4, tensor.enable_stride);
    to.varint(5, tensor.group_index);
    to.raw(tensor.unknown);
    return to.take();
}

Buffer write(const ExtraInput& input) {
    WireWriter to;
    to.text_if(1, input.name);
    to.varint(2, input.type);
    to.text_if(3, input.constant_key);
    to.text_if(10, input.expression_key);
    to.raw(input.unknown);
    return to.take();
}

Buffer write(const ExtraProgram& program) {
    WireWriter to;
    to.text_if(1, program.key);
    to.varint(2, program.batch);
    for (const ExtraInput& input : program.inputs) {
        to.bytes(3, write(input));
    }
    to.raw(program.unknown);
    return to.take();
}

Buffer write(const ExtraSubgraph& graph) {
    WireWriter to;
    to.text_if(1, graph.name);
    for (const ExtraProgram& program : graph.programs) {
        to.bytes(10, write(program));
    }
    to.raw(graph.unknown);
    return to.take();
}

}  // namespace

Result<ExtraData> read_extra_data(Bytes message) {
    ExtraData data;
    NPU_TRY(read_fields(message, "extra_data", data.unknown, [&](const WireField& field) -> Result<bool> {
        switch (field.number) {
            case 1: return append(data.tensors, field, read_tensor);
            case 2: return set(data.version, field);
            case 3: return append(data.subgraphs, field, read_subgraph);
            case 4: {
                if (field.type != WireType::bytes || data.build) {
                    return false;
                }
                NPU_ASSIGN(data.build, read_build(field.bytes));
                return true;
            }
            default: return false;
        }
    }));
    return data;
}

Buffer write_extra_data(const ExtraData& data) {
    WireWriter to;
    for (const TensorExtra& tensor : data.tensors) {
        to.bytes(1, write(tensor));
    }
    to.text_if(2, data.version);
    for (const ExtraSubgraph& graph : data.subgraphs) {
        to.bytes(3, write(graph));
    }
    if (data.build) {
        WireWriter build;
        build.varint(2, data.build->max_dynamic_batch);
        build.varint(3, data.build->npu_mode);
        build.raw(data.build->unknown);
        to.bytes(4, build.take());
    }
    to.raw(data.unknown);
    return to.take();
}

}  // namespace npu::axera
