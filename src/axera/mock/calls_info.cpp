// What a model takes and gives. Names and types belong to all shape groups, sizes and shapes to one.
#include <algorithm>

#include "axera/mock/calls.h"
#include "axera/mock/machine.h"

namespace npu::axera::mock::calls {

namespace {

Error engine_error(std::uint32_t id) { return code(Part::engine, id); }

enum class Side { input, output };

const std::vector<ModelTensor>& tensors_of(const ShapeGroup& group, Side side) {
    return side == Side::input ? group.inputs : group.outputs;
}

// The model behind an info; the code says what is wrong with the handle.
Error model_of(Call& call, IoInfo info, const ModelFile*& file) {
    if (info == nullptr) {
        return engine_error(what::null_pointer);
    }
    const InfoState* state = call->infos.find(info);
    const auto model = state != nullptr ? call->models.find(state->model) : call->models.end();
    if (model == call->models.end()) {
        return engine_error(what::illegal);
    }
    file = &model->second.file;
    return 0;
}

Error tensor_of(Call& call, IoInfo info, Side side, std::uint32_t group, std::uint32_t index,
                const ModelTensor*& tensor) {
    const ModelFile* file = nullptr;
    if (const Error error = model_of(call, info, file); error != 0) {
        return error;
    }
    if (group >= file->groups.size() || index >= tensors_of(file->groups[group], side).size()) {
        return engine_error(what::engine_invalid_index);
    }
    tensor = &tensors_of(file->groups[group], side)[index];
    return 0;
}

std::uint32_t count_of(IoInfo info, Side side) {
    Call call;
    const ModelFile* file = nullptr;
    const Error error = model_of(call, info, file);
    return error != 0 ? static_cast<std::uint32_t>(error)
                      : static_cast<std::uint32_t>(tensors_of(file->groups.front(), side).size());
}

std::uint64_t size_of(IoInfo info, Side side, std::uint32_t group, std::uint32_t index) {
    Call call;
    const ModelTensor* tensor = nullptr;
    const Error error = tensor_of(call, info, side, group, index, tensor);
    return error != 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(error)) : tensor->bytes;
}

const char* name_of(IoInfo info, Side side, std::uint32_t index) {
    Call call;
    const ModelTensor* tensor = nullptr;
    return tensor_of(call, info, side, 0, index, tensor) == 0 ? tensor->name.c_str() : nullptr;
}

std::int32_t index_of(IoInfo info, Side side, const char* name) {
    Call call;
    const ModelFile* file = nullptr;
    if (const Error error = model_of(call, info, file); error != 0) {
        return error;
    }
    if (name == nullptr) {
        return engine_error(what::null_pointer);
    }
    const auto& tensors = tensors_of(file->groups.front(), side);
    const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const ModelTensor& t) { return t.name == name; });
    return at == tensors.end() ? engine_error(what::engine_invalid_index)
                               : static_cast<std::int32_t>(at - tensors.begin());
}

Error dims_of(IoInfo info, Side side, std::uint32_t group, std::uint32_t index, Dims* dims) {
    Call call;
    const ModelTensor* tensor = nullptr;
    if (const Error error = tensor_of(call, info, side, group, index, tensor); error != 0) {
        return error;
    }
    if (dims == nullptr) {
        return engine_error(what::null_pointer);
    }
    *dims = {};
    for (const std::uint64_t dim : tensor->dims) {
        if (dims->count < static_cast<std::int32_t>(most_dims)) {
            dims->dims[dims->count++] = static_cast<std::int32_t>(dim);
        }
    }
    return 0;
}

DataType data_type_of(onnx::ElementType type) {
    using enum onnx::ElementType;
    switch (type) {
        case float32: return DataType::fp32;
        case float64: return DataType::fp64;
        case float16: return DataType::fp16;
        case bfloat16: return DataType::bf16;
        case int8: return DataType::int8;
        case uint8: return DataType::uint8;
        case int16: return DataType::int16;
        case uint16: return DataType::uint16;
        case int32: return DataType::int32;
        case uint32: return DataType::uint32;
        case int64: return DataType::int64;
        case uint64: return DataType::uint64;
        default: return DataType::none;
    }
}

