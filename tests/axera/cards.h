// A mock card for a test, and files of built models.
#pragma once

#include <memory>
#include <string>

#include "axera/executor.h"
#include "axera/mock/mock.h"
#include "axera/model_builder.h"

namespace npu::axera::test {

// Starts the mock anew. Close what an earlier card gave before.
std::shared_ptr<Runtime> mock_runtime(const mock::Settings& settings = {});
std::shared_ptr<Card> mock_card(const std::string& faults = "");

// Writes a built model into the folder for temporary files and gives its path.
std::string built_model(const ModelRecipe& recipe, const std::string& name);

}  // namespace npu::axera::test
