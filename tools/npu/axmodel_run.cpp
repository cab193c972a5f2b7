// `npu axmodel run` and `npu axmodel cards`: models and memory on a card, or on the mock (GGML_NPU_AXERA_MOCK=1).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>

#include "axera/executor.h"
#include "axera/interrupts.h"
#include "axmodel.h"
#include "base/sha256.h"

namespace npu::tools {

namespace {

using nlohmann::ordered_json;

struct Options {
    std::string path;
    std::optional<std::int32_t> card;
    std::size_t group = 0;
    std::optional<std::uint64_t> pattern;
    std::vector<std::string> inputs, outputs;  // NAME=FILE
    bool asynchronous = false, json = false;
    unsigned repeat = 1;
};

template <typename T>
T or_fail(Result<T> result) {
    if (!result) {
        fail(result.error().message);
    }
    return std::move(result).value();
}

void or_fail(const Result<void>& result) {
    if (!result) {
        fail(result.error().message);
    }
}

std::shared_ptr<axera::Runtime> open_runtime() {
    const Result<AxeraOptions>& options = axera_options();
    return or_fail(options ? axera::Runtime::open(*options) : Result<std::shared_ptr<axera::Runtime>>(options.error()));
}

// Ends the library's work after everything that was opened with it, also when the subcommand fails.
struct Session {
    std::shared_ptr<axera::Runtime> runtime = open_runtime();
    Session() = default;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() { runtime->shutdown(); }
};

std::shared_ptr<axera::Card> open_card(const std::shared_ptr<axera::Runtime>& runtime,
                                       const std::optional<std::int32_t>& wanted) {
    const std::vector<axera::CardInfo> cards = or_fail(runtime->cards());
    if (cards.empty()) {
        fail("the AXCL runtime knows no card");
    }
    return or_fail(axera::Card::open(runtime, wanted.value_or(cards.front().id)));
}

std::pair<std::string, std::string> split(const std::string& text) {
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos || sign == 0 || sign + 1 == text.size()) {
        fail(format("'%s' should be NAME=FILE", text.c_str()));
    }
    return {text.substr(0, sign), text.substr(sign + 1)};
}

double number_at(axera::Bytes bytes, std::size_t at, axera::axcl::DataType type) {
    using axera::axcl::DataType;
    switch (type) {
        case DataType::fp32: {
            float value = 0;
            std::memcpy(&value, bytes.data() + at, 4);
            return value;
        }
        case DataType::bf16: {
            const std::uint32_t word = std::uint32_t{axera::load<std::uint16_t>(bytes, at)} << 16;
            float value = 0;
            std::memcpy(&value, &word, 4);
            return value;
        }
        case DataType::int8: return axera::load<std::int8_t>(bytes, at);
        case DataType::uint8: return bytes[at];
        case DataType::int16: return axera::load<std::int16_t>(bytes, at);
        case DataType::uint16: return axera::load<std::uint16_t>(bytes, at);
        case DataType::int32: return axera::load<std::int32_t>(bytes, at);
        case DataType::uint32: return axera::load<std::uint32_t>(bytes, at);
        default: return std::numeric_limits<double>::quiet_NaN();
    }
}

// Of an output: its digest, least and greatest number, where the greatest stands, and how many are not numbers.
ordered_json summary_of(const axera::TensorInfo& tensor, const axera::Buffer& bytes) {
    ordered_json entry{{"name", tensor.name},
                       {"type", axera::data_type_name(tensor.type)},
                       {"shape", tensor.dims},
                       {"bytes", tensor.bytes},
                       {"sha256", npu::sha256(bytes)}};
    const std::size_t step = axera::data_type_bits(tensor.type) / 8;
    if (step == 0 || std::isnan(number_at(axera::Buffer(8), 0, tensor.type))) {
        return entry;
    }
    double least = std::numeric_limits<double>::infinity();
    double greatest = -least;
    std::size_t where = 0;
    std::size_t no_numbers = 0;
    for (std::size_t at = 0; at + step <= bytes.size(); at += step) {
        const double value = number_at(bytes, at, tensor.type);
        if (std::isnan(value)) {
            ++no_numbers;
            continue;
        }
        least = std::min(least, value);
        if (value > greatest) {
            greatest = value;
            where = at / step;
        }
    }
    if (no_numbers * step < bytes.size()) {
        entry["least"] = least;
        entry["greatest"] = greatest;
        entry["argmax"] = where;
    }
    entry["not_numbers"] = no_numbers;
    return entry;
}

std::string text_of(const ordered_json& output) {
    std::string text = format("%s: %s %s, %llu bytes, sha256 %s\n", output["name"].get<std::string>().c_str(),
                              output["type"].get<std::string>().c_str(), output["shape"].dump().c_str(),
                              output["bytes"].get<unsigned long long>(), output["sha256"].get<std::string>().c_str());
    if (output.contains("least")) {
        text += format("  least %g, greatest %g at %zu\n", output["least"].get<double>(),
                       output["greatest"].get<double>(), output["argmax"].get<std::size_t>());
    }
    if (output.value("not_numbers", std::size_t{0}) != 0) {
        text += format("  %zu are not numbers\n", output["not_numbers"].get<std::size_t>());
    }
    return text;
}

void give_inputs(axera::Executor& executor, const Options& options) {
    if (options.pattern) {
        std::uint64_t seed = *options.pattern;
        for (const axera::TensorInfo& tensor : executor.inputs(options.group)) {
            or_fail(executor.write(options.group, tensor.name, axera::make_pattern(tensor.type, tensor.bytes, seed++)));
        }
    }
    for (const std::string& input : options.inputs) {
        const auto [name, path] = split(input);
        or_fail(executor.write(options.group, name, or_fail(axera::read_bytes(path))));
    }
}

double run_and_time(axera::Executor& executor, const Options& options, const axera::Interrupts& interrupts) {
    const auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < options.repeat; ++i) {
        if (interrupts.requested()) {
            fail("interrupted; the model is unloaded");
        }
        if (options.asynchronous) {
            or_fail(executor.start(options.group));
            or_fail(executor.wait());
        } else {
            or_fail(executor.run(options.group));
        }
    }
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / options.repeat;
}

