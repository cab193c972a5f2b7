#include "axera/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "axera/records.h"

namespace npu::axera {

namespace {

constexpr std::uint32_t first_temporary = 16;
constexpr std::size_t most_findings = 16;  // of one check; the rest are counted

class Findings {
  public:
    explicit Findings(const char* name) { check_.name = name; }

    void add(std::string text) {
        ++count_;
        if (count_ <= most_findings) {
            check_.findings.push_back(std::move(text));
        }
    }
    Check take() {
        if (count_ > most_findings) {
            check_.findings.push_back(format("and %zu more", count_ - most_findings));
        }
        return std::move(check_);
    }

  private:
    Check check_;
    std::size_t count_ = 0;
};

template <typename Visit>
void each_segment(const ModelFile& model, Visit visit) {
    for (const Program& program : model.programs) {
        for (std::size_t i = 0; i < program.neu.descriptors.size(); ++i) {
            const Result<Buffer> segment = segment_of(program.neu, program.neu.descriptors[i]);
            if (segment) {
                visit(program, i, *segment);
            }
        }
    }
}

Check sizes_agree(const ModelFile& model) {
    Findings findings("tensor sizes follow from types and shapes");
    for (const ShapeGroup& group : model.groups) {
        for (const auto* list : {&group.inputs, &group.outputs}) {
            for (const ModelTensor& tensor : *list) {
                std::uint64_t bytes = onnx::element_bytes(tensor.type);
                for (const std::uint64_t dim : tensor.dims) {
                    bytes = bytes > (std::uint64_t{1} << 40) ? bytes : bytes * dim;
                }
                if (tensor.dims.empty() || bytes != tensor.bytes) {
                    findings.add(format("group '%s': '%s' has %llu bytes in the program and %llu by its shape",
                                        group.name.c_str(), tensor.name.c_str(),
                                        static_cast<unsigned long long>(tensor.bytes),
                                        static_cast<unsigned long long>(bytes)));
                }
            }
        }
    }
    return findings.take();
}

Check constants_are_there(const ModelFile& model) {
    Findings findings("constants that programs take are there with their size");
    for (const ShapeGroup& group : model.groups) {
        for (const ProgramInput& input : group.extra_inputs) {
            const std::string& key = input.constant_key.empty() ? input.expression_key : input.constant_key;
            const onnx::Tensor* tensor = model.onnx.graph.find_initializer(key);
            if (tensor == nullptr) {
                findings.add(format("group '%s' takes '%s' for '%s', which is no initializer", group.name.c_str(),
                                    key.c_str(), input.name.c_str()));
                continue;
            }
            for (const std::size_t index : group.programs) {
                for (const NeuTensor& wanted : model.programs[index].neu.inputs) {
                    if (!input.constant_key.empty() && wanted.name == input.name &&
                        wanted.bytes != tensor->raw.size()) {
                        findings.add(format("program '%s' wants %llu bytes of '%s' and '%s' has %zu",
                                            model.programs[index].key.c_str(),
                                            static_cast<unsigned long long>(wanted.bytes), wanted.name.c_str(),
                                            key.c_str(), tensor->raw.size()));
                    }
                }
            }
        }
    }
    return findings.take();
}

Check metadata_agrees(const ModelFile& model) {
    Findings findings("metadata name the tensors and programs of the graph");
    if (!model.extra) {
        findings.add("the model has no metadata 'extra_data'");
        return findings.take();
    }
    std::set<std::string> described;
    for (const TensorExtra& tensor : model.extra->tensors) {
        described.insert(tensor.name);
    }
    for (const ShapeGroup& group : model.groups) {
        for (const auto* list : {&group.inputs, &group.outputs}) {
            for (const ModelTensor& tensor : *list) {
                if (described.count(tensor.name) == 0) {
                    findings.add(
                        format("'%s' of group '%s' is not described", tensor.name.c_str(), group.name.c_str()));
                }
            }
        }
    }
    std::set<std::string> keys;
    for (const Program& program : model.programs) {
        keys.insert(program.key);
    }
    for (const ExtraSubgraph& graph : model.extra->subgraphs) {
        for (const ExtraProgram& program : graph.programs) {
            if (keys.count(program.key) == 0) {
                findings.add(format("program '%s' is described and no node runs it", program.key.c_str()));
            }
        }
    }
    const std::uint64_t mode = model.extra->build ? model.extra->build->npu_mode.value_or(0) : 0;
    if (mode != model.npu_mode()) {
        findings.add(format("NPU mode %llu, and the programs are for mode %u", static_cast<unsigned long long>(mode),
                            model.npu_mode()));
    }
    return findings.take();
}

Check records_are_known(const ModelFile& model) {
    Findings findings("every record has a known operation and a zero byte, and starts with a version");
    each_segment(model, [&](const Program& program, std::size_t part, const Buffer& segment) {
        for (std::size_t at = 0; at + record_bytes <= segment.size(); at += record_bytes) {
            const Record record = decode_record(Bytes(segment).subspan(at, record_bytes));
            const auto code = static_cast<std::uint8_t>(record.operation);
            const bool known = record == Record{} || (code >= 0xA1 && code <= 0xA9 && code != 0xA5 && code != 0xA6);
            if (!known || record.zero != 0 || (at == 0 && record.operation != Operation::variable)) {
                findings.add(format("%s, segment %zu, record %zu: %s", program.key.c_str(), part, at / record_bytes,
                                    record_text(record, program.neu.symbols).c_str()));
            }
        }
    });
    return findings.take();
}

Check addresses_are_known(const ModelFile& model) {
    Findings findings("every relocated address is a symbol or a temporary");
    each_segment(model, [&](const Program& program, std::size_t part, const Buffer& segment) {
        for (std::size_t at = 0; at + record_bytes <= segment.size(); at += record_bytes) {
            const Record record = decode_record(Bytes(segment).subspan(at, record_bytes));
            const auto& symbols = program.neu.symbols;
            if (record.operation == Operation::relocate && record.value < first_temporary &&
                std::none_of(symbols.begin(), symbols.end(),
                             [&](const Symbol& symbol) { return symbol.index == record.value; })) {
                findings.add(format("%s, segment %zu, record %zu: register 0x%04x gets symbol %u, which has no name",
                                    program.key.c_str(), part, at / record_bytes, record.address, record.value));
            }
        }
    });
    return findings.take();
}

Check waits_have_signals(const ModelFile& model) {
    Findings findings("every wait names an event that its engine signals");
    for (const Program& program : model.programs) {
        std::set<std::pair<std::uint32_t, std::uint32_t>> signalled;
        std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> waited;
        for (std::size_t i = 0; i < program.neu.descriptors.size(); ++i) {
            const Result<Buffer> segment = segment_of(program.neu, program.neu.descriptors[i]);
            for (std::size_t at = 0; segment && at + record_bytes <= segment->size(); at += record_bytes) {
                const Record record = decode_record(Bytes(*segment).subspan(at, record_bytes));
                const Event event = event_of(record);
                if (record.operation != Operation::event) {
                    continue;
                }
                if (event.kind == EventKind::signal) {
                    signalled.insert({event.engine, event.number});
                } else if (event.kind == EventKind::wait) {
                    waited.emplace(std::pair{event.engine, event.number}, i);
                }
            }
        }
        for (const auto& [event, part] : waited) {
            if (signalled.count(event) == 0) {
                findings.add(format("%s: segment %zu waits for event %u of engine %u, which never comes",
                                    program.key.c_str(), part, event.second, event.first));
            }
        }
    }
    return findings.take();
}

Check is_written_back(const ModelFile& model) {
    Findings findings("what is written back is what was read");
    if (onnx::write_model(model.onnx) != model.bytes) {
        const Result<ModelFile> again = parse_model(onnx::write_model(model.onnx));
        if (!again || !difference(model, *again).empty()) {
            findings.add(again ? "differs in " + difference(model, *again) : again.error().message);
        }
    }
    return findings.take();
}

Check is_rebuilt(const ModelFile& model) {
    Findings findings("programs that are unpacked, packed and written anew are equivalent");
    Result<Buffer> bytes = rebuild_model(model);
    if (!bytes) {
        findings.add(bytes.error().message);
        return findings.take();
    }
    const Result<ModelFile> again = parse_model(std::move(bytes).value());
    if (!again || !difference(model, *again).empty()) {
        findings.add(again ? "differs in " + difference(model, *again) : again.error().message);
    }
    return findings.take();
}

}  // namespace

std::vector<Check> verify_model(const ModelFile& model) {
    return {sizes_agree(model),         constants_are_there(model), metadata_agrees(model), records_are_known(model),
            addresses_are_known(model), waits_have_signals(model),  is_written_back(model), is_rebuilt(model)};
}

}  // namespace npu::axera
