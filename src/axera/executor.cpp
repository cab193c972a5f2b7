#include "axera/executor.h"

#include <algorithm>
#include <filesystem>

#include "axera/memory_guard.h"
#include "base/log.h"

namespace npu::axera {

namespace {

// Getters that return sizes return the error code itself when they fail; no model comes near these.
constexpr std::uint32_t most_tensors = 1024;
constexpr std::uint64_t most_tensor_bytes = std::uint64_t{1} << 40;
constexpr std::int32_t most_groups = 1024;

axcl::DataType derived_type(const TensorInfo& tensor) {
    std::uint64_t count = 1;
    for (const std::int32_t dim : tensor.dims) {
        count *= static_cast<std::uint64_t>(std::max(dim, 1));
    }
    if (tensor.bytes % count != 0) {
        return axcl::DataType::none;
    }
    switch (tensor.bytes / count) {
        case 1: return axcl::DataType::uint8;
        case 2: return axcl::DataType::bf16;
        case 4: return tensor.name.rfind("indices", 0) == 0 ? axcl::DataType::uint32 : axcl::DataType::fp32;
        default: return axcl::DataType::none;
    }
}

}  // namespace

Error Executor::failed(axcl::Error error, const std::string& call) const {
    return axcl::make_axcl_error(error, call + " of " + path_ + " on card " + std::to_string(card_->id()));
}

Result<std::unique_ptr<Executor>> Executor::load(std::shared_ptr<Card> card, const std::string& path) {
    std::error_code missing;
    const std::uintmax_t bytes = std::filesystem::file_size(path, missing);
    if (missing) {
        return make_error(ErrorCode::not_found, "cannot open '%s': %s", path.c_str(), missing.message().c_str());
    }
    std::unique_ptr<Executor> executor(new Executor(std::move(card), path));
    if (const Result<CardInfo> info = executor->card_->info()) {
        NPU_TRY(check_memory({bytes, 0, 0}, *info));
    }
    NPU_ASSIGN(const auto held, executor->card_->hold());
    const axcl::Functions& axcl = executor->card_->functions();
    if (const axcl::Error error = axcl.axclrtEngineLoadFromFile(path.c_str(), &executor->model_); error != 0) {
        executor->model_ = 0;
        const Result<CardInfo> info = executor->card_->info();
        return executor->failed(
            error,
            format("axclrtEngineLoadFromFile (%llu bytes%s)", static_cast<unsigned long long>(bytes),
                   info && info->total_cmm != 0
                       ? format(", %llu MiB of CMM free", static_cast<unsigned long long>(info->free_cmm >> 20)).c_str()
                       : ""));
    }
    if (const axcl::Error error = axcl.axclrtEngineCreateContext(executor->model_, &executor->context_); error != 0) {
        return executor->failed(error, "axclrtEngineCreateContext");
    }
    NPU_TRY(executor->describe());
    return executor;
}

Executor::~Executor() {
    const auto held = card_->hold();
    if (!held) {
        return;
    }
    const axcl::Functions& axcl = card_->functions();
    if (stream_ != nullptr) {
        axcl.axclrtDestroyStream(stream_);
    }
    for (Group& group : groups_) {
        if (group.io != nullptr) {
            axcl.axclrtEngineDestroyIO(group.io);
        }
    }
    groups_.clear();
    if (info_ != nullptr) {
        axcl.axclrtEngineDestroyIOInfo(info_);
    }
    if (model_ != 0) {
        if (const axcl::Error error = axcl.axclrtEngineUnload(model_); error != 0) {
            log(LogLevel::warning, "axclrtEngineUnload of %s: %s", path_.c_str(), axcl::error_text(error).c_str());
        }
    }
}

Result<TensorInfo> Executor::describe_tensor(bool input, std::uint32_t group, std::uint32_t index) const {
    const axcl::Functions& axcl = card_->functions();
    TensorInfo tensor;
    const char* name =
        (input ? axcl.axclrtEngineGetInputNameByIndex : axcl.axclrtEngineGetOutputNameByIndex)(info_, index);
    tensor.name = name != nullptr ? name : "";
    tensor.bytes =
        (input ? axcl.axclrtEngineGetInputSizeByIndex : axcl.axclrtEngineGetOutputSizeByIndex)(info_, group, index);
    if (tensor.bytes == 0 || tensor.bytes > most_tensor_bytes) {
        return make_error(ErrorCode::device_failure,
                          "%s: the card reports 0x%llx bytes for %s %u ('%s') of shape group %u", path_.c_str(),
                          static_cast<unsigned long long>(tensor.bytes), input ? "input" : "output", index,
                          tensor.name.c_str(), group);
    }
    axcl::Dims dims;
    const axcl::Error error =
        (input ? axcl.axclrtEngineGetInputDims : axcl.axclrtEngineGetOutputDims)(info_, group, index, &dims);
    if (error != 0 || dims.count < 0 || dims.count > static_cast<std::int32_t>(axcl::most_dims)) {
        return failed(error, format("shape of '%s' (%d dimensions)", tensor.name.c_str(), dims.count));
    }
    tensor.dims.assign(dims.dims, dims.dims + dims.count);
    int type = 0;
    if ((input ? axcl.axclrtEngineGetInputDataType : axcl.axclrtEngineGetOutputDataType)(info_, index, &type) == 0 &&
        type > 0 && type <= static_cast<int>(axcl::DataType::fp64)) {
        tensor.type = static_cast<axcl::DataType>(type);
    } else {
        tensor.type = derived_type(tensor);
        tensor.type_derived = true;
    }
    return tensor;
}

Result<void> Executor::describe() {
    const axcl::Functions& axcl = card_->functions();
    if (const axcl::Error error = axcl.axclrtEngineGetIOInfo(model_, &info_); error != 0) {
        info_ = nullptr;
        return failed(error, "axclrtEngineGetIOInfo");
    }
    std::int32_t count = 0;
    if (const axcl::Error error = axcl.axclrtEngineGetShapeGroupsCount(info_, &count); error != 0) {
        return failed(error, "axclrtEngineGetShapeGroupsCount");
    }
    const std::uint32_t inputs = axcl.axclrtEngineGetNumInputs(info_);
    const std::uint32_t outputs = axcl.axclrtEngineGetNumOutputs(info_);
    if (count < 1 || count > most_groups || inputs > most_tensors || outputs > most_tensors) {
        return make_error(ErrorCode::device_failure,
                          "%s: the card reports %d shape groups, 0x%x inputs and 0x%x outputs", path_.c_str(), count,
                          inputs, outputs);
    }
    if (axcl.axclrtEngineGetModelCompilerVersion != nullptr) {
        const char* version = axcl.axclrtEngineGetModelCompilerVersion(model_);
        compiler_ = version != nullptr ? version : "";
    }
    for (std::uint32_t g = 0; g < static_cast<std::uint32_t>(count); ++g) {
        Group group;
        for (std::uint32_t i = 0; i < inputs; ++i) {
            NPU_ASSIGN(TensorInfo tensor, describe_tensor(true, g, i));
            group.inputs.push_back(std::move(tensor));
        }
        for (std::uint32_t i = 0; i < outputs; ++i) {
            NPU_ASSIGN(TensorInfo tensor, describe_tensor(false, g, i));
            group.outputs.push_back(std::move(tensor));
        }
        groups_.push_back(std::move(group));
    }
    return {};
}

Result<void> Executor::prepare(std::size_t number) {
    if (number >= groups_.size()) {
        return make_error(ErrorCode::invalid_argument, "shape group %zu of %s, which has %zu (counted from 0)", number,
                          path_.c_str(), groups_.size());
    }
    Group& group = groups_[number];
    if (group.io != nullptr) {
        return {};
    }
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Functions& axcl = card_->functions();
    std::vector<DeviceMemory> inputs;
    std::vector<DeviceMemory> outputs;
    for (const bool input : {true, false}) {
        for (const TensorInfo& tensor : input ? group.inputs : group.outputs) {
            NPU_ASSIGN(DeviceMemory memory, DeviceMemory::allocate(card_, tensor.bytes));
            NPU_TRY(memory.fill(0));
            (input ? inputs : outputs).push_back(std::move(memory));
        }
    }
    axcl::Io io = nullptr;
    if (const axcl::Error error = axcl.axclrtEngineCreateIO(info_, &io); error != 0) {
        return failed(error, "axclrtEngineCreateIO");
    }
    for (const bool input : {true, false}) {
        const auto& buffers = input ? inputs : outputs;
        for (std::uint32_t i = 0; i < buffers.size(); ++i) {
            const axcl::Error error =
                (input ? axcl.axclrtEngineSetInputBufferByIndex : axcl.axclrtEngineSetOutputBufferByIndex)(
                    io, i, buffers[i].address(), buffers[i].size());
            if (error != 0) {
                axcl.axclrtEngineDestroyIO(io);
                return failed(error, "binding '" + (input ? group.inputs : group.outputs)[i].name + "'");
            }
        }
    }
    group.input_buffers = std::move(inputs);
    group.output_buffers = std::move(outputs);
    group.io = io;
    return {};
}

Result<const Executor::Group*> Executor::prepared(std::size_t group) const {
    if (group >= groups_.size() || groups_[group].io == nullptr) {
        return make_error(ErrorCode::invalid_argument,
                          "shape group %zu of %s has no buffers; prepare it first (it has %zu)", group, path_.c_str(),
                          groups_.size());
    }
    return &groups_[group];
}

Result<std::size_t> Executor::find(const std::vector<TensorInfo>& tensors, const std::string& name,
                                   std::size_t group) const {
    const std::string suffixed = name + "_" + std::to_string(group);
    std::string names;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].name == name || tensors[i].name == suffixed) {
            return i;
        }
        names += (i == 0 ? "" : ", ") + tensors[i].name;
    }
    return make_error(ErrorCode::not_found, "%s has no tensor '%s'; there are: %s", path_.c_str(), name.c_str(),
                      names.c_str());
}

