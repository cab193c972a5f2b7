// The sums of multiply_on_cpu by the AArch64 instruction that adds four products of bytes to each 32-bit lane (SDOT).
// The RK3588's cores have it, but a program for AArch64 may not take it for granted, and Highway 1.0 has no operation for
// it: so this is written with intrinsics, compiled for that one extension, and used where the kernel reports it.
//
// Elsewhere has_dotprod() is false and the function must not be called.
#pragma once

#include "gemm/kernels.h"

namespace npu::gemm {

bool has_dotprod();

// As multiply_on_cpu, for at most 8 rows.
void multiply_with_dotprod(const WeightTiles& weights, std::uint32_t first_group, std::uint32_t groups, QuantisedRows x,
                           TargetView y);

}  // namespace npu::gemm
