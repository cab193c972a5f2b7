// `npu axmodel` as a user runs it, on models of our own builder and on the mock of the AXCL runtime.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "axera/model_builder.h"
#include "axera/weight_patch.h"
#include "base/sha256.h"
#include "tools/run_command.h"

namespace npu::tools::test {
namespace {

using axera::Buffer;
using axera::onnx::ElementType;

std::string text(const Buffer& bytes) { return {bytes.begin(), bytes.end()}; }

std::string write_model(const std::string& name, const axera::ModelRecipe& recipe) {
    return write(name, text(axera::build_model(recipe).value()));
}

axera::ModelRecipe two_groups() {
    axera::ModelRecipe recipe = axera::matmul_recipe(ElementType::int8, 4, 6, 16);
    axera::GroupRecipe longer = recipe.groups.front();
    longer.inputs[0].dims[0] = 9;
    longer.outputs[0].dims[0] = 9;
    recipe.groups.push_back(longer);
    return recipe;
}

// Variables for the commands of one test.
class Environment {
  public:
    using Values = std::map<std::string, std::string>;
    explicit Environment(Values values) : values_(std::move(values)) {
        for (const auto& [name, value] : values_) {
            setenv(name.c_str(), value.c_str(), 1);
        }
    }
    ~Environment() {
        for (const auto& [name, value] : values_) {
            unsetenv(name.c_str());
        }
    }

