// Runs the kernels that choose their instructions at run time with each choice that there is.
#pragma once

#include <gtest/gtest.h>

#include "gemm/kernels.h"

#if defined(__x86_64__)
#include <hwy/targets.h>
#endif

namespace npu::gemm {

// Calls the work once for each instruction set that this machine has.
template <typename Work>
void with_every_instruction_set(const Work& work) {
#if defined(__x86_64__)
    const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
    for (std::int64_t rest = supported; rest != 0; rest &= rest - 1) {
        hwy::SetSupportedTargetsForTest(rest & -rest);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        SCOPED_TRACE(kernel_instruction_set());
        work();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
#else
    work();
#endif
}

}  // namespace npu::gemm
