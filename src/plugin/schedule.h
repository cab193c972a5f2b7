// What is done with the nodes of a graph, in order: jobs for the NPU, and ranges of nodes for the host's CPU backend between
// them. Made once per graph, because models run the same one again and again.
//
// Matmuls whose weights lie in NPU memory but whose few rows the CPU multiplies faster are part of such a range: one node
// stands in for all that share their activations, and calls back into the plugin from every thread of the CPU backend. So
// a decoder's graph is one range, with fewer nodes and fewer barriers than it had.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "plugin/experts.h"
#include "plugin/ggml_host.h"
#include "plugin/matmul_group.h"
#include "plugin/multiplier.h"

namespace npu::plugin {

// A group that the CPU multiplies.
class HostGroup {
  public:
    HostGroup(Multiplier& multiplier, MatmulGroup group) : multiplier_(multiplier), group_(std::move(group)) {}
    HostGroup(const HostGroup&) = delete;
    HostGroup& operator=(const HostGroup&) = delete;

    // Looks up what may have changed since the last run: weights and addresses.
    Result<void> refresh();

    // The node that the CPU backend computes instead of the group.
    [[nodiscard]] ggml_tensor* stand_in() { return &stand_in_; }

  private:
    static void compute_share(ggml_tensor* stand_in, int index, int count, void* group);

    Multiplier& multiplier_;
    MatmulGroup group_;
    std::vector<TensorProduct> products_;
    ggml_tensor stand_in_ = {};
};

struct Step {
    enum class Kind : std::uint8_t {
        host,       // nodes for the CPU backend
        npu,        // a group
        experts,    // a group with expert selection
        transient,  // one matmul whose weights are uploaded for the call
    };
    Kind kind = Kind::host;
    std::vector<ggml_tensor*> nodes;
    MatmulGroup group;
    ExpertGroup* experts = nullptr;
};

class Schedule {
  public:
    // Keeps pointers into the graph's context, and to the multiplier.
    Schedule(const ggml_cgraph* graph, Multiplier& multiplier);

    [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
    Result<void> refresh();
    // What went wrong in a node that stands in for others, in the run since.
    Result<void> stand_in_results() const;

    // Matmuls on the NPU, and on the CPU by reason; those of experts that only a run decides are not among them.
    [[nodiscard]] std::size_t npu_matmuls() const { return npu_matmuls_; }
    [[nodiscard]] const std::map<const char*, std::size_t>& cpu_matmuls() const { return cpu_matmuls_; }

    // From how many rows on the NPU multiplies: the fewest and the most of all groups; 0 when nothing was predicted.
    [[nodiscard]] std::uint32_t smallest_threshold() const { return smallest_threshold_; }
    [[nodiscard]] std::uint32_t largest_threshold() const { return largest_threshold_; }

  private:
    void add_to_range(ggml_tensor* node);
    void add_group(MatmulGroup group);
    void add_experts(MatmulGroup group);
    std::uint32_t fewest_rows(const MatmulGroup& group);
    const char* reason_for_cpu(const MatmulGroup& group);

    Multiplier& multiplier_;
    std::vector<Step> steps_;
    std::deque<HostGroup> host_groups_;  // addresses stay valid as they grow
    std::deque<ExpertGroup> expert_groups_;
    std::size_t npu_matmuls_ = 0;
    std::map<const char*, std::size_t> cpu_matmuls_;
    std::uint32_t smallest_threshold_ = 0;
    std::uint32_t largest_threshold_ = 0;
};

}  // namespace npu::plugin
