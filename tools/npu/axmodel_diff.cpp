// `npu axmodel diff A B`: where two models differ, by meaning and not by position: envelope, constants, tensors,
// symbols, and records of unpacked segments. This is how one finds out what a compiler does with a value: build twice
// with one thing changed, and look here.
#include <algorithm>
#include <memory>

#include "axera/records.h"
#include "axmodel.h"

namespace npu::tools {

namespace {

struct Options {
    std::string first, second;
    std::size_t lines = 20;
};

// Prints differences; of each part only the first `most`, and counts the rest.
class Report {
  public:
    explicit Report(std::size_t most) : most_(most) {}

    void part(const std::string& name) {
        end_part();
        name_ = name;
    }
    void line(const std::string& text) {
        if (count_++ == 0) {
            print(name_ + ":\n");
        }
        if (count_ <= most_) {
            print("  " + text + "\n");
        }
        ++all_;
    }
    void value(const char* what, const std::string& a, const std::string& b) {
        if (a != b) {
            line(format("%s: %s -> %s", what, a.c_str(), b.c_str()));
        }
    }
    void number(const char* what, std::uint64_t a, std::uint64_t b) {
        value(what, std::to_string(a), std::to_string(b));
    }
    std::size_t finish() {
        end_part();
        return all_;
    }

  private:
    void end_part() {
        if (count_ > most_) {
            print(format("  and %zu more (--lines)\n", count_ - most_));
        }
        count_ = 0;
    }

    std::size_t most_, count_ = 0, all_ = 0;
    std::string name_;
};

// Runs of bytes that differ.
void compare_bytes(Report& report, axera::Bytes a, axera::Bytes b) {
    report.number("bytes", a.size(), b.size());
    const std::size_t both = std::min(a.size(), b.size());
    for (std::size_t at = 0; at < both;) {
        if (a[at] == b[at]) {
            ++at;
            continue;
        }
        std::size_t end = at;
        while (end < both && a[end] != b[end]) {
            ++end;
        }
        const std::size_t shown = std::min<std::size_t>(end - at, 16);
        report.line(format("at %zu, %zu bytes: %s -> %s%s", at, end - at, axera::hex(a.subspan(at, shown)).c_str(),
                           axera::hex(b.subspan(at, shown)).c_str(), shown < end - at ? " ..." : ""));
        at = end;
    }
}

void compare_tensors(Report& report, const char* what, const std::vector<axera::NeuTensor>& a,
                     const std::vector<axera::NeuTensor>& b) {
    report.number(what, a.size(), b.size());
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        report.value(what, format("%s (%llu bytes)", a[i].name.c_str(), static_cast<unsigned long long>(a[i].bytes)),
                     format("%s (%llu bytes)", b[i].name.c_str(), static_cast<unsigned long long>(b[i].bytes)));
    }
}

std::vector<axera::Record> records_of(const axera::Neu& neu, std::size_t segment) {
    Result<axera::Buffer> bytes = axera::segment_of(neu, neu.descriptors[segment]);
    return bytes ? axera::decode_records(*bytes).value() : std::vector<axera::Record>{};
}

void compare_programs(Report& report, const axera::Program& a, const axera::Program& b) {
    report.part("program " + a.key);
    report.number("mode", a.neu.npu_mode, b.neu.npu_mode);
    report.number("words", a.neu.image.size() / 8, b.neu.image.size() / 8);
    report.number("OCM bytes", a.neu.ocm_bytes, b.neu.ocm_bytes);
    compare_tensors(report, "input", a.neu.inputs, b.neu.inputs);
    compare_tensors(report, "output", a.neu.outputs, b.neu.outputs);
    compare_tensors(report, "scratch", a.neu.scratch, b.neu.scratch);
    report.number("symbols", a.neu.symbols.size(), b.neu.symbols.size());
    report.number("segments", a.neu.descriptors.size(), b.neu.descriptors.size());
    for (std::size_t s = 0; s < std::min(a.neu.descriptors.size(), b.neu.descriptors.size()); ++s) {
        report.part(
            format("program %s, segment %zu (%s)", a.key.c_str(), s, axera::engine_name(a.neu.descriptors[s].kind)));
        const std::vector<axera::Record> x = records_of(a.neu, s);
        const std::vector<axera::Record> y = records_of(b.neu, s);
        report.number("records", x.size(), y.size());
        for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
            if (!(x[i] == y[i])) {
                report.line(format("record %zu: %s -> %s", i, axera::record_text(x[i], a.neu.symbols).c_str(),
                                   axera::record_text(y[i], b.neu.symbols).c_str()));
            }
        }
    }
}

void run(const Options& options) {
    const axera::ModelFile a = model_or_fail(options.first);
    const axera::ModelFile b = model_or_fail(options.second);
    Report report(options.lines);
    report.part("envelope");
    report.value("document", a.onnx.doc_string, b.onnx.doc_string);
    report.number("groups", a.groups.size(), b.groups.size());
    for (std::size_t g = 0; g < std::min(a.groups.size(), b.groups.size()); ++g) {
        for (const auto list : {&axera::ShapeGroup::inputs, &axera::ShapeGroup::outputs}) {
            const auto& x = a.groups[g].*list;
            const auto& y = b.groups[g].*list;
            report.number("tensors", x.size(), y.size());
            for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
                report.value("tensor", x[i].name + " " + describe(x[i]), y[i].name + " " + describe(y[i]));
            }
        }
    }
    for (const axera::onnx::Tensor& tensor : a.onnx.graph.initializers) {
        const bool is_program = std::any_of(a.programs.begin(), a.programs.end(),
                                            [&](const axera::Program& p) { return p.key == tensor.name; });
        if (is_program) {
            continue;
        }
        report.part("constant " + tensor.name);
        const axera::onnx::Tensor* other = b.onnx.graph.find_initializer(tensor.name);
        if (other == nullptr) {
            report.line("is only in the first");
        } else {
            compare_bytes(report, tensor.raw, other->raw);
        }
    }
    report.part("programs");
    report.number("programs", a.programs.size(), b.programs.size());
    for (std::size_t p = 0; p < std::min(a.programs.size(), b.programs.size()); ++p) {
        compare_programs(report, a.programs[p], b.programs[p]);
    }
    const std::size_t differences = report.finish();
    if (differences == 0 && a.bytes != b.bytes) {
        print("equivalent; the bytes of the files differ\n");
    }
    if (differences != 0) {
        fail("", 1);
    }
}

}  // namespace

void add_axmodel_diff(CLI::App& parent) {
    auto options = std::make_shared<Options>();
    CLI::App* command = parent.add_subcommand("diff", "Says where two models differ; ends with 1 when they do");
    command->add_option("A", options->first, "Model")->required()->type_name("");
    command->add_option("B", options->second, "Model")->required()->type_name("");
    command->add_option("--lines", options->lines, "Differences to print of each part (default 20)")->type_name("N");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
