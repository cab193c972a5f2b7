// Runs the DPU's part of one task: converts what the array delivers and scatters it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/accumulators.h"
#include "sim/dpu_task.h"

namespace npu::sim {

class Dpu final : public AccumulatorSink {
  public:
    // `outputs` is the memory at output_extent(task).begin. Both are used until finish().
    void begin(const DpuTask& task, std::byte* outputs);
    void take(const Accumulators& sums) override;
    void finish();

  private:
    const DpuTask* task_ = nullptr;
    std::byte* outputs_ = nullptr;
    std::vector<std::byte> converted_;  // one group, output format
};

}  // namespace npu::sim
