// The vendor's compiled models, against what an independent parser read out of them (golden.json), value by value.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "axera/models.h"
#include "axera/records.h"
#include "base/sha256.h"

namespace npu::axera::test {
namespace {

nlohmann::json load_golden(const std::string& folder) {
    std::ifstream stream(folder + "/golden.json");
    return nlohmann::json::parse(stream);
}

void expect_tensors(const nlohmann::json& golden, const std::vector<NeuTensor>& tensors) {
    ASSERT_EQ(golden.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(golden[i][0], tensors[i].name);
        EXPECT_EQ(golden[i][2], tensors[i].bytes);
    }
}

void expect_values(const nlohmann::json& golden, const std::vector<onnx::ValueInfo>& values) {
    ASSERT_EQ(golden.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(golden[i]["name"], values[i].name);
        EXPECT_EQ(golden[i]["elem"], values[i].element.value_or(0));
        std::vector<std::uint64_t> dims;
        for (const onnx::Dimension& dim : values[i].dims) {
            dims.push_back(dim.value.value());
        }
        EXPECT_EQ(golden[i]["shape"].get<std::vector<std::uint64_t>>(), dims);
    }
}

void expect_segment(const nlohmann::json& golden, const Neu& neu, const Descriptor& part) {
    EXPECT_EQ(golden["f0"], part.mark);
    EXPECT_EQ(golden["kind"], static_cast<unsigned>(part.kind));
    EXPECT_EQ(golden["words"], part.words);
    EXPECT_EQ(golden["word_off"], part.first_word);
    EXPECT_EQ(golden["compressed"], part.packed);
    EXPECT_EQ(golden["clen"], part.packed_bytes);
    const Buffer segment = must(segment_of(neu, part));
    if (part.packed == 0) {
        EXPECT_EQ(golden["sha256"], sha256(segment));
        return;
    }
    EXPECT_EQ(golden["decoded_len"], segment.size());
    EXPECT_EQ(golden["decoded_sha256"], sha256(segment));
    for (std::size_t i = 0; i < golden["first_records"].size(); ++i) {
        EXPECT_EQ(golden["first_records"][i], hex(Bytes(segment).subspan(8 * i, 8)));
    }
}

TEST(GoldenModels, envelope_tensors_symbols_descriptors_and_segments_are_those_of_the_independent_parser) {
    NPU_REQUIRE_MODELS(folder);
    const nlohmann::json goldens = load_golden(*folder);
    ASSERT_EQ(goldens.size(), 3U);
    for (const nlohmann::json& golden : goldens) {
        SCOPED_TRACE(golden["file"]);
        const ModelFile model = must(read_model_file(*folder + "/" + golden["file"].get<std::string>()));
        EXPECT_EQ(golden["bytes"], model.bytes.size());
        EXPECT_EQ(golden["sha256"], sha256(model.bytes));
        EXPECT_EQ(golden["producer"], model.onnx.producer_name);
        EXPECT_EQ(golden["ir"], model.onnx.ir_version.value());
        EXPECT_EQ(golden["doc"], model.onnx.doc_string);
        EXPECT_EQ(golden["opset"].size(), model.onnx.operator_sets.size());
        for (std::size_t i = 0; i < model.onnx.operator_sets.size(); ++i) {
            EXPECT_EQ(golden["opset"][i].back()[2], model.onnx.operator_sets[i].version.value());
        }
        ASSERT_EQ(golden["inits"].size(), model.onnx.graph.initializers.size());
        for (std::size_t i = 0; i < model.onnx.graph.initializers.size(); ++i) {
            const onnx::Tensor& tensor = model.onnx.graph.initializers[i];
            EXPECT_EQ(golden["inits"][i]["name"], tensor.name);
            EXPECT_EQ(golden["inits"][i]["dtype"], tensor.data_type.value());
            EXPECT_EQ(golden["inits"][i]["dims"].get<std::vector<std::uint64_t>>(), tensor.dims);
            EXPECT_EQ(golden["inits"][i]["raw_off"], tensor.offset);
            EXPECT_EQ(golden["inits"][i]["raw_len"], tensor.raw.size());
        }
        expect_values(golden["input"], model.onnx.graph.inputs);
        expect_values(golden["output"], model.onnx.graph.outputs);
        ASSERT_EQ(golden["neu"].size(), model.programs.size());
        const nlohmann::json& program = golden["neu"][0];
        const Neu& neu = model.programs[0].neu;
        EXPECT_EQ(program["init"], model.programs[0].key);
        EXPECT_EQ(program["root_fields"], neu.root_fields);
        expect_tensors(program["io"][0], neu.inputs);
        expect_tensors(program["io"][1], neu.outputs);
        expect_tensors(program["io"][2], neu.scratch);
        EXPECT_EQ(program["npu_mode"], neu.npu_mode);
        EXPECT_EQ(program["cmm_bytes"], neu.image.size());
        EXPECT_EQ(program["ocm"], (std::vector<std::uint32_t>{neu.ocm_bytes, neu.unit}));
        EXPECT_EQ(program["name"], neu.name);
        ASSERT_EQ(program["symbols"].size(), neu.symbols.size());
        for (std::size_t i = 0; i < neu.symbols.size(); ++i) {
            EXPECT_EQ(program["symbols"][i][0], neu.symbols[i].name);
            EXPECT_EQ(program["symbols"][i][1], neu.symbols[i].index);
        }
        ASSERT_EQ(program["cmdq"].size(), neu.descriptors.size());
        for (std::size_t i = 0; i < neu.descriptors.size(); ++i) {
            SCOPED_TRACE(i);
            expect_segment(program["cmdq"][i], neu, neu.descriptors[i]);
        }
        EXPECT_TRUE(neu.unknown.empty());
    }
}

TEST(GoldenModels, a_file_that_was_only_read_is_written_byte_for_byte) {
    NPU_REQUIRE_MODELS(folder);
    for (const nlohmann::json& golden : load_golden(*folder)) {
        const ModelFile model = must(read_model_file(*folder + "/" + golden["file"].get<std::string>()));
        EXPECT_EQ(onnx::write_model(model.onnx), model.bytes) << golden["file"];
        ASSERT_TRUE(model.extra.has_value());
        EXPECT_EQ(write_extra_data(*model.extra), model.extra_bytes);
    }
}

TEST(GoldenModels, a_model_that_our_writers_wrote_anew_is_equivalent_and_packs_about_as_well) {
    NPU_REQUIRE_MODELS(folder);
    for (const nlohmann::json& golden : load_golden(*folder)) {
        SCOPED_TRACE(golden["file"]);
        const ModelFile model = must(read_model_file(*folder + "/" + golden["file"].get<std::string>()));
        const ModelFile rebuilt = must(parse_model(must(rebuild_model(model))));
        EXPECT_EQ(difference(model, rebuilt), "");
        EXPECT_NE(model.bytes, rebuilt.bytes);  // the layout is ours, so the comparison is not one of a copy
        EXPECT_LE(rebuilt.command_bytes(), model.command_bytes() + model.command_bytes() / 20);
    }
}

TEST(GoldenModels, each_engine_signals_its_own_events_and_every_wait_names_one_that_is_signalled) {
    NPU_REQUIRE_MODELS(folder);
    for (const nlohmann::json& golden : load_golden(*folder)) {
        SCOPED_TRACE(golden["file"]);
        const ModelFile model = must(read_model_file(*folder + "/" + golden["file"].get<std::string>()));
        const Neu& neu = model.programs[0].neu;
        std::map<std::uint32_t, std::set<std::uint32_t>> signalled;
        std::map<std::uint32_t, std::uint32_t> last;
        std::vector<Event> waits;
        for (std::size_t i = 0; i < neu.descriptors.size(); ++i) {
            const auto engine = static_cast<std::uint32_t>(neu.descriptors.size() - 1 - i);
            for (const Record& record : must(decode_records(must(segment_of(neu, neu.descriptors[i]))))) {
                EXPECT_EQ(record.zero, 0);
                if (record.operation != Operation::event) {
                    continue;
                }
                const Event event = event_of(record);
                if (event.kind == EventKind::signal) {
                    EXPECT_EQ(event.engine, engine);
                    EXPECT_TRUE(signalled[event.engine].insert(event.number).second);
                    last[engine] = event.number;
                } else if (event.kind == EventKind::wait) {
                    EXPECT_NE(event.engine, engine);
                    waits.push_back(event);
                } else {
                    EXPECT_EQ(event.kind, EventKind::end);
                    EXPECT_EQ(engine, 0U);
                }
            }
        }
        EXPECT_GE(waits.size(), neu.descriptors.size() - 1);
        for (const Event& wait : waits) {
            EXPECT_EQ(signalled[wait.engine].count(wait.number), 1U) << wait.engine << " " << wait.number;
        }
    }
}

TEST(GoldenModels, groups_name_the_tensors_with_their_shapes_and_sizes) {
    NPU_REQUIRE_MODELS(folder);
    const ModelFile model = must(read_model_file(*folder + "/v1_matmul_npu3_s16_256_10000_16_987814.axmodel"));
    EXPECT_EQ(model.compiler_version(), "3.1");
    EXPECT_EQ(model.npu_mode(), 2);
    EXPECT_EQ(model.command_bytes(), 4416U);
    EXPECT_EQ(model.constant_bytes(), 436U + 9U);
    ASSERT_EQ(model.groups.size(), 1U);
    const ShapeGroup& group = model.groups[0];
    ASSERT_EQ(group.inputs.size(), 2U);
    EXPECT_EQ(group.inputs[1].name, "Y");
    EXPECT_EQ(group.inputs[1].type, onnx::ElementType::int16);
    EXPECT_EQ(group.inputs[1].dims, (std::vector<std::uint64_t>{10000, 256}));
    EXPECT_EQ(group.inputs[1].bytes, 5120000U);
    ASSERT_EQ(group.outputs.size(), 1U);
    EXPECT_EQ(group.outputs[0].bytes, 640000U);
    ASSERT_EQ(group.extra_inputs.size(), 2U);
    EXPECT_EQ(group.extra_inputs[0].constant_key, "npu_params");
    EXPECT_EQ(group.extra_inputs[1].expression_key, "npu_dyn_params");
}

}  // namespace
}  // namespace npu::axera::test
