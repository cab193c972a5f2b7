#include <algorithm>
#include <array>

#include "axera/flatbuffer.h"
#include "axera/neu.h"
#include "axera/segment_codec.h"

namespace npu::axera {

namespace {

// Bounds of ours, far above every known file, so that a small hostile file cannot ask for much memory.
constexpr std::size_t most_name_bytes = 1024;
constexpr std::size_t most_tensors = 4096;
constexpr std::size_t most_symbols = 16384;
constexpr std::size_t most_descriptors = 1024;
constexpr std::size_t most_option_bytes = 1U << 16;
constexpr std::uint32_t word_bytes = 8;
constexpr std::uint32_t unit_words = 4;

// Notes every field of `table` that is not listed.
void note_unknown(const FlatTable& table, const char* name, std::initializer_list<unsigned> known, Neu& neu) {
    for (unsigned field = 0; field < table.field_count(); ++field) {
        if (table.has(field) && std::find(known.begin(), known.end(), field) == known.end()) {
            std::string text = std::string(name) + "." + std::to_string(field);
            if (std::find(neu.unknown.begin(), neu.unknown.end(), text) == neu.unknown.end()) {
                neu.unknown.push_back(std::move(text));
            }
        }
    }
}

Result<std::vector<NeuTensor>> read_tensors(const FlatTable& io, unsigned field, Neu& neu) {
    std::vector<NeuTensor> tensors;
    NPU_ASSIGN(const std::vector<FlatTable> tables, io.tables(field, most_tensors));
    for (const FlatTable& table : tables) {
        note_unknown(table, "tensor", {0, 2}, neu);
        NeuTensor tensor;
        NPU_ASSIGN(auto name, table.text(0, most_name_bytes));
        tensor.name = std::move(name).value_or("");
        NPU_ASSIGN(tensor.bytes, table.number<std::uint64_t>(2));
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

Result<Descriptor> read_descriptor(const FlatTable& table, Neu& neu) {
    note_unknown(table, "descriptor", {0, 1, 2, 3, 4, 5}, neu);
    Descriptor descriptor;
    NPU_ASSIGN(descriptor.mark, table.number<std::uint8_t>(0));
    NPU_ASSIGN(const auto kind, table.number<std::uint8_t>(1));
    descriptor.kind = static_cast<EngineKind>(kind);
    NPU_ASSIGN(descriptor.words, table.number<std::uint32_t>(2));
    NPU_ASSIGN(descriptor.first_word, table.number<std::uint32_t>(3));
    NPU_ASSIGN(descriptor.packed, table.number<std::uint8_t>(4));
    NPU_ASSIGN(descriptor.packed_bytes, table.number<std::uint32_t>(5));
    return descriptor;
}

Result<void> read_commands(const FlatTable& root, Neu& neu) {
    NPU_ASSIGN(const auto commands, root.table(5));
    if (!commands) {
        return make_error(ErrorCode::invalid_argument, "NEU blob without a command table (field 5)");
    }
    note_unknown(*commands, "commands", {0, 1}, neu);
    NPU_ASSIGN(const std::vector<FlatTable> tables, commands->tables(0, most_descriptors));
    for (const FlatTable& table : tables) {
        NPU_ASSIGN(Descriptor descriptor, read_descriptor(table, neu));
        neu.descriptors.push_back(descriptor);
    }
    NPU_ASSIGN(const auto image, commands->vector(1, word_bytes));
    neu.image = image.value_or(Bytes{});
    return {};
}

Result<void> read_memory(const FlatTable& root, Neu& neu) {
    NPU_ASSIGN(const auto memory, root.table(6));
    if (!memory) {
        return {};
    }
    note_unknown(*memory, "memory", {0, 1, 2}, neu);
    NPU_ASSIGN(neu.ocm_bytes, memory->number<std::uint32_t>(0));
    NPU_ASSIGN(neu.unit, memory->number<std::uint32_t>(1));
    NPU_ASSIGN(const std::vector<FlatTable> symbols, memory->tables(2, most_symbols));
    for (const FlatTable& table : symbols) {
        note_unknown(table, "symbol", {0, 1}, neu);
        Symbol symbol;
        NPU_ASSIGN(auto name, table.text(0, most_name_bytes));
        symbol.name = std::move(name).value_or("");
        NPU_ASSIGN(symbol.index, table.number<std::uint32_t>(1));
        neu.symbols.push_back(std::move(symbol));
    }
    return {};
}

// The two tables that hold one number each.
Result<std::uint8_t> read_single(const FlatTable& root, unsigned field, Neu& neu) {
    NPU_ASSIGN(const auto table, root.table(field));
    if (!table) {
        return std::uint8_t{0};
    }
    note_unknown(*table, field == 0 ? "mark" : "version", {0}, neu);
    return table->number<std::uint8_t>(0);
}

// Whether a part unpacks to whole records and ends in zeros, so that nothing that reads it later can fail.
Result<void> check_packing(const Descriptor& part, Bytes bytes) {
    if (part.packed > 1 || (part.packed == 0 && part.packed_bytes != 0) || part.packed_bytes > bytes.size()) {
        return make_error(ErrorCode::invalid_argument,
                          "NEU blob: an %s segment of %zu bytes claims packing %u with %u packed bytes",
                          engine_name(part.kind), bytes.size(), part.packed, part.packed_bytes);
    }
    if (part.packed == 0) {
        return {};
    }
    NPU_ASSIGN(const std::size_t unpacked, unpacked_bytes(bytes.first(part.packed_bytes)));
    if (unpacked % word_bytes != 0) {
        return make_error(ErrorCode::invalid_argument,
                          "NEU blob: an %s segment unpacks to %zu bytes; records have %u each", engine_name(part.kind),
                          unpacked, word_bytes);
    }
    const Bytes rest = bytes.subspan(part.packed_bytes);
    if (std::any_of(rest.begin(), rest.end(), [](std::uint8_t byte) { return byte != 0; })) {
        return make_error(ErrorCode::invalid_argument,
                          "NEU blob: an %s segment has bytes that are not zero behind its %u packed bytes",
                          engine_name(part.kind), part.packed_bytes);
    }
    return {};
}

// Whether descriptors cut the image into parts without a gap, and each packed part ends in zeros.
Result<void> check_partition(const Neu& neu) {
    std::vector<Descriptor> order = neu.descriptors;
    std::sort(order.begin(), order.end(), [](const Descriptor& a, const Descriptor& b) {
        return a.first_word != b.first_word ? a.first_word < b.first_word : a.words < b.words;
    });
    std::uint64_t next = 0;
    for (const Descriptor& part : order) {
        if (part.first_word != next || part.words % unit_words != 0) {
            return make_error(ErrorCode::invalid_argument,
                              "NEU blob: an %s segment of %u words starts at word %u; the parts of the image must "
                              "follow each other (the next one starts at word %llu) in multiples of %u words",
                              engine_name(part.kind), part.words, part.first_word,
                              static_cast<unsigned long long>(next), unit_words);
        }
        next += part.words;
    }
    if (next * word_bytes != neu.image.size()) {
        return make_error(ErrorCode::invalid_argument,
                          "NEU blob: the segments have %llu words in all and the image has %zu",
                          static_cast<unsigned long long>(next), neu.image.size() / word_bytes);
    }
    for (const Descriptor& part : order) {
        NPU_TRY(check_packing(
            part, neu.image.subspan(std::size_t{part.first_word} * word_bytes, std::size_t{part.words} * word_bytes)));
    }
    return {};
}

}  // namespace

const char* engine_name(EngineKind kind) {
    switch (kind) {
        case EngineKind::convolution: return "conv";
        case EngineKind::vector: return "cv";
        case EngineKind::tensor: return "teng";
        case EngineKind::matrix: return "mau";
        case EngineKind::sdma: return "sdma";
    }
    return "unknown";
}

Result<Neu> read_neu(Bytes blob) {
    NPU_ASSIGN(const FlatTable root, FlatTable::root(blob));
    Neu neu;
    neu.root_fields = root.field_count();
    note_unknown(root, "root", {0, 1, 2, 3, 4, 5, 6, 8, 9}, neu);
    NPU_ASSIGN(neu.mark, read_single(root, 0, neu));
    NPU_ASSIGN(neu.version, read_single(root, 1, neu));
    NPU_ASSIGN(const auto io, root.table(2));
    if (!io) {
        return make_error(ErrorCode::invalid_argument, "NEU blob without a table of tensors (field 2)");
    }
    note_unknown(*io, "io", {0, 1, 2}, neu);
    NPU_ASSIGN(neu.inputs, read_tensors(*io, 0, neu));
    NPU_ASSIGN(neu.outputs, read_tensors(*io, 1, neu));
    NPU_ASSIGN(neu.scratch, read_tensors(*io, 2, neu));
    NPU_ASSIGN(neu.npu_mode, root.number<std::uint8_t>(3));
    NPU_ASSIGN(neu.params, root.vector(4, 1));
    NPU_TRY(read_commands(root, neu));
    NPU_TRY(read_memory(root, neu));
    NPU_ASSIGN(auto name, root.text(8, most_name_bytes));
    neu.name = std::move(name).value_or("");
    NPU_ASSIGN(auto options, root.text(9, most_option_bytes));
    neu.options = std::move(options).value_or("");
    NPU_TRY(check_partition(neu));
    return neu;
}

Result<Buffer> segment_of(const Neu& neu, const Descriptor& descriptor) {
    const std::uint64_t first = std::uint64_t{descriptor.first_word} * word_bytes;
    const std::uint64_t bytes = std::uint64_t{descriptor.words} * word_bytes;
    if (!inside(neu.image, first, bytes) || descriptor.packed_bytes > bytes) {
        return make_error(ErrorCode::invalid_argument, "a segment of %u words at word %u of an image of %zu",
                          descriptor.words, descriptor.first_word, neu.image.size() / word_bytes);
    }
    const Bytes part = neu.image.subspan(first, bytes);
    if (descriptor.packed == 0) {
        return Buffer(part.begin(), part.end());
    }
    return unpack_segment(part.first(descriptor.packed_bytes));
}

}  // namespace npu::axera
