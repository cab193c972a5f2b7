// `npu axmodel`: compiled models of Axera cards, as files and on a card.
#include "axmodel.h"

#include <cstdio>

namespace npu::tools {

axera::ModelFile model_or_fail(const std::string& path) {
    Result<axera::ModelFile> model = axera::read_model_file(path);
    if (!model) {
        fail(model.error().message);
    }
    return std::move(model).value();
}

std::string describe(const axera::ModelTensor& tensor) {
    std::string text = axera::onnx::element_name(tensor.type);
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        text += format("%s%llu", i == 0 ? " [" : ", ", static_cast<unsigned long long>(tensor.dims[i]));
    }
    text += tensor.dims.empty() ? "" : "]";
    return text + format(", %llu bytes", static_cast<unsigned long long>(tensor.bytes));
}

nlohmann::ordered_json json_of(const axera::ModelTensor& tensor) {
    return {{"name", tensor.name},
            {"type", axera::onnx::element_name(tensor.type)},
            {"shape", tensor.dims},
            {"bytes", tensor.bytes}};
}

void add_axmodel(CLI::App& program) {
    CLI::App* command = program.add_subcommand("axmodel", "Compiled models of Axera cards (.axmodel)");
    command->require_subcommand(1);
    add_axmodel_inspect(*command);
    add_axmodel_disasm(*command);
    add_axmodel_diff(*command);
    add_axmodel_locate(*command);
    add_axmodel_patch(*command);
    add_axmodel_verify(*command);
    add_axmodel_run(*command);
    add_axmodel_cards(*command);
    command->footer("What is in such files: docs/axera.md");
}

}  // namespace npu::tools
