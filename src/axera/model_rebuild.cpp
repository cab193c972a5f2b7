// Writing a whole model anew, and comparing two by their values: how the writers are shown to lose nothing.
#include <algorithm>

#include "axera/model_file.h"

namespace npu::axera {

namespace {

Result<std::vector<Buffer>> segments_of(const Neu& neu) {
    std::vector<Buffer> segments;
    for (const Descriptor& descriptor : neu.descriptors) {
        NPU_ASSIGN(Buffer segment, segment_of(neu, descriptor));
        segments.push_back(std::move(segment));
    }
    return segments;
}

std::string difference(const Neu& a, const Neu& b) {
    if (a.mark != b.mark || a.version != b.version || a.npu_mode != b.npu_mode || a.name != b.name ||
        a.options != b.options || a.unknown != b.unknown) {
        return "header";
    }
    if (a.inputs != b.inputs || a.outputs != b.outputs || a.scratch != b.scratch) {
        return "tensors";
    }
    if (a.ocm_bytes != b.ocm_bytes || a.unit != b.unit || a.symbols != b.symbols) {
        return "symbols";
    }
    if (a.params.has_value() != b.params.has_value() ||
        (a.params && !std::equal(a.params->begin(), a.params->end(), b.params->begin(), b.params->end()))) {
        return "params";
    }
    const bool same_parts = std::equal(a.descriptors.begin(), a.descriptors.end(), b.descriptors.begin(),
                                       b.descriptors.end(), [](const Descriptor& x, const Descriptor& y) {
                                           return x.mark == y.mark && x.kind == y.kind && x.packed == y.packed;
                                       });
    if (!same_parts) {
        return "descriptors";
    }
    for (std::size_t i = 0; i < a.descriptors.size(); ++i) {
        const Result<Buffer> x = segment_of(a, a.descriptors[i]);
        const Result<Buffer> y = segment_of(b, b.descriptors[i]);
        if (!x || !y || *x != *y) {
            return format("segments[%zu]", i);
        }
    }
    return "";
}

// The envelope without programs, as bytes.
Buffer envelope_of(const ModelFile& model) {
    onnx::Model envelope = model.onnx;
    for (const Program& program : model.programs) {
        envelope.graph.initializers[program.initializer].raw = {};
        envelope.graph.initializers[program.initializer].dims = {};
    }
    return onnx::write_model(envelope);
}

}  // namespace

Result<Buffer> rebuild_model(const ModelFile& model) {
    onnx::Model rebuilt = model.onnx;
    std::vector<Buffer> blobs(model.programs.size());
    for (std::size_t i = 0; i < model.programs.size(); ++i) {
        Neu neu = model.programs[i].neu;
        NPU_ASSIGN(const std::vector<Buffer> segments, segments_of(neu));
        Buffer image;
        NPU_TRY(set_segments(neu, segments, image));
        NPU_ASSIGN(blobs[i], write_neu(neu));
        onnx::Tensor& tensor = rebuilt.graph.initializers[model.programs[i].initializer];
        tensor.raw = blobs[i];
        tensor.dims = {blobs[i].size()};
    }
    return onnx::write_model(rebuilt);
}

std::string difference(const ModelFile& a, const ModelFile& b) {
    if (a.programs.size() != b.programs.size()) {
        return "number of programs";
    }
    if (envelope_of(a) != envelope_of(b)) {
        return "envelope";
    }
    for (std::size_t i = 0; i < a.programs.size(); ++i) {
        const std::string where = difference(a.programs[i].neu, b.programs[i].neu);
        if (!where.empty()) {
            return format("programs[%zu].%s", i, where.c_str());
        }
    }
    return "";
}

}  // namespace npu::axera
