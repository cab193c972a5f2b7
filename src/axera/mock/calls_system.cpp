// Library, devices, contexts, streams, events.
#include <csignal>
#include <cstdio>
#include <cstring>

#include "axera/mock/calls.h"
#include "axera/mock/cost.h"
#include "axera/mock/machine.h"

namespace npu::axera::mock::calls {

namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t idle_cmm_bytes = std::uint64_t{18} << 20;  // what an idle card of 8 GB has in use

Error context_error(std::uint32_t id) { return code(Part::context, id); }
Error stream_error(std::uint32_t id) { return code(Part::stream, id); }
Error device_error(std::uint32_t id) { return code(Part::device, id); }

// Does what waits in a stream; the first failure is the answer, what comes behind it is dropped.
Error drain(StreamState& stream) {
    while (!stream.pending.empty()) {
        const auto work = std::move(stream.pending.front());
        stream.pending.pop_front();
        if (const Error error = work(); error != 0) {
            stream.pending.clear();
            return error;
        }
    }
    return 0;
}

}  // namespace

Error axclInit(const char* config) {
    const Call call;
    if (!call->settings.driver) {
        return device_error(what::open);
    }
    if (call->cards.empty()) {
        return device_error(what::device_not_connected);
    }
    if (config != nullptr) {
        if (std::FILE* file = std::fopen(config, "r")) {
            std::fclose(file);
        } else {
            return code(Part::config, what::open);
        }
    }
    return 0;
}

Error axclFinalize() {
    const Call call;
    for (const auto& card : call->cards) {
        call->tear_down(*card, false);
    }
    ++call->reboots;  // nothing hangs for longer than the library lives
    call->released.notify_all();
    return 0;
}

Error axclSetLogLevel(std::int32_t) {
    const Call call;
    return 0;
}

Error axclrtGetVersion(std::int32_t* major, std::int32_t* minor, std::int32_t* patch) {
    const Call call;
    if (major == nullptr || minor == nullptr || patch == nullptr) {
        return what::null_pointer;
    }
    *major = 3;
    *minor = 10;
    *patch = 2;
    return 0;
}

const char* axclrtGetFullVersion() { return "V3.10.2_mock"; }

const char* axclrtGetSocName() {
    const Call call;
    return call->cards.empty() ? "UNKNOWN" : "AX650N";
}

Error axclrtGetDeviceList(DeviceList* list) {
    const Call call;
    if (list == nullptr) {
        return device_error(what::null_pointer);
    }
    *list = {};
    for (const auto& card : call->cards) {
        if (card->connected) {
            list->devices[list->count++] = card->id;
        }
    }
    return 0;
}

Error axclrtGetDeviceCount(std::uint32_t* count) {
    if (count == nullptr) {
        return device_error(what::null_pointer);
    }
    DeviceList list;
    const Error error = axclrtGetDeviceList(&list);
    *count = list.count;
    return error;
}

Error axclrtSetDevice(std::int32_t id) {
    const Call call;
    Card* card = call->find_card(id);
    if (card == nullptr) {
        return device_error(what::device_invalid_id);
    }
    if (!card->connected) {
        return device_error(what::device_not_connected);
    }
    ++card->users;
    if (card->default_context == nullptr) {
        card->default_context = call->contexts.add({card});
    }
    thread_context() = card->default_context;
    return 0;
}

Error axclrtResetDevice(std::int32_t id) {
    const Call call;
    Card* card = call->find_card(id);
    if (card == nullptr) {
        return device_error(what::device_invalid_id);
    }
    if (card->users == 0) {
        return device_error(what::device_not_active);
    }
    if (--card->users == 0) {
        call->tear_down(*card, call->faults.hits(Fault::cmm_leaks));
    }
    return 0;
}

Error axclrtGetDevice(std::int32_t* id) {
    const Call call;
    if (id == nullptr) {
        return device_error(what::null_pointer);
    }
    const ContextState* context = call->current_context();
    if (context == nullptr) {
        return device_error(what::device_none_active);
    }
    *id = context->card->id;
    return 0;
}

Error axclrtGetDeviceProperties(std::int32_t id, DeviceProperties* properties) {
    const Call call;
    if (properties == nullptr) {
        return device_error(what::null_pointer);
    }
    const Card* card = call->find_card(id);
    if (card == nullptr || !card->connected) {
        return device_error(what::device_query);
    }
    *properties = {};
    std::snprintf(properties->software, sizeof(properties->software), "%s", "V3.10.2_mock");
    properties->uid = 0x0650000000000000U + static_cast<std::uint64_t>(id);
    properties->pci_bus = static_cast<std::uint32_t>(id);
    properties->temperature = 45000;
    properties->total_memory = 954 * kib;
    properties->free_memory = 700 * kib;
    const std::uint64_t used = std::min(card->memory.capacity(), card->memory.used() + idle_cmm_bytes);
    properties->total_cmm = static_cast<std::uint32_t>(card->memory.capacity() / kib);
    properties->free_cmm = static_cast<std::uint32_t>((card->memory.capacity() - used) / kib);
    return 0;
}