Result<void> Executor::write(std::size_t number, const std::string& input, Bytes from) {
    NPU_ASSIGN(const Group* group, prepared(number));
    NPU_ASSIGN(const std::size_t index, find(group->inputs, input, number));
    if (from.size() != group->inputs[index].bytes) {
        return make_error(ErrorCode::invalid_argument, "'%s' of shape group %zu takes %llu bytes, not %zu",
                          input.c_str(), number, static_cast<unsigned long long>(group->inputs[index].bytes),
                          from.size());
    }
    return groups_[number].input_buffers[index].write(from);
}

Result<void> Executor::read(std::size_t number, const std::string& output, std::span<std::uint8_t> to) const {
    NPU_ASSIGN(const Group* group, prepared(number));
    NPU_ASSIGN(const std::size_t index, find(group->outputs, output, number));
    if (to.size() != group->outputs[index].bytes) {
        return make_error(ErrorCode::invalid_argument, "'%s' of shape group %zu gives %llu bytes, not %zu",
                          output.c_str(), number, static_cast<unsigned long long>(group->outputs[index].bytes),
                          to.size());
    }
    return group->output_buffers[index].read(to);
}

Result<void> Executor::run(std::size_t number) {
    NPU_ASSIGN(const Group* group, prepared(number));
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Error error =
        card_->functions().axclrtEngineExecute(model_, context_, static_cast<std::uint32_t>(number), group->io);
    return error == 0 ? Result<void>() : failed(error, format("axclrtEngineExecute, shape group %zu,", number));
}

