#include <algorithm>
#include <numeric>

#include "axera/flatbuffer.h"
#include "axera/neu.h"
#include "axera/segment_codec.h"

namespace npu::axera {

namespace {

constexpr std::size_t part_bytes = 32;  // four words of 8 bytes

void write_tensors(FlatWriter& to, std::size_t place, const std::vector<NeuTensor>& tensors) {
    const std::size_t first = to.distances(place, tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const FlatLinks table = to.table({{0, 0}, {2, 8, tensors[i].bytes}});
        to.link(first + 4 * i, table.table);
        to.text(table.field[0], tensors[i].name);
    }
}

void write_single(FlatWriter& to, std::size_t place, std::uint8_t value) {
    to.link(place, to.table({{0, 1, value}}).table);
}

void write_memory(FlatWriter& to, std::size_t place, const Neu& neu) {
    const FlatLinks memory = to.table({{0, 4, neu.ocm_bytes}, {1, 4, neu.unit}, {2, 0}});
    to.link(place, memory.table);
    const std::size_t first = to.distances(memory.field[2], neu.symbols.size());
    for (std::size_t i = 0; i < neu.symbols.size(); ++i) {
        const FlatLinks symbol = to.table({{0, 0}, {1, 4, neu.symbols[i].index}});
        to.link(first + 4 * i, symbol.table);
        to.text(symbol.field[0], neu.symbols[i].name);
    }
}

void write_commands(FlatWriter& to, std::size_t place, const Neu& neu) {
    const FlatLinks commands = to.table({{0, 0}, {1, 0}});
    to.link(place, commands.table);
    to.vector(commands.field[1], neu.image, 8);
    const std::size_t first = to.distances(commands.field[0], neu.descriptors.size());
    for (std::size_t i = 0; i < neu.descriptors.size(); ++i) {
        const Descriptor& part = neu.descriptors[i];
        to.link(first + 4 * i, to.table({{0, 1, part.mark},
                                         {1, 1, static_cast<std::uint8_t>(part.kind)},
                                         {2, 4, part.words},
                                         {3, 4, part.first_word},
                                         {4, 1, part.packed},
                                         {5, 4, part.packed_bytes}})
                                   .table);
    }
}

}  // namespace

Result<Buffer> write_neu(const Neu& neu) {
    if (!neu.unknown.empty()) {
        return make_error(ErrorCode::unsupported,
                          "this NEU blob has the field %s, whose meaning is not known; it can be kept as it is but not "
                          "written anew",
                          neu.unknown.front().c_str());
    }
    FlatWriter to;
    const FlatLinks root =
        neu.params ? to.table({{0, 0}, {1, 0}, {2, 0}, {3, 1, neu.npu_mode}, {4, 0}, {5, 0}, {6, 0}, {8, 0}, {9, 0}})
                   : to.table({{0, 0}, {1, 0}, {2, 0}, {3, 1, neu.npu_mode}, {5, 0}, {6, 0}, {8, 0}, {9, 0}});
    write_commands(to, root.field[5], neu);
    write_memory(to, root.field[6], neu);
    const FlatLinks io = to.table({{0, 0}, {1, 0}, {2, 0}});
    to.link(root.field[2], io.table);
    write_tensors(to, io.field[0], neu.inputs);
    write_tensors(to, io.field[1], neu.outputs);
    write_tensors(to, io.field[2], neu.scratch);
    write_single(to, root.field[0], neu.mark);
    write_single(to, root.field[1], neu.version);
    if (neu.params) {
        to.vector(root.field[4], *neu.params, 1);
    }
    to.text(root.field[8], neu.name);
    to.text(root.field[9], neu.options);
    return to.take();
}

Result<void> set_segments(Neu& neu, const std::vector<Buffer>& segments, Buffer& image) {
    if (segments.size() != neu.descriptors.size()) {
        return make_error(ErrorCode::invalid_argument, "%zu segments for %zu descriptors", segments.size(),
                          neu.descriptors.size());
    }
    // The parts keep their order in the image.
    std::vector<std::size_t> order(segments.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return neu.descriptors[a].first_word < neu.descriptors[b].first_word;
    });
    image.clear();
    for (const std::size_t i : order) {
        if (segments[i].size() % 8 != 0) {
            return make_error(ErrorCode::invalid_argument, "segment %zu has %zu bytes; records have 8 each", i,
                              segments[i].size());
        }
        Descriptor& part = neu.descriptors[i];
        const Buffer packed = part.packed != 0 ? pack_segment(segments[i]) : segments[i];
        const std::size_t padded = (packed.size() + part_bytes - 1) / part_bytes * part_bytes;
        part.first_word = static_cast<std::uint32_t>(image.size() / 8);
        part.words = static_cast<std::uint32_t>(padded / 8);
        part.packed_bytes = part.packed != 0 ? static_cast<std::uint32_t>(packed.size()) : 0;
        image.insert(image.end(), packed.begin(), packed.end());
        image.resize(image.size() + padded - packed.size());
    }
    neu.image = image;
    return {};
}

}  // namespace npu::axera
