#include "sim/pooling.h"

namespace npu::sim {

Pooling read_pooling(RegisterCheck& check) {
    check.judge.refuse(Severity::unmodelled, "pooling is not modelled");
    return {};
}

}  // namespace npu::sim
