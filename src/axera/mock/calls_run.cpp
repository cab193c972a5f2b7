// Binding buffers to the tensors of a model, and running it.
#include <algorithm>

#include "axera/mock/calls.h"
#include "axera/mock/compute.h"
#include "axera/mock/cost.h"
#include "axera/mock/machine.h"

namespace npu::axera::mock::calls {

namespace {

Error engine_error(std::uint32_t id) { return code(Part::engine, id); }

using Side = std::vector<Bound> IoState::*;

Error io_of(Call& call, Io io, IoState*& state) {
    if (io == nullptr) {
        return engine_error(what::null_pointer);
    }
    state = call->ios.find(io);
    return state != nullptr ? 0 : engine_error(what::illegal);
}

Error set_buffer(Io io, Side side, std::uint32_t index, const void* address, std::uint64_t bytes) {
    Call call;
    IoState* state = nullptr;
    if (const Error error = io_of(call, io, state); error != 0) {
        return error;
    }
    if (index >= (state->*side).size()) {
        return engine_error(what::engine_invalid_index);
    }
    if (address == nullptr) {
        return engine_error(what::null_pointer);
    }
    (state->*side)[index] = {reinterpret_cast<Address>(address), bytes, true};
    return 0;
}

Error set_buffer(Io io, Side side, const char* name, const void* address, std::uint64_t bytes) {
    std::uint32_t index = 0;
    {
        Call call;
        IoState* state = nullptr;
        if (const Error error = io_of(call, io, state); error != 0) {
            return error;
        }
        if (name == nullptr) {
            return engine_error(what::null_pointer);
        }
        const ShapeGroup& group = call->models.at(state->model).file.groups.front();
        for (const ModelTensor& tensor : side == &IoState::inputs ? group.inputs : group.outputs) {
            if (tensor.name == name) {
                break;
            }
            ++index;
        }
    }
    return set_buffer(io, side, index, address, bytes);
}

Error get_buffer(Io io, Side side, std::uint32_t index, void** address, std::uint64_t* bytes) {
    Call call;
    IoState* state = nullptr;
    if (const Error error = io_of(call, io, state); error != 0) {
        return error;
    }
    if (index >= (state->*side).size()) {
        return engine_error(what::engine_invalid_index);
    }
    if (address == nullptr || bytes == nullptr) {
        return engine_error(what::null_pointer);
    }
    *address = reinterpret_cast<void*>((state->*side)[index].address);  // NOLINT(performance-no-int-to-ptr)
    *bytes = (state->*side)[index].bytes;
    return 0;
}

bool overlap(const Bound& a, const Bound& b) {
    return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

// What is wrong with one tensor's buffer, or nothing.
std::string fault_of(Card& card, const ModelTensor& tensor, const Bound& bound) {
    if (!bound.set) {
        return "'" + tensor.name + "' has no buffer";
    }
    if (bound.bytes != tensor.bytes) {
        return format("'%s' takes %llu bytes in this shape group and the buffer has %llu", tensor.name.c_str(),
                      static_cast<unsigned long long>(tensor.bytes), static_cast<unsigned long long>(bound.bytes));
    }
    if (!card.memory.find(bound.address, bound.bytes)) {
        return format("the buffer of '%s' is not inside one allocation of card %d", tensor.name.c_str(), card.id);
    }
    return {};
}

std::string fault_of(Card& card, const ShapeGroup& group, const IoState& io) {
    for (std::size_t i = 0; i < group.inputs.size(); ++i) {
        if (std::string fault = fault_of(card, group.inputs[i], io.inputs[i]); !fault.empty()) {
            return fault;
        }
    }
    for (std::size_t i = 0; i < group.outputs.size(); ++i) {
        if (std::string fault = fault_of(card, group.outputs[i], io.outputs[i]); !fault.empty()) {
            return fault;
        }
        for (std::size_t other = 0; other < io.inputs.size() + i; ++other) {
            const bool is_input = other < io.inputs.size();
            const std::size_t index = is_input ? other : other - io.inputs.size();
            if (overlap(io.outputs[i], is_input ? io.inputs[index] : io.outputs[index])) {
                return "the buffer of '" + group.outputs[i].name + "' overlaps that of '" +
                       (is_input ? group.inputs : group.outputs)[index].name + "'";
            }
        }
    }
    return {};
}

Error execute(Machine& machine, Card& card, std::uint64_t id, std::uint32_t group_index, Io io) {
    const ModelState* model = machine.find_model(id, &card);
    const IoState* state = machine.ios.find(io);
    if (model == nullptr || state == nullptr || state->model != id) {
        return engine_error(what::illegal);
    }
    const ShapeGroup& group = model->file.groups[group_index];
    if (const std::string fault = fault_of(card, group, *state); !fault.empty()) {
        machine.note("run refused: " + fault);
        return engine_error(what::illegal);
    }
    if (card.wedged || machine.faults.hits(Fault::execute_fails)) {
        return engine_error(what::execute);
    }
    Run run{model->file, group_index, {}, {}};
    std::uint64_t touched = model->file.constant_bytes() + model->file.command_bytes() / model->file.programs.size();
    const bool ignore_offsets = machine.faults.hits(Fault::offset_binding_ignored);
    for (std::size_t i = 0; i < group.inputs.size(); ++i) {
        const Bound& bound = state->inputs[i];
        const Address address = ignore_offsets ? card.memory.start_of(bound.address).value() : bound.address;
        if (const std::uint64_t missing = card.memory.unwritten(address, bound.bytes); missing != 0) {
            machine.note(format("the run reads %llu bytes of '%s' that were never written",
                                static_cast<unsigned long long>(missing), group.inputs[i].name.c_str()));
        }
        run.inputs.emplace_back(*card.memory.find(address, bound.bytes));
        touched += bound.bytes;
    }
    for (const Bound& bound : state->outputs) {
        run.outputs.push_back(*card.memory.find(bound.address, bound.bytes));
        touched += bound.bytes;
    }
    compute(run);
    for (const Bound& bound : state->outputs) {
        card.memory.mark_written(bound.address, bound.bytes);
    }
    ++machine.counters.executions;
    machine.spend(cost::execute_ns + cost::memory_ns(touched));
    return 0;
}

// What can be said of a run before it starts.
Error check_run(Call& call, std::uint64_t id, std::uint64_t context, std::uint32_t group, Io io, Card*& card) {
    if (io == nullptr) {
        return engine_error(what::null_pointer);
    }
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    const ModelState* model = call->find_model(id, card);
    if (model == nullptr || model->contexts.count(context) == 0 || call->ios.find(io) == nullptr) {
        return engine_error(what::illegal);
    }
    return group < model->file.groups.size() ? 0 : engine_error(what::engine_invalid_index);
}

}  // namespace

Error axclrtEngineCreateIO(IoInfo info, Io* io) {
    Call call;
    if (info == nullptr || io == nullptr) {
        return engine_error(what::null_pointer);
    }
    const InfoState* state = call->infos.find(info);
    if (state == nullptr) {
        return engine_error(what::illegal);
    }
    const ShapeGroup& group = call->models.at(state->model).file.groups.front();
    *io = call->ios.add(
        {state->model, std::vector<Bound>(group.inputs.size()), std::vector<Bound>(group.outputs.size())});
    return 0;
}

Error axclrtEngineDestroyIO(Io io) {
    const Call call;
    if (io == nullptr) {
        return engine_error(what::null_pointer);
    }
    return call->ios.remove(io) ? 0 : engine_error(what::illegal);
}

Error axclrtEngineSetInputBufferByIndex(Io io, std::uint32_t index, const void* address, std::uint64_t bytes) {
    return set_buffer(io, &IoState::inputs, index, address, bytes);
}
Error axclrtEngineSetOutputBufferByIndex(Io io, std::uint32_t index, const void* address, std::uint64_t bytes) {
    return set_buffer(io, &IoState::outputs, index, address, bytes);
}
Error axclrtEngineSetInputBufferByName(Io io, const char* name, const void* address, std::uint64_t bytes) {
    return set_buffer(io, &IoState::inputs, name, address, bytes);
}
Error axclrtEngineSetOutputBufferByName(Io io, const char* name, const void* address, std::uint64_t bytes) {
    return set_buffer(io, &IoState::outputs, name, address, bytes);
}
Error axclrtEngineGetInputBufferByIndex(Io io, std::uint32_t index, void** address, std::uint64_t* bytes) {
    return get_buffer(io, &IoState::inputs, index, address, bytes);
}
Error axclrtEngineGetOutputBufferByIndex(Io io, std::uint32_t index, void** address, std::uint64_t* bytes) {
    return get_buffer(io, &IoState::outputs, index, address, bytes);
}

Error axclrtEngineSetDynamicBatchSize(Io io, std::uint32_t batch) {
    Call call;
    IoState* state = nullptr;
    if (const Error error = io_of(call, io, state); error != 0) {
        return error;
    }
    return batch == 1 ? 0 : engine_error(what::unsupported);  // no known model has more
}

Error axclrtEngineCreateContext(std::uint64_t id, std::uint64_t* context) {
    Call call;
    if (context == nullptr) {
        return engine_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    ModelState* model = call->find_model(id, card);
    if (model == nullptr) {
        return engine_error(what::illegal);
    }
    *context = call->next_engine_context++;
    model->contexts.insert(*context);
    return 0;
}

Error axclrtEngineExecute(std::uint64_t model, std::uint64_t context, std::uint32_t group, Io io) {
    Call call;
    Card* card = nullptr;
    if (const Error error = check_run(call, model, context, group, io, card); error != 0) {
        return error;
    }
    return execute(*call, *card, model, group, io);
}

Error axclrtEngineExecuteAsync(std::uint64_t model, std::uint64_t context, std::uint32_t group, Io io, Stream stream) {
    Call call;
    Card* card = nullptr;
    if (const Error error = check_run(call, model, context, group, io, card); error != 0) {
        return error;
    }
    if (stream == nullptr) {
        return execute(*call, *card, model, group, io);
    }
    StreamState* state = call->streams.find(stream);
    if (state == nullptr || state->card != card) {
        return code(Part::stream, what::illegal);
    }
    state->pending.emplace_back(
        [machine = &*call, card, model, group, io] { return execute(*machine, *card, model, group, io); });
    return 0;
}

}  // namespace npu::axera::mock::calls
