// Register lists that run, with a shape drawn from the input; see programs.h.
#pragma once

#include <cstdint>

#include "fuzz/input.h"
#include "fuzz/programs.h"
#include "sim/test_support.h"

namespace npu::fuzz {

struct Recipe {
    sim::test::Program registers;
    std::uint32_t enable = 0;
};

Recipe draw_recipe(Input& input, const Places& places);

}  // namespace npu::fuzz