void write_output(const Options& options, const axera::TensorInfo& tensor, const axera::Buffer& bytes) {
    for (const std::string& output : options.outputs) {
        const auto [name, path] = split(output);
        if (name != tensor.name && name + format("_%zu", options.group) != tensor.name) {
            continue;
        }
        std::ofstream stream(path, std::ios::binary);
        stream.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        if (!stream.flush()) {
            fail(format("cannot write '%s'", path.c_str()));
        }
    }
}

// A name that no output has would otherwise be found out by a missing file.
void check_output_names(const Options& options, const axera::Executor& executor) {
    for (const std::string& output : options.outputs) {
        const std::string name = split(output).first;
        const auto& outputs = executor.outputs(options.group);
        if (std::none_of(outputs.begin(), outputs.end(), [&](const axera::TensorInfo& tensor) {
                return tensor.name == name || tensor.name == name + format("_%zu", options.group);
            })) {
            fail(format("%s has no output '%s'", options.path.c_str(), name.c_str()));
        }
    }
}

void run(const Options& options) {
    const axera::Interrupts interrupts;
    const Session session;
    const auto card = open_card(session.runtime, options.card);
    const auto executor = or_fail(axera::Executor::load(card, options.path));
    or_fail(executor->prepare(options.group));
    check_output_names(options, *executor);
    give_inputs(*executor, options);
    const double milliseconds = run_and_time(*executor, options, interrupts);
    ordered_json results{{"file", options.path},
                         {"card", or_fail(card->info()).description()},
                         {"compiler", executor->compiler()},
                         {"groups", executor->groups()},
                         {"group", options.group},
                         {"milliseconds", milliseconds},
                         {"outputs", ordered_json::array()}};
    for (const axera::TensorInfo& tensor : executor->outputs(options.group)) {
        axera::Buffer bytes(tensor.bytes);
        or_fail(executor->read(options.group, tensor.name, bytes));
        results["outputs"].push_back(summary_of(tensor, bytes));
        write_output(options, tensor, bytes);
    }
    if (options.json) {
        print(results.dump(1) + "\n");
        return;
    }
    print(format("shape group %zu of %zu ran in %.3f ms on %s\n", options.group, executor->groups(), milliseconds,
                 results["card"].get<std::string>().c_str()));
    for (const ordered_json& output : results["outputs"]) {
        print(text_of(output));
    }
}

// 4096 bytes there and back, through a second buffer on the card.
void test_memory(const std::shared_ptr<axera::Runtime>& runtime, std::int32_t id) {
    const auto card = or_fail(axera::Card::open(runtime, id));
    axera::DeviceMemory first = or_fail(axera::DeviceMemory::allocate(card, 4096));
    axera::DeviceMemory second = or_fail(axera::DeviceMemory::allocate(card, 4096));
    const axera::Buffer bytes = axera::make_pattern(axera::axcl::DataType::uint8, 4096, 1);
    or_fail(second.fill(0));
    or_fail(first.write(bytes));
    or_fail(second.copy_from(first, 0, 0, 4096));
    axera::Buffer back(4096);
    or_fail(second.read(back));
    if (back != bytes) {
        fail(format("card %d: 4096 bytes did not come back as they were written", id), 1);
    }
    print(format("  memory test: 4096 bytes written, copied and read back\n"));
}

}  // namespace

void add_axmodel_run(CLI::App& parent) {
    auto options = std::make_shared<Options>();
    CLI::App* command = parent.add_subcommand("run", "Runs a model once, on zeros unless told otherwise");
    command->add_option("FILE", options->path, "Model")->required()->type_name("");
    command->add_option("--card", options->card, "Number of the card (default: the first)")->type_name("N");
    command->add_option("--group", options->group, "Shape group (default 0)")->type_name("N");
    command->add_option("--pattern", options->pattern, "Fills all inputs with numbers made from this seed")
        ->type_name("SEED");
    command->add_option("--input", options->inputs, "Raw bytes of an input")->type_name("NAME=FILE");
    command->add_option("--output", options->outputs, "Where to write the raw bytes of an output")
        ->type_name("NAME=FILE");
    command->add_flag("--async", options->asynchronous, "Runs in a stream");
    command->add_option("--repeat", options->repeat, "Runs so often and prints the mean time")
        ->check(CLI::Range(1, 1000000))
        ->type_name("N");
    command->add_flag("--json", options->json, "Prints JSON");
    command->footer("Without a card: GGML_NPU_AXERA_MOCK=1");
    command->callback([options] { run(*options); });
}

void add_axmodel_cards(CLI::App& parent) {
    auto memory_test = std::make_shared<bool>(false);
    CLI::App* command = parent.add_subcommand("cards", "Lists the cards that the AXCL runtime knows");
    command->add_flag("--memory-test", *memory_test, "Writes, copies and reads back 4096 bytes on each");
    command->callback([memory_test] {
        const Session session;
        for (const axera::CardInfo& card : or_fail(session.runtime->cards())) {
            print(format("card %d: %s\n", card.id, card.description().c_str()));
            if (*memory_test) {
                test_memory(session.runtime, card.id);
            }
        }
    });
}

}  // namespace npu::tools
