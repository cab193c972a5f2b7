// `npu options`: the table of environment variables.
#include "base/options.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "program_file.h"

namespace npu::tools {

namespace {

const char* type_name(OptionType type) {
    switch (type) {
        case OptionType::text: return "text";
        case OptionType::integer: return "integer";
        case OptionType::choice: return "choice";
    }
    return "text";
}

std::string json_table() {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const OptionInfo& option : option_table()) {
        list.push_back({{"name", option.name},
                        {"type", type_name(option.type)},
                        {"accepted", option.choices == nullptr ? nlohmann::ordered_json(nullptr)
                                                               : nlohmann::ordered_json(option.choices)},
                        {"default", option.default_value},
                        {"help", option.help}});
    }
    return list.dump(1) + "\n";
}

}  // namespace

void add_options(CLI::App& program) {
    auto json = std::make_shared<bool>(false);
    CLI::App* command = program.add_subcommand("options", "Prints every environment variable that the plugin reads");
    command->add_flag("--json", *json, "Prints JSON: name, type, accepted values, default, help");
    command->footer("docs/options.md has the same table.");
    command->callback([json] {
        if (const Result<void> written = write_file("-", *json ? json_table() : describe_options()); !written) {
            fail(written.error().message);
        }
    });
}

}  // namespace npu::tools