Error axclrtSynchronizeDevice() {
    const Call call;
    Error first = 0;
    Card* card = nullptr;
    if (call->current(card) == 0) {
        call->streams.each([&](StreamState& stream) {
            if (stream.card == card) {
                const Error error = drain(stream);
                first = first != 0 ? first : error;
            }
        });
    }
    return first;
}

Error axclrtRebootDevice(std::int32_t id) {
    const Call call;
    Card* card = call->find_card(id);
    if (card == nullptr) {
        return device_error(what::device_reboot);
    }
    call->tear_down(*card, false);
    card->memory.unreserve(card->memory.used());  // what had leaked
    card->connected = true;
    card->wedged = false;
    ++call->reboots;
    call->released.notify_all();
    return 0;
}

Error axclrtCreateContext(Context* context, std::int32_t device) {
    const Call call;
    if (context == nullptr) {
        return context_error(what::null_pointer);
    }
    Card* card = call->find_card(device);
    if (card == nullptr) {
        return device_error(what::device_invalid_id);
    }
    if (card->users == 0) {
        return device_error(what::device_not_active);
    }
    *context = call->contexts.add({card});
    thread_context() = *context;
    return 0;
}

Error axclrtDestroyContext(Context context) {
    const Call call;
    if (context == nullptr) {
        return context_error(what::null_pointer);
    }
    const ContextState* state = call->contexts.find(context);
    if (state == nullptr && call->faults.hits(Fault::crash_on_garbage)) {
        std::raise(SIGSEGV);
    }
    if (state == nullptr || state->card->default_context == context) {
        return context_error(what::destroy);
    }
    call->contexts.remove(context);
    return 0;
}

Error axclrtSetCurrentContext(Context context) {
    const Call call;
    if (context == nullptr) {
        return context_error(what::null_pointer);
    }
    thread_context() = context;  // whatever it is: the library does not look
    return 0;
}

Error axclrtGetCurrentContext(Context* context) {
    const Call call;
    if (context == nullptr) {
        return context_error(what::null_pointer);
    }
    if (call->current_context() == nullptr) {
        return context_error(what::context_none_bound);
    }
    *context = thread_context();
    return 0;
}

Error axclrtCreateStream(Stream* stream) {
    const Call call;
    if (stream == nullptr) {
        return stream_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    *stream = call->streams.add({card, {}});
    return 0;
}

Error axclrtDestroyStream(Stream stream) {
    const Call call;
    if (stream == nullptr) {
        return stream_error(what::null_pointer);
    }
    StreamState* state = call->streams.find(stream);
    if (state == nullptr) {
        return stream_error(what::destroy);
    }
    const Error error = drain(*state);
    call->streams.remove(stream);
    return error;
}

Error axclrtDestroyStreamForce(Stream stream) {
    const Call call;
    if (stream == nullptr) {
        return stream_error(what::null_pointer);
    }
    return call->streams.remove(stream) ? 0 : stream_error(what::destroy);
}

Error axclrtSynchronizeStream(Stream stream) { return axclrtSynchronizeStreamWithTimeout(stream, no_timeout); }

Error axclrtSynchronizeStreamWithTimeout(Stream stream, std::int32_t) {
    const Call call;
    if (stream == nullptr) {
        return stream_error(what::null_pointer);
    }
    StreamState* state = call->streams.find(stream);
    return state != nullptr ? drain(*state) : stream_error(what::illegal);
}

Error axclrtCreateEvent(Event* event) {
    const Call call;
    if (event == nullptr) {
        return stream_error(what::null_pointer);
    }
    const ContextState* context = call->current_context();
    if (context == nullptr) {
        return device_error(what::device_none_active);
    }
    *event = call->events.add({context->card});
    return 0;
}

Error axclrtDestroyEvent(Event event) {
    const Call call;
    if (event == nullptr) {
        return stream_error(what::null_pointer);
    }
    return call->events.remove(event) ? 0 : stream_error(what::destroy);
}

// Streams do their work when they are synchronised, one after the other: to wait for an event, the stream that recorded
// it is done first.
Error axclrtRecordEvent(Event event, Stream stream) {
    const Call call;
    if (event == nullptr) {
        return stream_error(what::null_pointer);
    }
    StreamState* state = call->streams.find(stream);
    if (call->events.find(event) == nullptr || state == nullptr) {
        return stream_error(what::illegal);
    }
    return drain(*state);
}

Error axclrtStreamWaitEvent(Stream stream, Event event) {
    const Call call;
    if (stream == nullptr || event == nullptr) {
        return stream_error(what::null_pointer);
    }
    return call->streams.find(stream) != nullptr && call->events.find(event) != nullptr ? 0
                                                                                        : stream_error(what::illegal);
}

}  // namespace npu::axera::mock::calls
