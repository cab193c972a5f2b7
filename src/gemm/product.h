// One matrix and where its product with a batch of activations goes. Several of them share the activations; they agree in K,
// pipeline and rotation.
#pragma once

#include "gemm/rows.h"
#include "gemm/weights.h"

namespace npu::gemm {

struct Product {
    const ResidentWeights* weights = nullptr;
    TargetView y;  // rows of N floats
};

}  // namespace npu::gemm
