#include "plugin/precision_policy.h"

#include "base/options.h"

namespace npu::plugin {

namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blank = " \t\n";
    const std::size_t begin = text.find_first_not_of(blank);
    return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

Result<std::optional<gemm::Pipeline>> pipeline_or_auto(std::string_view name) {
    if (name == "auto") {
        return std::optional<gemm::Pipeline>();
    }
    const auto pipeline = gemm::pipeline_named(name);
    if (!pipeline) {
        return make_error(ErrorCode::invalid_argument,
                          "GGML_NPU_PRECISION has the value '%.*s'; accepted: auto|fp16|bf16|int8|int8n|w4a8|int4, or "
                          "rules PATTERN=PRECISION; ...; PRECISION (docs/precisions.md)",
                          static_cast<int>(name.size()), name.data());
    }
    return std::optional(*pipeline);
}

}  // namespace

bool is_head(const ggml_tensor* weights) { return weights->ne[2] == 1 && weights->ne[1] >= 8 * weights->ne[0]; }

std::string weight_class(const ggml_tensor* weights) {
    const auto k = static_cast<long long>(weights->ne[0]);
    const auto n = static_cast<long long>(weights->ne[1]);
    const char* type = ggml_type_name(weights->type);
    if (weights->ne[2] > 1) {
        return format("experts %lldx%lldx%lld %s", k, n, static_cast<long long>(weights->ne[2]), type);
    }
    return format("%s %lldx%lld %s", is_head(weights) ? "head" : "matmul", k, n, type);
}

Result<PrecisionPolicy> PrecisionPolicy::parse(std::string_view text) {
    PrecisionPolicy policy;
    for (bool more = true; more;) {
        const std::size_t end = text.find(';');
        more = end != std::string_view::npos;
        const std::string_view part = trimmed(text.substr(0, end));
        text = more ? text.substr(end + 1) : "";
        const std::size_t equals = part.rfind('=');
        if (equals == std::string_view::npos) {
            if (more) {
                return make_error(
                    ErrorCode::invalid_argument,
                    "GGML_NPU_PRECISION: '%.*s' has no '=', so it is for what no rule matches, and must be "
                    "the last part",
                    static_cast<int>(part.size()), part.data());
            }
            NPU_ASSIGN(policy.otherwise_, part.empty() ? pipeline_or_auto("auto") : pipeline_or_auto(part));
            continue;
        }
        NPU_ASSIGN(const auto pipeline, pipeline_or_auto(trimmed(part.substr(equals + 1))));
        const std::string pattern(trimmed(part.substr(0, equals)));
        try {
            policy.rules_.push_back({std::regex(pattern, std::regex::ECMAScript | std::regex::optimize), pipeline});
        } catch (const std::regex_error& error) {
            return make_error(
                ErrorCode::invalid_argument,
                "GGML_NPU_PRECISION: '%s' is no regular expression (%s); an example: 'experts .*=w4a8; auto'",
                pattern.c_str(), error.what());
        }
    }
    return policy;
}

PrecisionChoice PrecisionPolicy::operator()(const ggml_tensor* weights) const {
    if (rules_.empty()) {
        return {otherwise_, false};
    }
    const std::string name = weight_class(weights);
    const std::lock_guard lock(known_->mutex);
    const auto [entry, is_new] = known_->choices.try_emplace(name, PrecisionChoice{otherwise_, false});
    if (is_new) {
        for (const Rule& rule : rules_) {
            if (std::regex_match(name, rule.pattern)) {
                entry->second = {rule.pipeline, rule.pipeline.has_value()};
                break;
            }
        }
    }
    return entry->second;
}

const Result<PrecisionPolicy>& precision_policy() {
    static const Result<PrecisionPolicy> policy =
        options() ? PrecisionPolicy::parse(options()->precision) : PrecisionPolicy::parse("auto");
    return policy;
}

}  // namespace npu::plugin
