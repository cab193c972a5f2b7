// `npu axmodel disasm`: the records that the engines of the card read, unpacked, with symbols and events by name.
#include <memory>
#include <optional>

#include "axera/records.h"
#include "axmodel.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path;
    std::optional<std::size_t> program, segment;
    bool json = false;
};

// Calls visit(program, its index, segment's index) for what the command line chose.
template <typename Visit>
void each_chosen(const axera::ModelFile& model, const Options& options, Visit visit) {
    std::size_t found = 0;
    for (std::size_t p = 0; p < model.programs.size(); ++p) {
        const auto& descriptors = model.programs[p].neu.descriptors;
        for (std::size_t s = 0; s < descriptors.size(); ++s) {
            if (options.program.value_or(p) == p && options.segment.value_or(s) == s) {
                visit(model.programs[p], p, s);
                ++found;
            }
        }
    }
    if (found == 0) {
        fail(format("%s has %zu programs (--program), the first with %zu segments (--segment); numbers start at 0",
                    options.path.c_str(), model.programs.size(), model.programs.front().neu.descriptors.size()));
    }
}

std::vector<axera::Record> records_of(const axera::Program& program, std::size_t segment) {
    const Result<axera::Buffer> bytes = axera::segment_of(program.neu, program.neu.descriptors[segment]);
    if (!bytes) {
        fail(bytes.error().message);
    }
    Result<std::vector<axera::Record>> records = axera::decode_records(*bytes);
    if (!records) {
        fail(records.error().message);
    }
    return std::move(records).value();
}

void run(const Options& options) {
    const axera::ModelFile model = model_or_fail(options.path);
    if (options.json) {
        nlohmann::ordered_json segments = nlohmann::ordered_json::array();
        each_chosen(model, options, [&](const axera::Program& program, std::size_t p, std::size_t s) {
            nlohmann::ordered_json lines = nlohmann::ordered_json::array();
            for (const axera::Record& record : records_of(program, s)) {
                lines.push_back({{"op", format("0x%02x", static_cast<unsigned>(record.operation))},
                                 {"register", record.address},
                                 {"value", record.value},
                                 {"text", axera::record_text(record, program.neu.symbols)}});
            }
            segments.push_back({{"program", p},
                                {"segment", s},
                                {"engine", axera::engine_name(program.neu.descriptors[s].kind)},
                                {"records", std::move(lines)}});
        });
        print(segments.dump(1) + "\n");
        return;
    }
    each_chosen(model, options, [&](const axera::Program& program, std::size_t, std::size_t s) {
        const std::vector<axera::Record> records = records_of(program, s);
        std::string text = format("# program %s, segment %zu (%s): %zu records\n", program.key.c_str(), s,
                                  axera::engine_name(program.neu.descriptors[s].kind), records.size());
        for (std::size_t i = 0; i < records.size(); ++i) {
            text += format("%6zu  %s\n", i, axera::record_text(records[i], program.neu.symbols).c_str());
        }
        print(text);
    });
}

}  // namespace

void add_axmodel_disasm(CLI::App& parent) {
    auto options = std::make_shared<Options>();
    CLI::App* command = parent.add_subcommand("disasm", "Prints the command records of a model's programs");
    command->add_option("FILE", options->path, "Model")->required()->type_name("");
    command->add_option("--program", options->program, "Only this program, counted from 0")->type_name("N");
    command->add_option("--segment", options->segment, "Only this segment, counted from 0")->type_name("N");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
