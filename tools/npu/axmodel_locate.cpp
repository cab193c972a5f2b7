// `npu axmodel locate FILE VALUE...`: where a number stands in a model: in constants, in the envelope, in packed bytes
// as they are, and in the records that they unpack to. How one finds the size, scale or weight that a compiler hid.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "axera/records.h"
#include "axmodel.h"

namespace npu::tools {

namespace {

struct Options {
    std::string path;
    std::vector<std::string> values;
    std::string type = "auto";
};

template <typename T>
axera::Buffer bytes_of_value(T value) {
    axera::Buffer bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
}

// The bytes to look for. auto: a float32 when there is a point in the text, else 32 bits.
axera::Buffer pattern_of(const std::string& text, const std::string& type) {
    const bool is_float = type == "f32" || (type == "auto" && text.find('.') != std::string::npos);
    char* end = nullptr;
    errno = 0;
    if (is_float) {
        const float value = std::strtof(text.c_str(), &end);
        if (!text.empty() && *end == '\0') {
            return bytes_of_value(value);
        }
        fail(format("'%s' is not a number", text.c_str()));
    }
    const bool negative = !text.empty() && text[0] == '-';
    const unsigned long long value = std::strtoull(text.c_str(), &end, 0);
    const unsigned bits = type == "u8" ? 8 : type == "u16" ? 16 : type == "u64" ? 64 : 32;
    const unsigned long long magnitude = negative ? 0 - value : value;
    const unsigned long long most = bits == 64 ? ~0ULL : negative ? 1ULL << (bits - 1) : (1ULL << bits) - 1;
    if (text.empty() || *end != '\0' || errno != 0 || magnitude > most) {
        fail(format("'%s' is not a number of %u bits (--type)", text.c_str(), bits));
    }
    axera::Buffer bytes = bytes_of_value(static_cast<std::uint64_t>(value));
    bytes.resize(bits / 8);
    return bytes;
}

// Calls visit(position) for each occurrence.
template <typename Visit>
void each_occurrence(axera::Bytes bytes, const axera::Buffer& pattern, Visit visit) {
    const std::string_view text = axera::text_of(bytes);
    const std::string_view wanted = axera::text_of(pattern);
    for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + 1)) {
        visit(at);
    }
}

// Which part of the file a position belongs to.
std::string place_of(const axera::ModelFile& model, std::size_t at) {
    for (const axera::onnx::Tensor& tensor : model.onnx.graph.initializers) {
        if (at >= tensor.offset && at - tensor.offset < tensor.raw.size()) {
            return format("%s + %zu", tensor.name.c_str(), at - tensor.offset);
        }
    }
    return "envelope";
}

void run(const Options& options) {
    const axera::ModelFile model = model_or_fail(options.path);
    std::size_t found = 0;
    for (const std::string& text : options.values) {
        const axera::Buffer pattern = pattern_of(text, options.type);
        print(format("%s (bytes %s):\n", text.c_str(), axera::hex(pattern).c_str()));
        each_occurrence(model.bytes, pattern, [&](std::size_t at) {
            print(format("  file byte %zu: %s\n", at, place_of(model, at).c_str()));
            ++found;
        });
        for (const axera::Program& program : model.programs) {
            for (std::size_t s = 0; s < program.neu.descriptors.size(); ++s) {
                const Result<axera::Buffer> segment = axera::segment_of(program.neu, program.neu.descriptors[s]);
                if (!segment || program.neu.descriptors[s].packed == 0) {
                    continue;  // segments that are not packed were searched with the file
                }
                each_occurrence(*segment, pattern, [&](std::size_t at) {
                    const std::size_t record = at / axera::record_bytes;
                    const axera::Bytes eight =
                        axera::Bytes(*segment).subspan(record * axera::record_bytes, axera::record_bytes);
                    print(format("  %s, segment %zu (%s), record %zu, byte %zu: %s\n", program.key.c_str(), s,
                                 axera::engine_name(program.neu.descriptors[s].kind), record, at % axera::record_bytes,
                                 axera::record_text(axera::decode_record(eight), program.neu.symbols).c_str()));
                    ++found;
                });
            }
        }
    }
    if (found == 0) {
        fail("", 1);
    }
}

}  // namespace

void add_axmodel_locate(CLI::App& parent) {
    auto options = std::make_shared<Options>();
    CLI::App* command = parent.add_subcommand(
        "locate", "Says where numbers stand in a model, packed records included; ends with 1 when nowhere");
    command->add_option("FILE", options->path, "Model")->required()->type_name("");
    command->add_option("VALUE", options->values, "Numbers, as in 0x34888, 10000, -3 or 0.25")
        ->required()
        ->type_name("");
    command->add_option("--type", options->type, "How numbers are stored (default auto: f32 with a point, else u32)")
        ->check(CLI::IsMember({"auto", "u8", "u16", "u32", "u64", "f32"}))
        ->type_name("TYPE");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
