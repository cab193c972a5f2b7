#include "axera/mock/machine.h"

#include <cstdlib>

#include "axera/mock/cost.h"
#include "base/log.h"

namespace npu::axera::mock {

namespace {

std::mutex& global_mutex() {
    static std::mutex mutex;
    return mutex;
}

// Never destroyed: a program may call the library while it ends.
std::unique_ptr<Machine>& instance() {
    static auto* machine = new std::unique_ptr<Machine>;
    return *machine;
}

// On the first call, when nobody configured anything: the environment, or, if that has no meaning, no driver.
void configure_from_environment() {
    Settings settings;
    const Result<AxeraOptions>& options = axera_options();
    const Result<Settings> wanted = options ? settings_of(*options) : Result<Settings>(options.error());
    Result<Faults> faults = Faults::parse(wanted ? wanted->faults : "");
    if (wanted && faults) {
        settings = *wanted;
    } else {
        log(LogLevel::error, "mock of the AXCL runtime: %s",
            (wanted ? faults.error() : wanted.error()).message.c_str());
        settings.driver = false;
        faults = Faults();
    }
    instance() = std::make_unique<Machine>(settings, std::move(faults).value());
}

}  // namespace

Machine::Machine(const Settings& wanted, Faults wanted_faults) : settings(wanted), faults(std::move(wanted_faults)) {
    unsigned ordinal = 0;
    for (const std::int32_t id : settings.driver ? settings.cards : std::vector<std::int32_t>{}) {
        cards.push_back(std::make_unique<Card>(id, ordinal++, settings.cmm_bytes));
    }
}

Card* Machine::find_card(std::int32_t id) {
    for (const auto& card : cards) {
        if (card->id == id) {
            return card.get();
        }
    }
    return nullptr;
}

ContextState* Machine::current_context() const { return contexts.find(thread_context()); }

axcl::Error Machine::current(Card*& card) {
    const ContextState* context = current_context();
    if (context == nullptr) {
        return axcl::code(axcl::Part::context, axcl::what::context_none_bound);
    }
    if (faults.hits(Fault::disconnects)) {
        context->card->connected = false;
        note(format("card %d disconnected", context->card->id));
    }
    if (!context->card->connected) {
        return axcl::code(axcl::Part::device, axcl::what::device_not_connected);
    }
    card = context->card;
    return 0;
}

ModelState* Machine::find_model(std::uint64_t id, const Card* card) {
    const auto at = models.find(id);
    return at == models.end() || at->second.card != card ? nullptr : &at->second;
}

void Machine::tear_down(Card& card, bool keep_memory) {
    const auto of_card = [&](const auto& object) { return object.card == &card; };
    contexts.remove_if(of_card);
    streams.remove_if(of_card);
    events.remove_if(of_card);
    std::erase_if(models, [&](const auto& entry) {
        if (entry.second.card != &card) {
            return false;
        }
        if (!keep_memory) {
            card.memory.unreserve(entry.second.reserved);
        }
        return true;
    });
    const auto orphan = [&](const auto& object) { return models.find(object.model) == models.end(); };
    infos.remove_if(orphan);
    ios.remove_if(orphan);
    if (!keep_memory) {
        card.memory.release_all();
    }
    card.default_context = nullptr;
    card.virtual_npu.reset();
    card.holds_language_model = false;
    card.users = 0;
}

bool Machine::is_pinned(const void* host, std::uint64_t bytes) const {
    auto at = pinned.upper_bound(host);
    if (at == pinned.begin()) {
        return false;
    }
    --at;
    const auto distance = static_cast<std::uint64_t>(static_cast<const std::uint8_t*>(host) -
                                                     static_cast<const std::uint8_t*>(at->first));
    return distance <= at->second.size() && bytes <= at->second.size() - distance;
}

void Machine::note(std::string text) {
    if (settings.log) {
        log(LogLevel::warning, "mock of the AXCL runtime: %s", text.c_str());
    }
    notes.push_back(std::move(text));
}

void*& thread_context() {
    thread_local void* context = nullptr;
    return context;
}

Call::Call() : lock_(global_mutex()) {
    if (instance() == nullptr) {
        configure_from_environment();
    }
    machine_ = instance().get();
    ++machine_->counters.calls;
    machine_->spend(cost::round_trip_ns);
}

Result<Settings> settings_of(const AxeraOptions& options) {
    Settings settings;
    settings.cmm_bytes = static_cast<std::uint64_t>(options.mock_cmm_mib) << 20;
    settings.faults = options.mock_faults;
    settings.log = options.mock_log;
    settings.cards.clear();
    settings.driver = options.mock_cards != "no-driver";
    if (options.mock_cards == "none" || !settings.driver) {
        return settings;
    }
    const char* at = options.mock_cards.c_str();
    while (true) {
        char* end = nullptr;
        const long number = std::strtol(at, &end, 10);
        if (end == at || number < 0 || number > 255 || (*end != ',' && *end != '\0')) {
            return make_error(ErrorCode::invalid_argument,
                              "option GGML_NPU_AXERA_MOCK_CARDS has the value '%s'; accepted: numbers 0..255 by comma, "
                              "none, no-driver",
                              options.mock_cards.c_str());
        }
        settings.cards.push_back(static_cast<std::int32_t>(number));
        if (*end == '\0') {
            return settings;
        }
        at = end + 1;
    }
}

Result<void> configure(const Settings& settings) {
    NPU_ASSIGN(Faults faults, Faults::parse(settings.faults));
    const std::set<std::int32_t> different(settings.cards.begin(), settings.cards.end());
    if (different.size() != settings.cards.size()) {
        return make_error(ErrorCode::invalid_argument, "two cards of the mock have the same number");
    }
    const std::lock_guard lock(global_mutex());
    instance() = std::make_unique<Machine>(settings, std::move(faults));
    return {};
}

Result<void> ensure(const Settings& settings) {
    {
        const std::lock_guard lock(global_mutex());
        if (instance() != nullptr && instance()->settings == settings) {
            return {};
        }
    }
    return configure(settings);
}

Counters counters() {
    const std::lock_guard lock(global_mutex());
    Counters now;
    if (const Machine* machine = instance().get()) {
        now = machine->counters;
        now.models = machine->models.size();
        for (const auto& card : machine->cards) {
            now.allocations += card->memory.allocations();
            now.allocated_bytes += card->memory.allocated_bytes();
        }
    }
    return now;
}

std::vector<std::string> notes() {
    const std::lock_guard lock(global_mutex());
    return instance() != nullptr ? instance()->notes : std::vector<std::string>{};
}

}  // namespace npu::axera::mock