Result<void> Executor::start(std::size_t number) {
    NPU_ASSIGN(const Group* group, prepared(number));
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Functions& axcl = card_->functions();
    if (axcl.axclrtCreateStream == nullptr || axcl.axclrtDestroyStream == nullptr ||
        axcl.axclrtSynchronizeStream == nullptr || axcl.axclrtEngineExecuteAsync == nullptr) {
        return make_error(ErrorCode::unsupported, "this AXCL runtime has no streams; run the model and wait instead");
    }
    if (stream_ == nullptr) {
        if (const axcl::Error error = axcl.axclrtCreateStream(&stream_); error != 0) {
            stream_ = nullptr;
            return failed(error, "axclrtCreateStream");
        }
    }
    const axcl::Error error =
        axcl.axclrtEngineExecuteAsync(model_, context_, static_cast<std::uint32_t>(number), group->io, stream_);
    return error == 0 ? Result<void>() : failed(error, format("axclrtEngineExecuteAsync, shape group %zu,", number));
}

Result<void> Executor::wait() {
    if (stream_ == nullptr) {
        return {};
    }
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Error error = card_->functions().axclrtSynchronizeStream(stream_);
    return error == 0 ? Result<void>() : failed(error, "axclrtSynchronizeStream");
}

}  // namespace npu::axera
