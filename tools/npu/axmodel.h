// The subcommands of `npu axmodel`, each in a file of its own, and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "axera/model_file.h"
#include "commands.h"

namespace npu::tools {

void add_axmodel_inspect(CLI::App& parent);  // inspect and manifest
void add_axmodel_disasm(CLI::App& parent);
void add_axmodel_diff(CLI::App& parent);
void add_axmodel_locate(CLI::App& parent);
void add_axmodel_patch(CLI::App& parent);  // weights and patch
void add_axmodel_verify(CLI::App& parent);
void add_axmodel_run(CLI::App& parent);
void add_axmodel_cards(CLI::App& parent);

// Reads a model or ends the subcommand.
axera::ModelFile model_or_fail(const std::string& path);

// "bf16 [1, 16, 80], 2560 bytes"
std::string describe(const axera::ModelTensor& tensor);

nlohmann::ordered_json json_of(const axera::ModelTensor& tensor);

}  // namespace npu::tools
