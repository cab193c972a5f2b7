// Runs the DPU's part of one task: takes values from the array group by group, or from memory in flying mode, passes
// them through the stages that the task has, converts them and scatters them. Most tasks have no stage; those go straight
// from the accumulators to the output format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/accumulators.h"
#include "sim/dpu_lut.h"
#include "sim/dpu_operands.h"
#include "sim/dpu_task.h"
#include "sim/finding.h"
#include "sim/memory.h"

namespace npu::sim {

// Not thread-safe. Keeps its buffers between tasks.
class Dpu final : public AccumulatorSink {
  public:
    explicit Dpu(std::uint64_t seed = 1) : tables_(seed) {}

    // A soft reset: the look-up tables hold noise until they are loaded again.
    void reset(std::uint64_t seed = 1) { tables_.reset(seed); }

    // A command list wrote DPU.LUT_ACCESS_CFG or DPU.LUT_ACCESS_DATA. These are commands rather than registers: each
    // write takes effect at once, in this order.
    void lut_write(std::uint16_t offset, std::uint32_t value) { tables_.write(offset, value); }
    [[nodiscard]] const LookupTables& tables() const { return tables_; }

    // What the registers alone do not tell: whether the look-up tables that a task uses are loaded, and what silicon is
    // known to make of their contents.
    void check(const DpuTask& task, Judge& judge) const;

    // `memory` holds every stream of dpu_reads() and dpu_writes(). Task and memory are used until finish().
    void begin(const DpuTask& task, const Memory& memory);
    // Groups of kernels may come in any order; each once.
    void take(const Accumulators& sums) override;
    // The task reads its own main data: everything between begin() and finish().
    void run_flying();
    void finish() { task_ = nullptr; }

  private:
    template <typename T>
    struct Work {
        std::vector<T> values;
        std::vector<T> operands;
        ChannelOperands<T> channel;
    };

    template <typename T>
    void run_stages(const Accumulators& sums, Work<T>& work);
    template <typename T>
    void load_element_operands(std::uint32_t first, std::uint32_t channels, std::vector<T>& operands);
    void look_up(const std::vector<float>& indices);
    void look_up(const std::vector<std::int64_t>& indices);
    template <typename T>
    void write(std::uint32_t first_channel, std::uint32_t channels, const T* values);

    LookupTables tables_;
    const DpuTask* task_ = nullptr;
    std::byte* outputs_ = nullptr;
    const std::byte* main_ = nullptr;  // memory of each stream; nullptr when the task does not read it
    const std::byte* first_ = nullptr;
    const std::byte* second_ = nullptr;
    const std::byte* records_ = nullptr;

    Work<float> floats_;
    Work<std::int64_t> integers_;
    std::vector<std::int64_t> found_;   // results of the look-up tables
    std::vector<std::uint32_t> codes_;  // elements as they lie in memory
    std::vector<float> main_floats_;    // a block of flying mode
    std::vector<std::int64_t> main_integers_;
    std::vector<std::byte> converted_;  // a group in the output format
    std::vector<std::byte> rows_;       // the same, filled up to whole atoms
    std::vector<std::int16_t> transposed_;
};

}  // namespace npu::sim