  private:
    std::map<std::string, std::string> values_;
};

TEST(AxmodelCommand, inspect_names_groups_tensors_and_segments) {
    write_model("two.axmodel", two_groups());
    const Output plain = run("axmodel inspect two.axmodel");
    EXPECT_EQ(plain.status, 0) << plain.error;
    EXPECT_NE(plain.out.find("group 1: subgraph_npu_1"), std::string::npos);
    EXPECT_NE(plain.out.find("x_1              s8 [9, 16], 144 bytes"), std::string::npos);
    EXPECT_NE(plain.out.find("segment 14  conv"), std::string::npos);
    const nlohmann::json json = nlohmann::json::parse(run("axmodel inspect --json two.axmodel").out);
    EXPECT_EQ(json["groups"].size(), 2U);
    EXPECT_EQ(json["groups"][1]["outputs"][0]["shape"], (std::vector<int>{9, 6}));
    EXPECT_EQ(json["programs"][0]["segments"].size(), 15U);
    EXPECT_FALSE(json.contains("sha256"));
}

TEST(AxmodelCommand, a_manifest_has_the_digest_of_the_file_and_of_each_part) {
    write_model("two.axmodel", two_groups());
    const nlohmann::json json = nlohmann::json::parse(run("axmodel manifest two.axmodel").out);
    const std::string file = read("two.axmodel");
    EXPECT_EQ(json["sha256"], npu::sha256(axera::bytes_of(file)));
    const std::size_t offset = json["initializers"][0]["offset"];
    const std::size_t bytes = json["initializers"][0]["bytes"];
    EXPECT_EQ(json["initializers"][0]["sha256"], npu::sha256(axera::bytes_of(file.substr(offset, bytes))));
    EXPECT_TRUE(json["programs"][1]["segments"][3].contains("sha256"));
}

TEST(AxmodelCommand, disasm_prints_chosen_segments) {
    write_model("two.axmodel", two_groups());
    const Output one = run("axmodel disasm two.axmodel --program 1 --segment 0");
    EXPECT_NE(one.out.find("signal   engine 14 event 1"), std::string::npos);
    EXPECT_EQ(one.out.find("segment 1 "), std::string::npos);
    const Output none = run("axmodel disasm two.axmodel --program 7");
    EXPECT_EQ(none.status, 2);
    EXPECT_NE(none.error.find("has 2 programs"), std::string::npos);
    const nlohmann::json json = nlohmann::json::parse(run("axmodel disasm --json two.axmodel").out);
    EXPECT_EQ(json.size(), 30U);
}

TEST(AxmodelCommand, diff_ends_with_1_and_names_what_differs) {
    axera::ModelRecipe recipe = two_groups();
    write_model("a.axmodel", recipe);
    recipe.params[40] = 7;
    write_model("b.axmodel", recipe);
    EXPECT_EQ(run("axmodel diff a.axmodel a.axmodel").status, 0);
    const Output differs = run("axmodel diff a.axmodel b.axmodel");
    EXPECT_EQ(differs.status, 1);
    EXPECT_EQ(differs.out, "constant npu_params:\n  at 40, 1 bytes: 00 -> 07\n");
    recipe.three_thirds = false;
    write_model("c.axmodel", recipe);
    EXPECT_NE(run("axmodel diff b.axmodel c.axmodel").out.find("segments: 15 -> 5"), std::string::npos);
}

TEST(AxmodelCommand, locate_finds_numbers_in_constants_and_in_packed_records) {
    axera::ModelRecipe recipe = two_groups();
    const float scale = 0.3125F;
    std::memcpy(recipe.params.data() + 12, &scale, sizeof(scale));
    write_model("a.axmodel", recipe);
    const Output found = run("axmodel locate a.axmodel 0.3125");
    EXPECT_EQ(found.status, 0);
    EXPECT_NE(found.out.find("npu_params + 12"), std::string::npos) << found.out;
    // The last segment is packed and waits for event 1 of engine 14.
    const Output record = run("axmodel locate a.axmodel 0x00e00013");
    EXPECT_NE(record.out.find("segment 14 (conv), record 14, byte 4: wait     engine 14 event 1"), std::string::npos)
        << record.out;
    EXPECT_EQ(run("axmodel locate a.axmodel 0.31250001788").status, 1);
    EXPECT_EQ(run("axmodel locate a.axmodel 300 --type u8").status, 2);
    EXPECT_EQ(run("axmodel locate a.axmodel twelve").status, 2);
}

TEST(AxmodelCommand, verify_passes_good_models_and_says_where_bad_ones_are_wrong) {
    write_model("a.axmodel", two_groups());
    EXPECT_EQ(run("axmodel verify a.axmodel").status, 0);
    std::string file = read("a.axmodel");
    write("cut.axmodel", file.substr(0, file.size() / 2));
    const Output cut = run("axmodel verify a.axmodel cut.axmodel");
    EXPECT_EQ(cut.status, 1);
    EXPECT_NE(cut.out.find("BAD  cut.axmodel: "), std::string::npos);
    // A constant of another name than the program asks for.
    const std::size_t at = file.rfind("npu_params");
    ASSERT_NE(at, std::string::npos);
    const std::size_t first = file.find("\x42\x0anpu_params");
    ASSERT_NE(first, std::string::npos);
    file[first + 2] = 'm';
    write("bad.axmodel", file);
    const Output bad = run("axmodel verify bad.axmodel");
    EXPECT_EQ(bad.status, 1);
    EXPECT_NE(bad.out.find("which is no initializer"), std::string::npos) << bad.out;
}

TEST(AxmodelCommand, patch_puts_weights_where_structure_finds_them_and_refuses_the_rest) {
    const axera::WeightLayout layout{};
    axera::WeightPart part{std::vector<std::int8_t>(32 * 40), std::vector<float>(32, 0.01F)};
    for (std::size_t i = 0; i < part.q.size(); ++i) {
        part.q[i] = static_cast<std::int8_t>(static_cast<int>(i * 7 % 16) - 8);
    }
    axera::ModelRecipe recipe = two_groups();
    const Buffer matrix = axera::write_part(layout, 40, part).value();
    recipe.params.insert(recipe.params.end(), matrix.begin(), matrix.end());
    recipe.params.insert(recipe.params.end(), matrix.begin(), matrix.end());
    write_model("template.axmodel", recipe);
    const Output places = run("axmodel weights template.axmodel 32x40");
    EXPECT_NE(places.out.find("npu_params[1] 32x40 at byte " + std::to_string(64 + matrix.size()) + ": s4"),
              std::string::npos)
        << places.out;
    EXPECT_EQ(run("axmodel weights template.axmodel 32x44").status, 1);

    std::string weights;
    for (int i = 0; i < 32 * 40; ++i) {
        const float value = static_cast<float>(i % 29 - 14) / 64.0F;
        weights.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    write("w.f32", weights);
    const Output which = run("axmodel patch template.axmodel out.axmodel --weights 32x40=w.f32");
    EXPECT_EQ(which.status, 2);
    EXPECT_NE(which.error.find("holds 2 matrices"), std::string::npos) << which.error;
    const Output done = run("axmodel patch template.axmodel out.axmodel --weights 32x40@1=w.f32");
    ASSERT_EQ(done.status, 0) << done.error;
    EXPECT_EQ(run("axmodel verify out.axmodel").status, 0);
    const std::string before = read("template.axmodel");
    const std::string after = read("out.axmodel");
    ASSERT_EQ(before.size(), after.size());
    std::size_t changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        changed += before[i] != after[i] ? 1 : 0;
    }
    EXPECT_GT(changed, matrix.size() / 2);
    EXPECT_LE(changed, matrix.size());
    EXPECT_NE(run("axmodel diff template.axmodel out.axmodel").out.find("constant npu_params:"), std::string::npos);
    write("short.f32", weights.substr(2));
    EXPECT_NE(
        run("axmodel patch template.axmodel out.axmodel --weights 32x40@0=short.f32").error.find("float32 have 5120"),
        std::string::npos);
    EXPECT_EQ(run("axmodel patch template.axmodel out.axmodel --weights 32x40@2=w.f32").status, 2);
    EXPECT_EQ(run("axmodel patch template.axmodel out.axmodel --weights 32by40=w.f32").status, 2);
}

TEST(AxmodelCommand, run_multiplies_on_the_mock_in_process_and_through_the_library) {
    write_model("two.axmodel", two_groups());
    Buffer x(9 * 16);
    Buffer y(6 * 16);
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<std::uint8_t>(i * 37 + 128);
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
        y[i] = static_cast<std::uint8_t>(i * 91 + 5);
    }
    write("x.bin", text(x));
    write("y.bin", text(y));
    const std::string arguments =
        "axmodel run two.axmodel --group 1 --input x=x.bin --input y=y.bin --output r=r.bin --async";
    for (const bool in_process : {true, false}) {
        const Environment environment(in_process ? Environment::Values{{"GGML_AXERA_MOCK", "1"}}
                                                 : Environment::Values{{"GGML_NPU_AXERA_LIBRARY", NPU_AXCL_MOCK}});
        write("r.bin", "");
        const Output output = run(arguments);
        ASSERT_EQ(output.status, 0) << output.error;
        const std::string bytes = read("r.bin");
        ASSERT_EQ(bytes.size(), 9U * 6U * 4U);
        for (std::size_t m = 0; m < 9; ++m) {
            for (std::size_t n = 0; n < 6; ++n) {
                std::int64_t sum = 0;
                for (std::size_t k = 0; k < 16; ++k) {
                    sum +=
                        std::int64_t{static_cast<std::int8_t>(x[m * 16 + k])} * static_cast<std::int8_t>(y[n * 16 + k]);
                }
                float value = 0;
                std::memcpy(&value, bytes.data() + (m * 6 + n) * 4, 4);
                EXPECT_EQ(value, static_cast<float>(sum));
            }
        }
    }
}

TEST(AxmodelCommand, run_says_what_is_wrong) {
    write_model("two.axmodel", two_groups());
    write("short.bin", "abc");
    const Environment mock(Environment::Values{{"GGML_NPU_AXERA_MOCK", "1"}});
    const auto error = [](const std::string& arguments) {
        const Output output = run("axmodel run " + arguments);
        EXPECT_EQ(output.status, 2) << arguments;
        return output.error;
    };
    EXPECT_NE(error("nothing.axmodel").find("cannot open 'nothing.axmodel'"), std::string::npos);
    EXPECT_NE(error("two.axmodel --group 2").find("which has 2"), std::string::npos);
    EXPECT_NE(error("two.axmodel --input x=short.bin").find("takes 64 bytes, not 3"), std::string::npos);
    EXPECT_NE(error("two.axmodel --input z=short.bin").find("there are: x, y"), std::string::npos);
    EXPECT_NE(error("two.axmodel --input x").find("NAME=FILE"), std::string::npos);
    EXPECT_NE(error("two.axmodel --output q=q.bin").find("no output 'q'"), std::string::npos);
    EXPECT_NE(error("two.axmodel --card 9").find("no card has this number"), std::string::npos);
    const Environment faults(Environment::Values{{"GGML_NPU_AXERA_MOCK_FAULTS", "load-fails"}});
    EXPECT_NE(error("two.axmodel").find("0x8030070C"), std::string::npos);
}

TEST(AxmodelCommand, run_unloads_the_model_when_it_is_told_to_end) {
    write_model("long.axmodel", axera::matmul_recipe(ElementType::int8, 64, 512, 512));
    const Environment mock(Environment::Values{{"GGML_NPU_AXERA_MOCK", "1"}});
    // The shell sends the signal to its own child, once that catches it: bit 14 of the mask is SIGTERM.
    const Output output =
        run("axmodel cards && { '" NPU_COMMAND
            "' axmodel run long.axmodel --repeat 1000000 & child=$!; "
            "until grep -qE '^(SigCgt:.*[4-7c-f]...$|State:.Z)' /proc/$child/status; do sleep 0.05; done; "
            "kill -TERM $child; wait $child; }");
    EXPECT_EQ(output.status, 2);
    EXPECT_NE(output.error.find("interrupted; the model is unloaded"), std::string::npos) << output.error;
}

TEST(AxmodelCommand, cards_lists_them_or_says_why_there_are_none) {
    {
        const Environment mock(
            Environment::Values{{"GGML_NPU_AXERA_MOCK", "1"}, {"GGML_NPU_AXERA_MOCK_CARDS", "4,129"}});
        const Output cards = run("axmodel cards --memory-test");
        EXPECT_EQ(cards.status, 0) << cards.error;
        EXPECT_NE(cards.out.find("card 129: AX650N, PCI 0000:81:00.0"), std::string::npos);
        EXPECT_NE(cards.out.find("memory test: 4096 bytes"), std::string::npos);
    }
    const Environment missing(Environment::Values{{"GGML_NPU_AXERA_LIBRARY", "/nonexistent/libaxcl_rt.so"}});
    const Output none = run("axmodel cards");
    EXPECT_EQ(none.status, 2);
    EXPECT_NE(none.error.find("the AXCL runtime was not found"), std::string::npos);
}

}  // namespace
}  // namespace npu::tools::test
