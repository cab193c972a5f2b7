// `npu axmodel inspect` and `npu axmodel manifest`: what a model takes and gives, and what its file holds. A manifest
// adds the digest of every part, so that two files, or a file and a capture, can be compared without having both.
#include <memory>

#include "axmodel.h"
#include "base/sha256.h"

namespace npu::tools {

namespace {

using nlohmann::ordered_json;

struct Options {
    std::string path;
    bool json = false;
};

const char* mode_name(std::uint8_t mode) { return mode == 0 ? "NPU1" : mode == 2 ? "NPU3" : "unknown mode"; }

ordered_json segment_json(const axera::Neu& neu, const axera::Descriptor& part, bool digests) {
    const Result<axera::Buffer> segment = axera::segment_of(neu, part);
    ordered_json entry{{"engine", axera::engine_name(part.kind)},
                       {"kind", static_cast<unsigned>(part.kind)},
                       {"first_word", part.first_word},
                       {"words", part.words},
                       {"packed", part.packed != 0},
                       {"packed_bytes", part.packed_bytes},
                       {"bytes", segment ? segment->size() : 0}};
    if (digests && segment) {
        entry["sha256"] = npu::sha256(*segment);
    }
    return entry;
}

ordered_json program_json(const axera::ModelFile& model, const axera::Program& program, bool digests) {
    const axera::Neu& neu = program.neu;
    const auto tensors = [](const std::vector<axera::NeuTensor>& list) {
        ordered_json entries = ordered_json::array();
        for (const axera::NeuTensor& tensor : list) {
            entries.push_back({{"name", tensor.name}, {"bytes", tensor.bytes}});
        }
        return entries;
    };
    ordered_json symbols = ordered_json::array();
    for (const axera::Symbol& symbol : neu.symbols) {
        symbols.push_back({{"name", symbol.name}, {"index", symbol.index}});
    }
    ordered_json segments = ordered_json::array();
    for (const axera::Descriptor& part : neu.descriptors) {
        segments.push_back(segment_json(neu, part, digests));
    }
    ordered_json entry{{"key", program.key},
                       {"offset", model.onnx.graph.initializers[program.initializer].offset},
                       {"bytes", model.onnx.graph.initializers[program.initializer].raw.size()},
                       {"mode", mode_name(neu.npu_mode)},
                       {"cmm_bytes", neu.image.size()},
                       {"ocm_bytes", neu.ocm_bytes},
                       {"inputs", tensors(neu.inputs)},
                       {"outputs", tensors(neu.outputs)},
                       {"scratch", tensors(neu.scratch)},
                       {"symbols", std::move(symbols)},
                       {"segments", std::move(segments)}};
    if (!neu.unknown.empty()) {
        entry["unknown_fields"] = neu.unknown;
    }
    return entry;
}

ordered_json model_json(const Options& options, const axera::ModelFile& model, bool digests) {
    ordered_json json{{"file", options.path}, {"bytes", model.bytes.size()}};
    if (digests) {
        json["sha256"] = npu::sha256(model.bytes);
    }
    json["compiler"] = model.compiler_version();
    json["document"] = model.onnx.doc_string;
    json["ir_version"] = model.onnx.ir_version.value_or(0);
    json["mode"] = mode_name(model.npu_mode());
    json["cmm_bytes"] = model.command_bytes();
    json["constant_bytes"] = model.constant_bytes();
    json["groups"] = ordered_json::array();
    for (const axera::ShapeGroup& group : model.groups) {
        ordered_json entry{{"name", group.name}, {"inputs", ordered_json::array()}, {"outputs", ordered_json::array()}};
        for (const axera::ModelTensor& tensor : group.inputs) {
            entry["inputs"].push_back(json_of(tensor));
        }
        for (const axera::ModelTensor& tensor : group.outputs) {
            entry["outputs"].push_back(json_of(tensor));
        }
        entry["programs"] = group.programs;
        json["groups"].push_back(std::move(entry));
    }
    json["initializers"] = ordered_json::array();
    for (const axera::onnx::Tensor& tensor : model.onnx.graph.initializers) {
        ordered_json entry{{"name", tensor.name}, {"offset", tensor.offset}, {"bytes", tensor.raw.size()}};
        if (digests) {
            entry["sha256"] = npu::sha256(tensor.raw);
        }
        json["initializers"].push_back(std::move(entry));
    }
    json["programs"] = ordered_json::array();
    for (const axera::Program& program : model.programs) {
        json["programs"].push_back(program_json(model, program, digests));
    }
    return json;
}

std::string model_text(const Options& options, const axera::ModelFile& model) {
    std::string text = format("%s: %zu bytes, compiler %s, %s\n", options.path.c_str(), model.bytes.size(),
                              model.compiler_version().empty() ? "unknown" : model.compiler_version().c_str(),
                              mode_name(model.npu_mode()));
    text += format("  constants %llu bytes, commands %llu bytes of CMM\n",
                   static_cast<unsigned long long>(model.constant_bytes()),
                   static_cast<unsigned long long>(model.command_bytes()));
    for (std::size_t g = 0; g < model.groups.size(); ++g) {
        const axera::ShapeGroup& group = model.groups[g];
        text += format("group %zu: %s\n", g, group.name.c_str());
        for (const axera::ModelTensor& tensor : group.inputs) {
            text += format("  in   %-16s %s\n", tensor.name.c_str(), describe(tensor).c_str());
        }
        for (const axera::ModelTensor& tensor : group.outputs) {
            text += format("  out  %-16s %s\n", tensor.name.c_str(), describe(tensor).c_str());
        }
    }
    for (const axera::Program& program : model.programs) {
        text += format("program %s: %zu words in %zu segments, %zu symbols\n", program.key.c_str(),
                       program.neu.image.size() / 8, program.neu.descriptors.size(), program.neu.symbols.size());
        for (std::size_t i = 0; i < program.neu.descriptors.size(); ++i) {
            const axera::Descriptor& part = program.neu.descriptors[i];
            const Result<axera::Buffer> segment = axera::segment_of(program.neu, part);
            text += format("  segment %2zu  %-5s words %5u..%-5u %6zu records%s\n", i, axera::engine_name(part.kind),
                           part.first_word, part.first_word + part.words, segment ? segment->size() / 8 : 0,
                           part.packed != 0 ? format(" packed in %u bytes", part.packed_bytes).c_str() : "");
        }
    }
    return text;
}

}  // namespace

void add_axmodel_inspect(CLI::App& parent) {
    auto options = std::make_shared<Options>();
    CLI::App* inspect = parent.add_subcommand("inspect", "Prints inputs, outputs, shape groups, programs and segments");
    inspect->add_option("FILE", options->path, "Model")->required()->type_name("");
    inspect->add_flag("--json", options->json, "Prints JSON");
    inspect->callback([options] {
        const axera::ModelFile model = model_or_fail(options->path);
        print(options->json ? model_json(*options, model, false).dump(1) + "\n" : model_text(*options, model));
    });
    auto manifest_options = std::make_shared<Options>();
    CLI::App* manifest = parent.add_subcommand("manifest", "Prints the same as JSON with the SHA-256 of every part");
    manifest->add_option("FILE", manifest_options->path, "Model")->required()->type_name("");
    manifest->callback([manifest_options] {
        const axera::ModelFile model = model_or_fail(manifest_options->path);
        print(model_json(*manifest_options, model, true).dump(1) + "\n");
    });
}

}  // namespace npu::tools
