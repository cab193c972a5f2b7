// Files that are cut off, changed or made to mislead: an error that says so, never a crash, a hang or a read outside
// (the sanitizer build runs this as well).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "axera/base64.h"
#include "axera/flatbuffer.h"
#include "axera/models.h"
#include "axera/records.h"

namespace npu::axera::test {
namespace {

std::vector<Buffer> samples() {
    std::vector<Buffer> files{must(build_model(layer_recipe(true))), must(build_model(layer_recipe(false)))};
    if (const auto folder = model_folder()) {
        for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
            if (entry.path().extension() == ".axmodel") {
                files.push_back(must(read_bytes(entry.path())));
            }
        }
    }
    return files;
}

// Reads everything that can be read; what is accepted must come out of the writers as it was.
bool accepts(const Buffer& file) {
    Result<ModelFile> model = parse_model(file);
    if (!model) {
        EXPECT_FALSE(model.error().message.empty());
        return false;
    }
    const Buffer written = onnx::write_model(model->onnx);
    Result<ModelFile> again = parse_model(written);
    if (!again) {
        ADD_FAILURE() << again.error().message;
        return true;
    }
    EXPECT_EQ(difference(*model, *again), "");
    for (const Program& program : model->programs) {
        for (const Descriptor& part : program.neu.descriptors) {
            (void)segment_of(program.neu, part);
        }
    }
    return true;
}

TEST(HostileModels, a_file_cut_off_at_any_byte_is_refused_until_the_graph_is_complete) {
    for (const Buffer& file : samples()) {
        ASSERT_TRUE(accepts(file));
        std::size_t refused = 0;
        std::size_t shortest = file.size();
        for (std::size_t size = 0; size < file.size(); ++size) {
            const Buffer cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
            if (accepts(cut)) {
                shortest = std::min(shortest, size);
            } else {
                ++refused;
            }
        }
        // Behind the graph come the operator set and the metadata: a file may end between them, and nowhere else.
        EXPECT_GE(file.size() - refused, 1U);
        EXPECT_LE(file.size() - refused, 4U);
        EXPECT_GT(shortest, file.size() * 3 / 4);
    }
}

TEST(HostileModels, any_changed_byte_is_survived) {
    std::mt19937 random(5);
    std::size_t refused = 0;
    std::size_t accepted = 0;
    for (const Buffer& file : samples()) {
        for (int i = 0; i < 1500; ++i) {
            Buffer changed = file;
            for (unsigned n = 0; n <= random() % 3; ++n) {
                changed[random() % changed.size()] = static_cast<std::uint8_t>(random());
            }
            ++(accepts(changed) ? accepted : refused);
        }
    }
    EXPECT_GT(refused, 100U);
    EXPECT_GT(accepted, 100U);
}

TEST(HostileModels, a_program_cut_off_or_changed_anywhere_is_survived) {
    const ModelFile model = must(parse_model(must(build_model(layer_recipe(true)))));
    const Bytes blob = model.onnx.graph.initializers[model.programs[0].initializer].raw;
    for (std::size_t size = 0; size < blob.size(); ++size) {
        (void)read_neu(blob.first(size));
    }
    std::size_t refused = 0;
    for (std::size_t at = 0; at < blob.size(); ++at) {
        for (const std::uint8_t value : {0x00, 0x7F, 0x80, 0xFF}) {
            Buffer changed(blob.begin(), blob.end());
            changed[at] = value;
            const Result<Neu> neu = read_neu(changed);
            refused += neu ? 0 : 1;
            if (!neu) {
                continue;
            }
            for (const Descriptor& part : neu->descriptors) {
                (void)segment_of(*neu, part);
            }
        }
    }
    EXPECT_GT(refused, blob.size() / 10);
}

TEST(HostileModels, errors_say_what_is_wrong_and_what_the_file_should_be) {
    const auto message = [](Buffer file) { return parse_model(std::move(file)).error().message; };
    EXPECT_NE(message({}).find("holds no ONNX graph"), std::string::npos);
    const std::string text = "GGUF and nothing of ours";
    EXPECT_FALSE(message(Buffer(text.begin(), text.end())).empty());
    EXPECT_NE(message({0x3A, 0x00}).find("not compiled for the NPU"), std::string::npos);  // an empty graph
    EXPECT_NE(message({0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02}).find("more than 64 bits"),
              std::string::npos);
    EXPECT_NE(message({0x3A, 0x7F, 0x00}).find("wants 127 bytes and 1 are left"), std::string::npos);
    EXPECT_NE(message({0x0B}).find("wire type 3"), std::string::npos);
    EXPECT_NE(read_model_file("/nonexistent.axmodel").error().message.find("cannot open '/nonexistent.axmodel'"),
              std::string::npos);
}

TEST(HostileModels, descriptors_that_overlap_or_leave_a_gap_are_refused) {
    const ModelFile model = must(parse_model(must(build_model(layer_recipe(false)))));
    const Neu& good = model.programs[0].neu;
    const auto refused_with = [&](std::size_t part, std::uint32_t Descriptor::*field, std::uint32_t value) {
        Neu bad = good;
        bad.descriptors[part].*field = value;
        const Buffer blob = must(write_neu(bad));
        const Result<Neu> read = read_neu(blob);
        return read ? std::string() : read.error().message;
    };
    EXPECT_NE(refused_with(0, &Descriptor::first_word, 0).find("must follow each other"), std::string::npos);
    EXPECT_NE(refused_with(0, &Descriptor::first_word, 4096).find("must follow each other"), std::string::npos);
    EXPECT_NE(refused_with(0, &Descriptor::words, 8).find("words in all"), std::string::npos);
    EXPECT_NE(refused_with(4, &Descriptor::packed_bytes, 4096).find("packed bytes"), std::string::npos);
    EXPECT_NE(refused_with(0, &Descriptor::packed_bytes, 1).find("packed bytes"), std::string::npos);
    EXPECT_EQ(refused_with(0, &Descriptor::words, good.descriptors[0].words), "");
}

TEST(HostileModels, the_same_name_a_million_times_does_not_take_a_terabyte) {
    // A vector of tables that all are one table with one long name: few bytes in the file, many in memory.
    FlatWriter to;
    const FlatLinks root = to.table({{2, 0}});
    const FlatLinks io = to.table({{0, 0}});
    to.link(root.field[2], io.table);
    constexpr std::size_t count = 1000000;
    const std::size_t first = to.distances(io.field[0], count);
    const FlatLinks tensor = to.table({{0, 0}});
    to.text(tensor.field[0], std::string(1000000, 'x'));
    for (std::size_t i = 0; i < count; ++i) {
        to.link(first + 4 * i, tensor.table);
    }
    const Buffer blob = to.take();
    const Result<Neu> neu = read_neu(blob);
    ASSERT_FALSE(neu.ok());
    EXPECT_NE(neu.error().message.find("accepted are"), std::string::npos) << neu.error().message;
}

}  // namespace
}  // namespace npu::axera::test