Error type_of(IoInfo info, Side side, std::uint32_t index, int* type) {
    Call call;
    const ModelTensor* tensor = nullptr;
    if (const Error error = tensor_of(call, info, side, 0, index, tensor); error != 0) {
        return error;
    }
    if (type == nullptr) {
        return engine_error(what::null_pointer);
    }
    *type = static_cast<int>(call->faults.hits(Fault::types_unknown) ? DataType::none : data_type_of(tensor->type));
    return 0;
}

Error layout_of(IoInfo info, Side side, std::uint32_t index, int* layout) {
    Call call;
    const ModelTensor* tensor = nullptr;
    if (const Error error = tensor_of(call, info, side, 0, index, tensor); error != 0) {
        return error;
    }
    if (layout == nullptr) {
        return engine_error(what::null_pointer);
    }
    *layout = static_cast<int>(DataLayout::none);
    return 0;
}

}  // namespace

Error axclrtEngineGetIOInfo(std::uint64_t id, IoInfo* info) {
    Call call;
    if (info == nullptr) {
        return engine_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    if (call->find_model(id, card) == nullptr) {
        return engine_error(what::illegal);
    }
    *info = call->infos.add({id});
    return 0;
}

Error axclrtEngineDestroyIOInfo(IoInfo info) {
    const Call call;
    if (info == nullptr) {
        return engine_error(what::null_pointer);
    }
    return call->infos.remove(info) ? 0 : engine_error(what::illegal);
}

Error axclrtEngineGetShapeGroupsCount(IoInfo info, std::int32_t* count) {
    Call call;
    const ModelFile* file = nullptr;
    if (const Error error = model_of(call, info, file); error != 0) {
        return error;
    }
    if (count == nullptr) {
        return engine_error(what::null_pointer);
    }
    *count = static_cast<std::int32_t>(file->groups.size());
    return 0;
}

std::uint32_t axclrtEngineGetNumInputs(IoInfo info) { return count_of(info, Side::input); }
std::uint32_t axclrtEngineGetNumOutputs(IoInfo info) { return count_of(info, Side::output); }
std::uint64_t axclrtEngineGetInputSizeByIndex(IoInfo info, std::uint32_t group, std::uint32_t index) {
    return size_of(info, Side::input, group, index);
}
std::uint64_t axclrtEngineGetOutputSizeByIndex(IoInfo info, std::uint32_t group, std::uint32_t index) {
    return size_of(info, Side::output, group, index);
}
const char* axclrtEngineGetInputNameByIndex(IoInfo info, std::uint32_t index) {
    return name_of(info, Side::input, index);
}
const char* axclrtEngineGetOutputNameByIndex(IoInfo info, std::uint32_t index) {
    return name_of(info, Side::output, index);
}
std::int32_t axclrtEngineGetInputIndexByName(IoInfo info, const char* name) {
    return index_of(info, Side::input, name);
}
std::int32_t axclrtEngineGetOutputIndexByName(IoInfo info, const char* name) {
    return index_of(info, Side::output, name);
}
Error axclrtEngineGetInputDims(IoInfo info, std::uint32_t group, std::uint32_t index, Dims* dims) {
    return dims_of(info, Side::input, group, index, dims);
}
Error axclrtEngineGetOutputDims(IoInfo info, std::uint32_t group, std::uint32_t index, Dims* dims) {
    return dims_of(info, Side::output, group, index, dims);
}
Error axclrtEngineGetInputDataType(IoInfo info, std::uint32_t index, int* type) {
    return type_of(info, Side::input, index, type);
}
Error axclrtEngineGetOutputDataType(IoInfo info, std::uint32_t index, int* type) {
    return type_of(info, Side::output, index, type);
}
Error axclrtEngineGetInputDataLayout(IoInfo info, std::uint32_t index, int* layout) {
    return layout_of(info, Side::input, index, layout);
}
Error axclrtEngineGetOutputDataLayout(IoInfo info, std::uint32_t index, int* layout) {
    return layout_of(info, Side::output, index, layout);
}

}  // namespace npu::axera::mock::calls
