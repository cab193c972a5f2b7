// `npu axmodel verify`: whether a model's parts agree with each other and with what all known files have in common.
#include <memory>

#include "axera/verify.h"
#include "axmodel.h"

namespace npu::tools {

void add_axmodel_verify(CLI::App& parent) {
    auto paths = std::make_shared<std::vector<std::string>>();
    CLI::App* command =
        parent.add_subcommand("verify", "Checks models for damage; ends with 1 when there is a finding");
    command->add_option("FILE", *paths, "Models")->required()->type_name("");
    command->callback([paths] {
        bool good = true;
        for (const std::string& path : *paths) {
            const Result<axera::ModelFile> model = axera::read_model_file(path);
            if (!model) {
                print(format("BAD  %s\n", model.error().message.c_str()));
                good = false;
                continue;
            }
            print(path + "\n");
            for (const axera::Check& check : axera::verify_model(*model)) {
                print(format("  %s  %s\n", check.findings.empty() ? "ok " : "BAD", check.name.c_str()));
                for (const std::string& finding : check.findings) {
                    print("       " + finding + "\n");
                }
                good = good && check.findings.empty();
            }
        }
        if (!good) {
            fail("", 1);
        }
    });
}

}  // namespace npu::tools
