// All that the mock runtime knows: its cards, and everything that a program holds handles to. A handle is the address
// of the object it stands for and is looked up, never followed, so that a pointer that is none is an error and not a
// crash. One mutex guards it all; the current context is a property of the thread, as in the vendor's library.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "axera/mock/faults.h"
#include "axera/mock/memory.h"
#include "axera/mock/mock.h"
#include "axera/model_file.h"

namespace npu::axera::mock {

struct Card {
    Card(std::int32_t number, unsigned ordinal, std::uint64_t cmm) : id(number), memory(ordinal, cmm) {}

    std::int32_t id;
    CardMemory memory;
    std::uint64_t users = 0;         // SetDevice less ResetDevice
    bool connected = true;           // false: dropped, until a reboot
    bool wedged = false;             // answers, but neither gives memory nor loads nor runs, until a reboot
    std::optional<int> virtual_npu;  // set by EngineInit
    bool holds_language_model = false;
    void* default_context = nullptr;
};

struct ContextState {
    Card* card;
};

struct StreamState {
    Card* card;
    std::deque<std::function<axcl::Error()>> pending;
};

struct EventState {
    Card* card;
};

struct ModelState {
    Card* card = nullptr;
    ModelFile file;
    std::string compiler;
    std::uint64_t reserved = 0;  // CMM
    std::set<std::uint64_t> contexts;
    axcl::EngineSet affinity = 1;
};

struct InfoState {
    std::uint64_t model;
};

struct Bound {
    Address address = 0;
    std::uint64_t bytes = 0;
    bool set = false;
};

struct IoState {
    std::uint64_t model;
    std::vector<Bound> inputs, outputs;
};

// Objects by the address that stands for them.
template <typename T>
class Handles {
  public:
    void* add(T object) {
        auto owned = std::make_unique<T>(std::move(object));
        void* handle = owned.get();
        objects_[handle] = std::move(owned);
        return handle;
    }
    [[nodiscard]] T* find(const void* handle) const {
        const auto at = objects_.find(handle);
        return at == objects_.end() ? nullptr : at->second.get();
    }
    bool remove(const void* handle) { return objects_.erase(handle) != 0; }
    template <typename Predicate>
    void remove_if(Predicate predicate) {
        std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
    }
    template <typename Visit>
    void each(Visit visit) {
        for (auto& [handle, object] : objects_) {
            visit(*object);
        }
    }

  private:
    std::map<const void*, std::unique_ptr<T>> objects_;
};

class Machine {
  public:
    explicit Machine(const Settings& settings, Faults faults);

    Settings settings;
    Faults faults;
    std::vector<std::unique_ptr<Card>> cards;
    Handles<ContextState> contexts;
    Handles<StreamState> streams;
    Handles<EventState> events;
    Handles<InfoState> infos;
    Handles<IoState> ios;
    std::map<std::uint64_t, ModelState> models;  // by number
    std::uint64_t next_model = 1, next_engine_context = 1;
    std::map<const void*, Buffer> pinned;  // host memory of MallocHost, by address
    Counters counters;
    std::vector<std::string> notes;
    std::condition_variable released;  // what hangs waits here
    std::uint64_t reboots = 0;

    [[nodiscard]] Card* find_card(std::int32_t id);
    // The card of the thread's context, or the code that says why there is none.
    axcl::Error current(Card*& card);
    [[nodiscard]] ContextState* current_context() const;
    [[nodiscard]] ModelState* find_model(std::uint64_t id, const Card* card);

    // Everything that lives on a card ends: its contexts, streams, models and, unless `keep_memory`, its memory.
    void tear_down(Card& card, bool keep_memory);
    [[nodiscard]] bool is_pinned(const void* host, std::uint64_t bytes) const;
    void note(std::string text);
    void spend(std::uint64_t nanoseconds) { counters.nanoseconds += nanoseconds; }
};

// The thread's context: an address, not necessarily one that stands for anything.
void*& thread_context();

// Holds the mutex for one call and counts it.
class Call {
  public:
    Call();
    Machine* operator->() const { return machine_; }
    Machine& operator*() const { return *machine_; }
    std::unique_lock<std::mutex>& lock() { return lock_; }

  private:
    std::unique_lock<std::mutex> lock_;
    Machine* machine_;
};

}  // namespace npu::axera::mock
