// The layers of the container one by one, and models of our own builder through all of them.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "axera/base64.h"
#include "axera/flatbuffer.h"
#include "axera/models.h"
#include "axera/records.h"
#include "base/sha256.h"

namespace npu::axera::test {
namespace {

TEST(Sha256, gives_the_published_digests) {
    EXPECT_EQ(sha256(bytes_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256(Buffer(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Base64, reads_what_it_writes_and_refuses_what_no_encoder_makes) {
    EXPECT_EQ(encode_base64(bytes_of("f")), "Zg==");
    EXPECT_EQ(encode_base64(bytes_of("fo")), "Zm8=");
    EXPECT_EQ(encode_base64(bytes_of("foobar")), "Zm9vYmFy");
    std::mt19937 random(1);
    for (std::size_t size = 0; size < 50; ++size) {
        Buffer bytes(size);
        for (auto& byte : bytes) {
            byte = static_cast<std::uint8_t>(random());
        }
        EXPECT_EQ(must(decode_base64(encode_base64(bytes))), bytes);
    }
    for (const char* bad : {"Z", "Zg=", "Zg=a", "Z===", "====", "Zg==Zg==", "Z g="}) {
        EXPECT_FALSE(decode_base64(bad).ok()) << bad;
    }
}

TEST(Wire, numbers_of_all_sizes_come_back) {
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128},
                                      std::uint64_t{1} << 35, std::numeric_limits<std::uint64_t>::max()}) {
        WireWriter to;
        to.varint(3, value);
        const Buffer message = to.take();
        WireReader reader(message, "test");
        const WireField field = must(reader.next());
        EXPECT_EQ(field.number, 3U);
        EXPECT_EQ(field.value, value);
        EXPECT_TRUE(reader.at_end());
    }
}

TEST(Wire, fields_that_nobody_knows_are_kept_in_their_place) {
    // A model with fields 3 (producer version), 5 (model version) and 20, none of which is spelt out.
    const Buffer file{0x08, 8, 0x1A, 1, 'v', 0x28, 7, 0x3A, 2, 0x52, 0, 0xA2, 1, 2, 1, 2};
    const onnx::Model model = must(onnx::read_model(file));
    EXPECT_EQ(model.unknown.size(), 3U);
    EXPECT_EQ(model.graph.unknown.size(), 1U);
    EXPECT_EQ(onnx::write_model(model), file);
}

TEST(Wire, packed_dimensions_are_read_like_unpacked_ones) {
    const Buffer packed{0x3A, 8, 0x2A, 6, 0x0A, 4, 0x03, 0x80, 0x01, 0x05};
    const onnx::Model model = must(onnx::read_model(packed));
    ASSERT_EQ(model.graph.initializers.size(), 1U);
    EXPECT_EQ(model.graph.initializers[0].dims, (std::vector<std::uint64_t>{3, 128, 5}));
    EXPECT_FALSE(onnx::read_model(Buffer{0x3A, 5, 0x2A, 3, 0x0A, 1, 0x80}).ok());
}

TEST(FlatBuffer, numbers_tables_vectors_and_texts_come_back_from_aligned_places) {
    FlatWriter to;
    const FlatLinks root = to.table({{0, 1, 7}, {1, 8, 0x123456789ABCDEF0}, {2, 4, 0}, {3, 0}, {4, 0}, {6, 0}});
    const Buffer words(24, 0xEE);
    to.vector(root.field[3], words, 8);
    to.text(root.field[4], "name");
    to.link(root.field[6], to.table({{1, 2, 0xABCD}}).table);
    const Buffer blob = to.take();
    const FlatTable table = must(FlatTable::root(blob));
    EXPECT_EQ(must(table.number<std::uint8_t>(0)), 7);
    EXPECT_EQ(must(table.number<std::uint64_t>(1)), 0x123456789ABCDEF0U);
    EXPECT_FALSE(table.has(2));
    EXPECT_EQ(must(table.number<std::uint32_t>(2, 5)), 5U);
    const Bytes vector = must(table.vector(3, 8)).value();
    EXPECT_TRUE(std::equal(vector.begin(), vector.end(), words.begin(), words.end()));
    EXPECT_EQ((vector.data() - blob.data()) % 8, 0);
    EXPECT_EQ(must(table.text(4, 10)).value(), "name");
    EXPECT_FALSE(table.text(4, 3).ok());
    EXPECT_FALSE(must(table.table(5)).has_value());
    EXPECT_EQ(must(must(table.table(6)).value().number<std::uint16_t>(1)), 0xABCD);
    EXPECT_FALSE(table.number<std::uint64_t>(6).ok() && table.number<std::uint64_t>(0).ok() &&
                 must(table.number<std::uint64_t>(0)) == 7);  // a field read as a wider one is not that number
}

TEST(Records, text_names_registers_symbols_and_events) {
    const std::vector<Symbol> symbols{{"_ocm_base", 0}, {"x", 1}};
    const auto text = [&](const char* bytes) { return record_text(decode_record(Buffer(bytes, bytes + 8)), symbols); };
    EXPECT_EQ(text("\xa1\x00\xd0\x04\x04\x00\x00\x00"), "write    0x04d0 = 0x00000004");
    EXPECT_EQ(text("\xa8\x00\x50\x02\x01\x00\x00\x00"), "address  0x0250 = x");
    EXPECT_EQ(text("\xa8\x00\x50\x02\x10\x00\x00\x00"), "address  0x0250 = temporary 16");
    EXPECT_EQ(text("\xa2\x00\x00\x00\x13\x00\x70\x00"), "wait     engine 7 event 1");
    EXPECT_EQ(text("\xa2\x00\x00\x00\x01\x00\x00\x00"), "end      engine 0 event 0");
    EXPECT_EQ(text("\x00\x00\x00\x00\x00\x00\x00\x00"), "padding");
    EXPECT_NE(text("\x55\x00\x01\x00\x02\x00\x00\x00").find("unknown  0x55"), std::string::npos);
    Buffer again;
    append_record(again, decode_record(Buffer{0xa8, 0, 0x50, 2, 1, 2, 3, 4}));
    EXPECT_EQ(again, (Buffer{0xa8, 0, 0x50, 2, 1, 2, 3, 4}));
}

TEST(Builder, a_layer_model_has_the_groups_names_and_sizes_of_its_recipe) {
    for (const bool three_thirds : {false, true}) {
        const ModelRecipe recipe = layer_recipe(three_thirds);
        const ModelFile model = must(parse_model(must(build_model(recipe))));
        ASSERT_EQ(model.groups.size(), 3U);
        EXPECT_EQ(model.programs.size(), 3U);
        EXPECT_EQ(model.npu_mode(), three_thirds ? 2 : 0);
        EXPECT_EQ(model.programs[0].neu.descriptors.size(), three_thirds ? 15U : 5U);
        EXPECT_EQ(model.constant_bytes(), recipe.params.size());
        EXPECT_EQ(model.groups[0].inputs[4].name, "mask");
        EXPECT_EQ(model.groups[2].inputs[4].name, "mask_2");
        EXPECT_EQ(model.groups[2].inputs[4].base_name, "mask");
        EXPECT_EQ(model.groups[2].inputs[4].dims, (std::vector<std::uint64_t>{1, 16, 80}));
        EXPECT_EQ(model.groups[2].inputs[4].bytes, 16U * 80U * 2U);
        EXPECT_EQ(model.groups[1].outputs[0].base_name, "K_cache_out");
        ASSERT_TRUE(model.extra.has_value());
        EXPECT_EQ(model.extra->tensors.back().group_index, 2U);
        const Bytes params = model.onnx.graph.find_initializer("npu_params")->raw;
        EXPECT_TRUE(std::equal(params.begin(), params.end(), recipe.params.begin(), recipe.params.end()));
        EXPECT_EQ(difference(model, must(parse_model(must(rebuild_model(model))))), "");
    }
}

TEST(Builder, a_difference_between_two_models_is_found_and_named) {
    ModelRecipe recipe = layer_recipe(true);
    const ModelFile model = must(parse_model(must(build_model(recipe))));
    recipe.params[500] ^= 1;
    EXPECT_EQ(difference(model, must(parse_model(must(build_model(recipe))))), "envelope");
    recipe = layer_recipe(true);
    recipe.groups[2].inputs[0].dims[1] = 65;
    EXPECT_NE(difference(model, must(parse_model(must(build_model(recipe))))), "");
    EXPECT_NE(difference(model, must(parse_model(must(build_model(layer_recipe(false)))))), "");
}

TEST(Builder, recipes_without_meaning_are_refused) {
    EXPECT_FALSE(build_model({}).ok());
    ModelRecipe recipe = layer_recipe(true);
    recipe.groups[1].inputs[0].name = "other";
    EXPECT_FALSE(build_model(recipe).ok());
    recipe = layer_recipe(true);
    recipe.groups[0].inputs[0].dims = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
    EXPECT_FALSE(build_model(recipe).ok());
}

}  // namespace
}  // namespace npu::axera::test
