// Memory of the card and of the host, and copies between them.
#include <cstring>

#include "axera/mock/calls.h"
#include "axera/mock/cost.h"
#include "axera/mock/machine.h"

namespace npu::axera::mock::calls {

namespace {

constexpr std::uint64_t small_copy = 64 << 10;  // below this the fixed cost of a copy that is not pinned dominates

Error memory_error(std::uint32_t id) { return code(Part::memory, id); }
Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// The bytes of an allocation of the current card, or a note of what is wrong with the address.
std::uint8_t* device_bytes(Machine& machine, Card& card, const void* pointer, std::size_t bytes) {
    const auto found = card.memory.find(address_of(pointer), bytes);
    if (!found) {
        machine.note(format("%zu bytes at 0x%llx are not inside one allocation of card %d", bytes,
                            static_cast<unsigned long long>(address_of(pointer)), card.id));
        return nullptr;
    }
    return found->data();
}

void spend_copy(Machine& machine, const void* host, std::size_t bytes) {
    const bool slow = bytes < small_copy && !machine.is_pinned(host, bytes);
    machine.spend((slow ? cost::unpinned_copy_ns : 0) + cost::bus_ns(bytes));
}

// A copy with the context already found and the pointers not null.
Error copy(Machine& machine, Card& card, void* to, const void* from, std::size_t bytes, CopyKind kind) {
    if (bytes == 0) {
        return 0;
    }
    if (card.wedged || machine.faults.hits(Fault::copy_fails)) {
        return memory_error(what::execute);
    }
    std::uint8_t* const source = kind == CopyKind::host_to_device ? nullptr : device_bytes(machine, card, from, bytes);
    std::uint8_t* const target = kind == CopyKind::device_to_host ? nullptr : device_bytes(machine, card, to, bytes);
    switch (kind) {
        case CopyKind::host_to_device:
            if (target == nullptr) {
                return memory_error(what::memory_not_of_device);
            }
            std::memcpy(target, from, bytes);
            card.memory.mark_written(address_of(to), bytes);
            ++machine.counters.copies_to_device;
            machine.counters.bytes_to_device += bytes;
            spend_copy(machine, from, bytes);
            return 0;
        case CopyKind::device_to_host:
            if (source == nullptr) {
                return memory_error(what::memory_not_of_device);
            }
            std::memcpy(to, source, bytes);
            ++machine.counters.copies_to_host;
            machine.counters.bytes_to_host += bytes;
            spend_copy(machine, to, bytes);
            return 0;
        case CopyKind::device_to_device:
            if (source == nullptr || target == nullptr) {
                return memory_error(what::memory_not_of_device);
            }
            std::memmove(target, source, bytes);
            // What was not written before the copy is not written after it.
            if (card.memory.unwritten(address_of(from), bytes) == 0) {
                card.memory.mark_written(address_of(to), bytes);
            }
            ++machine.counters.copies_on_device;
            machine.spend(cost::memory_ns(2 * bytes));
            return 0;
        default: return memory_error(what::illegal);
    }
}

}  // namespace

Error axclrtMalloc(void** address, std::size_t bytes, int policy) {
    const Call call;
    if (address == nullptr) {
        return memory_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    if (bytes == 0 || policy < 0 || policy > static_cast<int>(MallocPolicy::size_align)) {
        return memory_error(what::illegal);
    }
    if (card->wedged) {
        return memory_error(what::execute);
    }
    const auto found = call->faults.hits(Fault::malloc_fails) ? std::nullopt : card->memory.allocate(bytes);
    if (!found) {
        return memory_error(what::no_memory);
    }
    *address = reinterpret_cast<void*>(*found);  // NOLINT(performance-no-int-to-ptr): a card address, never followed
    return 0;
}

Error axclrtMallocCached(void** address, std::size_t bytes, int policy) { return axclrtMalloc(address, bytes, policy); }

Error axclrtFree(void* address) {
    const Call call;
    if (address == nullptr) {
        return memory_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    if (!card->memory.release(address_of(address))) {
        call->note(format("free of 0x%llx, where no allocation of card %d begins",
                          static_cast<unsigned long long>(address_of(address)), card->id));
        return memory_error(what::memory_not_of_device);
    }
    return 0;
}

Error axclrtMemFlush(void* address, std::size_t bytes) {
    const Call call;
    if (address == nullptr) {
        return memory_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    return device_bytes(*call, *card, address, bytes) != nullptr ? 0 : memory_error(what::memory_not_of_device);
}

Error axclrtMemInvalidate(void* address, std::size_t bytes) { return axclrtMemFlush(address, bytes); }

Error axclrtMallocHost(void** host, std::size_t bytes) {
    const Call call;
    if (host == nullptr) {
        return memory_error(what::null_pointer);
    }
    Buffer memory(bytes);
    memory.reserve(bytes + 1);  // so that each has an address of its own
    *host = memory.data();
    call->pinned[*host] = std::move(memory);
    return 0;
}

Error axclrtFreeHost(void* host) {
    const Call call;
    return host == nullptr || call->pinned.erase(host) != 0 ? 0 : memory_error(what::illegal);
}

Error axclrtMemset(void* address, std::uint8_t value, std::size_t bytes) {
    const Call call;
    if (address == nullptr) {
        return memory_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    if (card->wedged) {
        return memory_error(what::execute);
    }
    std::uint8_t* const target = device_bytes(*call, *card, address, bytes);
    if (target == nullptr) {
        return memory_error(what::memory_not_of_device);
    }
    std::memset(target, value, bytes);
    card->memory.mark_written(address_of(address), bytes);
    call->spend(cost::memory_ns(bytes));
    return 0;
}

Error axclrtMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
    const Call call;
    if (to == nullptr || from == nullptr) {
        return memory_error(what::null_pointer);
    }
    if (kind == static_cast<int>(CopyKind::host_to_host)) {
        std::memmove(to, from, bytes);
        return 0;
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    return copy(*call, *card, to, from, bytes, static_cast<CopyKind>(kind));
}

// Which numbers the real one answers with is not known: 0 when the bytes are equal, 1 when they differ.
Error axclrtMemcmp(const void* a, const void* b, std::size_t bytes) {
    const Call call;
    if (a == nullptr || b == nullptr) {
        return memory_error(what::null_pointer);
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    const std::uint8_t* const x = device_bytes(*call, *card, a, bytes);
    const std::uint8_t* const y = device_bytes(*call, *card, b, bytes);
    if (x == nullptr || y == nullptr) {
        return memory_error(what::memory_not_of_device);
    }
    return std::memcmp(x, y, bytes) == 0 ? 0 : what::fail;
}

Error axclrtMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, Stream stream) {
    const Call call;
    if (to == nullptr || from == nullptr) {
        return memory_error(what::null_pointer);
    }
    if (kind == static_cast<int>(CopyKind::host_to_host)) {
        return what::unsupported;
    }
    Card* card = nullptr;
    if (const Error error = call->current(card); error != 0) {
        return error;
    }
    const auto work = [machine = &*call, card, to, from, bytes, kind] {
        return copy(*machine, *card, to, from, bytes, static_cast<CopyKind>(kind));
    };
    if (stream == nullptr) {
        return work();  // the default stream cannot be synchronised, so its work is done at once
    }
    StreamState* state = call->streams.find(stream);
    if (state == nullptr || state->card != card) {
        return code(Part::stream, what::illegal);
    }
    state->pending.emplace_back(work);
    return 0;
}

}  // namespace npu::axera::mock::calls
