// Options whose values are names of things: which there are, and which one was meant.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "rockchip/precision.h"
#include "rockchip/timing.h"

namespace npu::tools {

inline constexpr std::array precisions{
    rockchip::Precision::int4, rockchip::Precision::int8, rockchip::Precision::int16, rockchip::Precision::int32,
    rockchip::Precision::fp16, rockchip::Precision::bf16, rockchip::Precision::tf32,  rockchip::Precision::fp32};
inline constexpr std::array kernel_setups{rockchip::KernelSetup::rknpu,
                                          rockchip::KernelSetup::rknpu_unpinned,
                                          rockchip::KernelSetup::rocket,
                                          rockchip::KernelSetup::rocket_big_core,
                                          rockchip::KernelSetup::rocket_same_core,
                                          rockchip::KernelSetup::rocket_patched};

inline std::string name_of(rockchip::Precision precision) { return rockchip::info(precision).name; }
inline std::string name_of(rockchip::KernelSetup setup) { return kernel_setup_name(setup); }

template <typename Values>
std::vector<std::string> names_of(const Values& values) {
    std::vector<std::string> names;
    for (const auto value : values) {
        names.push_back(name_of(value));
    }
    return names;
}

// The value of a name that the command line has checked.
template <typename Values>
auto named(const Values& values, const std::string& name) {
    return *std::find_if(values.begin(), values.end(), [&name](auto value) { return name_of(value) == name; });
}

// The format that holds what a product of such operands can be.
inline rockchip::Precision widest_output(rockchip::Precision input) {
    return rockchip::info(input).floating       ? rockchip::Precision::fp32
           : input == rockchip::Precision::int4 ? rockchip::Precision::int16
                                                : rockchip::Precision::int32;
}

}  // namespace npu::tools
