// The models that tests run on: those of $NPU_TEST_DATA/data/axmodel, compiled by the vendor's compiler (ORIGIN.md there
// says whence), and models of our own builder, which need no data.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "axera/model_builder.h"
#include "axera/model_file.h"

namespace npu::axera::test {

// $NPU_TEST_DATA/data/axmodel, if it is there.
std::optional<std::string> model_folder();

// A model for one layer of a language model: two prefill groups and one for decoding, all types of tensors, NPU1 or 3.
ModelRecipe layer_recipe(bool three_thirds);

// The value, or a test failure that shows the error.
template <typename T>
T must(Result<T> result) {
    if (!result) {
        ADD_FAILURE() << result.error().message;
        throw std::runtime_error(result.error().message);
    }
    return std::move(result).value();
}

inline void must(const Result<void>& result) {
    if (!result) {
        ADD_FAILURE() << result.error().message;
        throw std::runtime_error(result.error().message);
    }
}

}  // namespace npu::axera::test

#define NPU_REQUIRE_MODELS(variable)                                                                              \
    const std::optional<std::string> variable = ::npu::axera::test::model_folder();                               \
    if (!variable) {                                                                                              \
        GTEST_SKIP() << "\n*** NOT TESTED: set NPU_TEST_DATA to the folder that holds data/axmodel/golden.json ***\n"; \
    }
