// Matmuls with expert selection (MUL_MAT_ID), as mixtures of experts use them: the weights are one matrix [K, N] per expert, and for
// each token an id per slot says whose matrix its activations are multiplied by. Every expert's matrix is resident like any
// other (weight_buffer.h).
//
// Which rows an expert gets is known only when the node is computed. For a prompt the rows of an expert are gathered, multiplied as
// one matrix, by the NPU if they are enough and by the CPU from the same weights if not, and scattered to where they belong.
// When not even all tokens together would be enough for one expert, as in decoding, one node inside the CPU backend's graph stands
// in for the whole group (schedule.h), and multiplies row by row.
//
// A row's result depends on its activations and its expert alone, not on the rows beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "plugin/ggml_host.h"
#include "plugin/matmul_group.h"
#include "plugin/multiplier.h"

namespace npu::plugin {

// Multiplications of one expert by one matrix of the group, by who did them.
struct ExpertCounts {
    std::size_t npu = 0;
    std::size_t cpu = 0;
};

// A group of MUL_MAT_ID nodes that share activations and ids (gate and up). Not thread-safe but for the stand-in's own callback.
class ExpertGroup {
  public:
    // From `fewest_rows` rows on an expert's rows go to the NPU.
    ExpertGroup(Multiplier& multiplier, MatmulGroup group, std::uint32_t fewest_rows);
    ExpertGroup(const ExpertGroup&) = delete;
    ExpertGroup& operator=(const ExpertGroup&) = delete;

    [[nodiscard]] const MatmulGroup& nodes() const { return group_; }

    // Looks up what may have changed since the last run. Error: invalid_argument when some weights were never written.
    Result<void> refresh();

    // Computes the group. Error: invalid_argument for an id that no expert has; errors of Multiplier::multiply.
    Result<ExpertCounts> multiply();

    // The node that the CPU backend computes instead of the group.
    [[nodiscard]] ggml_tensor* stand_in() { return &stand_in_; }
    // What went wrong in it, since the last refresh.
    [[nodiscard]] Result<void> stand_in_result() const;

  private:
    struct Row {
        std::int64_t slot = 0;
        std::int64_t token = 0;
    };

    static void compute_share(ggml_tensor* stand_in, int index, int count, void* group);

    [[nodiscard]] const ggml_tensor* activations() const { return group_.front()->src[1]; }
    [[nodiscard]] std::int32_t id_of(const Row& row) const;
    [[nodiscard]] const float* input_of(const Row& row) const;
    [[nodiscard]] static float* output_of(const ggml_tensor* node, const Row& row);
    [[nodiscard]] bool is_expert(std::int32_t id) const;
    [[nodiscard]] Error no_such_expert(std::int32_t id) const;
    Result<std::vector<std::vector<Row>>> rows_by_expert() const;
    // The matrices of an expert; the results of node i go to results_[i] when `gathered`.
    std::vector<TensorProduct> products_of_expert(std::size_t expert, std::size_t rows);

    Multiplier& multiplier_;
    MatmulGroup group_;
    std::uint32_t fewest_rows_;
    std::vector<std::span<const ResidentTensor>> experts_;  // of each node
    std::vector<float> gathered_;                           // rows of one expert
    std::vector<std::vector<float>> results_;               // of each node for them
    ggml_tensor stand_in_ = {};
    std::atomic<std::int32_t> bad_id_ = 0;
    std::atomic<bool> has_bad_id_ = false;
};

}  // namespace npu::plugin
