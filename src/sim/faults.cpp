#include "sim/faults.h"

namespace npu::sim {

struct Faults::Plan {};

bool Faults::hits(FaultKind, unsigned) const { return false; }

}  // namespace npu::sim
