// Models: loading, unloading and what can be asked of them.
#include <algorithm>
#include <cstring>

#include "axera/mock/calls.h"
#include "axera/mock/cost.h"
#include "axera/mock/machine.h"

namespace npu::axera::mock::calls {

namespace {

Error engine_error(std::uint32_t id) { return code(Part::engine, id); }
const Error no_usage = code(Part::memory, what::execute);  // what the real one says when it has nowhere to put the file

bool is_language_model(const ModelFile& file) {
    return std::any_of(file.groups.begin(), file.groups.end(), [](const ShapeGroup& group) {
        return std::any_of(group.inputs.begin(), group.inputs.end(),
                           [](const ModelTensor& tensor) { return tensor.base_name == "K_cache"; });
    });
}

std::uint64_t cmm_of(const ModelFile& file) {
    std::uint64_t bytes = file.command_bytes() + file.constant_bytes();
    for (const Program& program : file.programs) {
        for (const NeuTensor& tensor : program.neu.scratch) {
            bytes += std::min(tensor.bytes, std::uint64_t{1} << 40);
        }
    }
    return (bytes + CardMemory::page - 1) / CardMemory::page * CardMemory::page;
}

int kind_of(const ModelFile& file) {
    return static_cast<int>(file.npu_mode() == 0 ? ModelKind::one_core : ModelKind::three_cores);
}

Error load(Call& call, Card& card, Buffer bytes, std::uint64_t* id) {
    if (call->faults.hits(Fault::load_wedges)) {
        card.wedged = true;
        call->note(format("card %d hangs in a load", card.id));
    }
    if (card.wedged || call->faults.hits(Fault::load_fails)) {
        return engine_error(what::execute);
    }
    if (!card.virtual_npu) {
        call->note("a model is loaded before EngineInit");
        return engine_error(what::execute);
    }
    call->spend(cost::bus_ns(bytes.size()));
    Result<ModelFile> file = parse_model(std::move(bytes));
    if (!file) {
        call->note("the model cannot be loaded: " + file.error().message);
        return engine_error(what::execute);
    }
    if (file->npu_mode() != 0 && *card.virtual_npu != static_cast<int>(VirtualNpu::disable)) {
        call->note("the model takes the whole NPU, which virtual NPUs divide");
        return engine_error(what::execute);
    }
    const bool language_model = is_language_model(*file);
    if (!language_model && card.holds_language_model && call->faults.hits(Fault::mixed_engines_disconnect)) {
        card.connected = false;
        call->note("a model of another kind was loaded after a language model");
        return code(Part::device, what::device_not_connected);
    }
    const std::uint64_t cmm = cmm_of(*file);
    if (!card.memory.reserve(cmm)) {
        return code(Part::memory, what::execute);
    }
    card.holds_language_model = card.holds_language_model || language_model;
    ModelState model;
    model.card = &card;
    model.compiler = file->compiler_version();
    model.file = std::move(file).value();
    model.reserved = cmm;
    *id = call->next_model++;
    call->models[*id] = std::move(model);
    return 0;
}

// The model of a number for a call that asks something: the context comes first, as in the real library.
Error ask(Call& call, std::uint64_t id, ModelState*& model) {
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    model = call->find_model(id, card);
    return model != nullptr ? 0 : engine_error(what::illegal);
}

// A file that is read to be asked about and not kept. Without a context there is no card to read it.
Result<ModelFile> peek(Call& call, const char* path) {
    Card* card = nullptr;
    if (call->current(card) != 0 || card->wedged) {
        return make_error(ErrorCode::device_failure, "no card");
    }
    return read_model_file(path);
}

Result<ModelFile> peek(Call& call, const void* memory, std::uint64_t bytes) {
    Card* card = nullptr;
    if (call->current(card) != 0 || card->wedged) {
        return make_error(ErrorCode::device_failure, "no card");
    }
    const auto found = card->memory.find(reinterpret_cast<Address>(memory), bytes);
    return found ? parse_model(Buffer(found->begin(), found->end()))
                 : Result<ModelFile>(make_error(ErrorCode::invalid_argument, "not memory of the card"));
}

Error answer_usage(const Result<ModelFile>& file, std::int64_t* system, std::int64_t* cmm) {
    if (!file || system == nullptr || cmm == nullptr) {
        return no_usage;
    }
    *system = 0;
    *cmm = static_cast<std::int64_t>(cmm_of(*file));
    return 0;
}

Error answer_kind(const Result<ModelFile>& file, int* kind) {
    if (!file || kind == nullptr) {
        return no_usage;
    }
    *kind = kind_of(*file);
    return 0;
}

}  // namespace

Error axclrtEngineInit(int kind) {
    const Call call;
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    if (kind < 0 || kind > static_cast<int>(VirtualNpu::little_big)) {
        return engine_error(what::illegal);
    }
    if (call->faults.hits(Fault::engine_taken)) {
        card->virtual_npu = static_cast<int>(VirtualNpu::disable);
    }
    if (card->virtual_npu) {
        return engine_error(what::busy);
    }
    card->virtual_npu = kind;
    return 0;
}

Error axclrtEngineGetVNpuKind(int* kind) {
    const Call call;
    if (kind == nullptr) {
        return engine_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    if (!card->virtual_npu) {
        return engine_error(what::fail);
    }
    *kind = *card->virtual_npu;
    return 0;
}

Error axclrtEngineFinalize() {
    const Call call;
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    card->virtual_npu.reset();
    return 0;
}

Error axclrtEngineLoadFromFile(const char* path, std::uint64_t* model) {
    Call call;
    if (path == nullptr || model == nullptr) {
        return engine_error(what::null_pointer);
    }
    Result<Buffer> bytes = read_bytes(path);
    if (!bytes) {
        return engine_error(what::illegal);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        // The real one copies the file to the card first, and says that there is no room for it.
        return error == code(Part::context, what::context_none_bound) ? code(Part::memory, what::execute) : error;
    }
    return load(call, *card, std::move(bytes).value(), model);
}

Error axclrtEngineLoadFromMem(const void* memory, std::uint64_t bytes, std::uint64_t* model) {
    Call call;
    if (memory == nullptr || bytes == 0 || model == nullptr) {
        return engine_error(what::illegal);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    const auto found = card->memory.find(reinterpret_cast<Address>(memory), bytes);
    if (found) {
        return load(call, *card, Buffer(found->begin(), found->end()), model);
    }
    call->note("LoadFromMem wants memory of the card");
    if (call->faults.hits(Fault::load_from_memory_hangs)) {
        const std::uint64_t before = call->reboots;
        Machine& machine = *call;
        machine.released.wait(call.lock(), [&] { return machine.reboots != before; });
        return code(Part::device, what::device_not_connected);
    }
    return code(Part::memory, what::memory_not_of_device);
}

Error axclrtEngineUnload(std::uint64_t id) {
    Call call;
    if (id == 0) {
        return engine_error(what::illegal);
    }
    ModelState* model = nullptr;
    if (const Error error = ask(call, id, model); error != 0) {
        return error;
    }
    model->card->memory.unreserve(model->reserved);
    const auto of_model = [&](const auto& object) { return object.model == id; };
    call->infos.remove_if(of_model);
    call->ios.remove_if(of_model);
    call->models.erase(id);
    return 0;
}

const char* axclrtEngineGetModelCompilerVersion(std::uint64_t id) {
    Call call;
    ModelState* model = nullptr;
    return ask(call, id, model) == 0 ? model->compiler.c_str() : nullptr;
}

Error axclrtEngineSetAffinity(std::uint64_t id, EngineSet set) {
    Call call;
    if (set == 0) {
        return engine_error(what::illegal);
    }
    ModelState* model = nullptr;
    if (const Error error = ask(call, id, model); error != 0) {
        return error;
    }
    model->affinity = set;
    return 0;
}

Error axclrtEngineGetAffinity(std::uint64_t id, EngineSet* set) {
    Call call;
    if (set == nullptr) {
        return engine_error(what::null_pointer);
    }
    ModelState* model = nullptr;
    if (const Error error = ask(call, id, model); error != 0) {
        return error;
    }
    *set = model->affinity;
    return 0;
}

Error axclrtEngineSetContextAffinity(std::uint64_t, std::uint64_t, EngineSet) {
    const Call call;
    return engine_error(what::unsupported);
}

Error axclrtEngineGetContextAffinity(std::uint64_t, std::uint64_t, EngineSet*) {
    const Call call;
    return engine_error(what::unsupported);
}

Error axclrtEngineGetUsage(const char* path, std::int64_t* system, std::int64_t* cmm) {
    Call call;
    return path == nullptr ? engine_error(what::null_pointer) : answer_usage(peek(call, path), system, cmm);
}

Error axclrtEngineGetUsageFromMem(const void* memory, std::uint64_t bytes, std::int64_t* system, std::int64_t* cmm) {
    Call call;
    return memory == nullptr ? engine_error(what::null_pointer) : answer_usage(peek(call, memory, bytes), system, cmm);
}

Error axclrtEngineGetUsageFromModelId(std::uint64_t id, std::int64_t* system, std::int64_t* cmm) {
    Call call;
    ModelState* model = nullptr;
    if (const Error error = ask(call, id, model); error != 0) {
        return error;
    }
    if (system == nullptr || cmm == nullptr) {
        return engine_error(what::null_pointer);
    }
    *system = 0;
    *cmm = static_cast<std::int64_t>(model->reserved);
    return 0;
}

Error axclrtEngineGetModelType(const char* path, int* kind) {
    Call call;
    return path == nullptr ? engine_error(what::null_pointer) : answer_kind(peek(call, path), kind);
}

Error axclrtEngineGetModelTypeFromMem(const void* memory, std::uint64_t bytes, int* kind) {
    Call call;
    return memory == nullptr ? engine_error(what::null_pointer) : answer_kind(peek(call, memory, bytes), kind);
}

Error axclrtEngineGetModelTypeFromModelId(std::uint64_t id, int* kind) {
    Call call;
    ModelState* model = nullptr;
    if (const Error error = ask(call, id, model); error != 0) {
        return error;
    }
    if (kind == nullptr) {
        return engine_error(what::null_pointer);
    }
    *kind = kind_of(model->file);
    return 0;
}

}  // namespace npu::axera::mock::calls
