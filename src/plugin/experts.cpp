#include "plugin/experts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugin/host_team.h"
#include "plugin/weight_buffer.h"

namespace npu::plugin {

ExpertGroup::ExpertGroup(Multiplier& multiplier, MatmulGroup group, std::uint32_t fewest_rows)
    : multiplier_(multiplier), group_(std::move(group)), fewest_rows_(fewest_rows), results_(group_.size()) {}

Result<void> ExpertGroup::refresh() {
    experts_.clear();
    for (const ggml_tensor* node : group_) {
        experts_.push_back(resident_matrices(node->src[0]));
        if (experts_.back().empty()) {
            return never_written(node->src[0]);
        }
    }
    has_bad_id_ = false;
    stand_in_ = make_stand_in(group_.front(), compute_share, this);
    stand_in_.src[1] = group_.front()->src[2];
    return {};
}

Result<void> ExpertGroup::stand_in_result() const {
    return has_bad_id_ ? Result<void>(no_such_expert(bad_id_)) : Result<void>();
}

bool ExpertGroup::is_expert(std::int32_t id) const { return id >= 0 && id < group_.front()->src[0]->ne[2]; }

Error ExpertGroup::no_such_expert(std::int32_t id) const {
    return make_error(ErrorCode::invalid_argument, "%s: a token asks for expert %d; there are %lld (0 and up)",
                      group_.front()->name, id, static_cast<long long>(group_.front()->src[0]->ne[2]));
}

std::int32_t ExpertGroup::id_of(const Row& row) const {
    const ggml_tensor* ids = group_.front()->src[2];
    std::int32_t id = 0;
    std::memcpy(&id, static_cast<const std::byte*>(ids->data) + row.slot * ids->nb[0] + row.token * ids->nb[1],
                sizeof(id));
    return id;
}

// Slots may share their token's activations.
const float* ExpertGroup::input_of(const Row& row) const {
    const ggml_tensor* x = activations();
    return reinterpret_cast<const float*>(static_cast<const std::byte*>(x->data) + row.slot % x->ne[1] * x->nb[1] +
                                          row.token * x->nb[2]);
}

float* ExpertGroup::output_of(const ggml_tensor* node, const Row& row) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(node->data) + row.slot * node->nb[1] +
                                    row.token * node->nb[2]);
}

Result<std::vector<std::vector<ExpertGroup::Row>>> ExpertGroup::rows_by_expert() const {
    std::vector<std::vector<Row>> rows(static_cast<std::size_t>(group_.front()->src[0]->ne[2]));
    const ggml_tensor* ids = group_.front()->src[2];
    for (Row row; row.token < ids->ne[1]; ++row.token) {
        for (row.slot = 0; row.slot < ids->ne[0]; ++row.slot) {
            const std::int32_t id = id_of(row);
            if (!is_expert(id)) {
                return no_such_expert(id);
            }
            rows[static_cast<std::size_t>(id)].push_back(row);
        }
    }
    return rows;
}

std::vector<TensorProduct> ExpertGroup::products_of_expert(std::size_t expert, std::size_t rows) {
    std::vector<TensorProduct> products;
    for (std::size_t i = 0; i < group_.size(); ++i) {
        const auto n = static_cast<std::size_t>(group_[i]->ne[0]);
        results_[i].resize(std::max(results_[i].size(), rows * n));
        products.push_back({&experts_[i][expert], {results_[i].data(), n}});
    }
    return products;
}

Result<ExpertCounts> ExpertGroup::multiply() {
    NPU_ASSIGN(const auto rows_of, rows_by_expert());
    const auto k = static_cast<std::size_t>(activations()->ne[0]);
    const bool cpu_can = multiplier_.runs_on_cpu(experts_.front().front().shape().pipeline);
    ExpertCounts counts;
    for (std::size_t expert = 0; expert < rows_of.size(); ++expert) {
        const std::vector<Row>& rows = rows_of[expert];
        if (rows.empty()) {
            continue;
        }
        gathered_.resize(std::max(gathered_.size(), rows.size() * k));
        for (std::size_t i = 0; i < rows.size(); ++i) {
            std::copy_n(input_of(rows[i]), k, gathered_.data() + i * k);
        }
        const std::vector<TensorProduct> products = products_of_expert(expert, rows.size());
        const gemm::RowsView x{gathered_.data(), k, static_cast<std::uint32_t>(rows.size())};
        if (cpu_can && rows.size() < fewest_rows_) {
            work_in_team(
                [&](unsigned index, unsigned count) { multiplier_.multiply_share_on_cpu(products, x, index, count); });
            counts.cpu += products.size();
        } else {
            NPU_TRY(multiplier_.multiply(products, x));
            counts.npu += products.size();
        }
        for (std::size_t i = 0; i < group_.size(); ++i) {
            const TensorProduct& product = products[i];
            for (std::size_t row = 0; row < rows.size(); ++row) {
                std::copy_n(product.y.data + row * product.y.stride, product.y.stride, output_of(group_[i], rows[row]));
            }
        }
    }
    return counts;
}

void ExpertGroup::compute_share(ggml_tensor*, int index, int count, void* group) {
    ExpertGroup& self = *static_cast<ExpertGroup*>(group);
    const ggml_tensor* ids = self.group_.front()->src[2];
    const auto k = static_cast<std::size_t>(self.activations()->ne[0]);
    std::vector<TensorProduct> products(self.group_.size());
    for (Row row; row.token < ids->ne[1]; ++row.token) {
        for (row.slot = 0; row.slot < ids->ne[0]; ++row.slot) {
            const std::int32_t id = self.id_of(row);
            if (!self.is_expert(id)) {
                self.bad_id_ = id;
                self.has_bad_id_ = true;
                return;
            }
            for (std::size_t i = 0; i < products.size(); ++i) {
                const ggml_tensor* node = self.group_[i];
                products[i] = {&self.experts_[i][static_cast<std::size_t>(id)],
                               {output_of(node, row), static_cast<std::size_t>(node->ne[0])}};
            }
            self.multiplier_.multiply_share_on_cpu(products, {self.input_of(row), k, 1}, static_cast<unsigned>(index),
                                                   static_cast<unsigned>(count));
        }
    }
}

}  // namespace npu::plugin
