// Which pipeline multiplies which weights, as GGML_NPU_PRECISION says: one word for all, or rules for classes of shapes.
//
//   GGML_NPU_PRECISION=w4a8
//   GGML_NPU_PRECISION='experts .*=w4a8; matmul 1[0-9]{4,}x.*=int8; auto'
//
// A rule is a regular expression (ECMAScript), "=", and auto or a pipeline; rules are tried in order, and the last part, without
// "=", is for what none matches. An expression must match the whole class of a weight tensor:
//
//   matmul KxN TYPE      a matrix of K inputs and N outputs, of ggml's type: "matmul 4096x11008 q4_K"
//   head KxN TYPE        one with at least eight times as many outputs as inputs: a projection to a vocabulary
//   experts KxNxE TYPE   a matrix for each of E experts
//
// Names of tensors are not looked at: the same layer has different names in different architectures, and the same name means
// different layers.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gemm/pipeline.h"
#include "plugin/ggml_host.h"

namespace npu::plugin {

// What was asked for some weights.
struct PrecisionChoice {
    std::optional<gemm::Pipeline> pipeline;  // nothing: auto
    bool by_rule = false;                    // for this class in particular, so it is done as asked
};

// Thread-safe.
class PrecisionPolicy {
  public:
    // Error: invalid_argument, with what is accepted, or what is wrong with an expression.
    static Result<PrecisionPolicy> parse(std::string_view text);

    PrecisionChoice operator()(const ggml_tensor* weights) const;

  private:
    struct Rule {
        std::regex pattern;
        std::optional<gemm::Pipeline> pipeline;
    };
    // Answers are asked for again and again, and a match takes microseconds.
    struct Known {
        std::mutex mutex;
        std::map<std::string, PrecisionChoice> choices;
    };

    std::vector<Rule> rules_;
    std::optional<gemm::Pipeline> otherwise_;
    std::shared_ptr<Known> known_ = std::make_shared<Known>();
};

// "matmul 4096x11008 q4_K".
std::string weight_class(const ggml_tensor* weights);

// Whether this is a projection to a vocabulary: few models have another matrix with so many more outputs than inputs.
bool is_head(const ggml_tensor* weights);

// The policy of the options; parsed once. Thread-safe.
const Result<PrecisionPolicy>& precision_policy();

}  // namespace npu::plugin
