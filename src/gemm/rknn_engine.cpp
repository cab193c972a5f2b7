#include "gemm/rknn_engine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/integers.h"
#include "base/log.h"
#include "compile/pack.h"
#include "gemm/activations.h"
#include "gemm/descriptor_limit.h"
#include "gemm/hadamard.h"
#include "gemm/kernels.h"
#include "gemm/quantise.h"
#include "gemm/share_rows.h"

namespace npu::gemm {

namespace {

using compile::Arrangement;
using rknn::MatmulType;
using rknn::Memory;
using rockchip::Precision;
using Range = RknnWeights::Range;

// Type 0 does not exist.
MatmulType type_of(Pipeline pipeline) {
    switch (pipeline) {
        case Pipeline::fp16: return MatmulType::fp16_fp16_fp32;
        case Pipeline::int8: return MatmulType::int8_int8_int32;
        default: return MatmulType{};
    }
}

// Deals the blocks of `length` evenly to `parts`, of which there are no more than blocks.
std::vector<Range> deal(std::uint32_t length, std::uint32_t block, std::uint32_t parts) {
    const std::uint32_t blocks = ceil_div(length, block);
    std::vector<Range> ranges;
    std::uint32_t first = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
        const std::uint32_t share = (blocks / parts + (part < blocks % parts ? 1 : 0)) * block;
        ranges.push_back({first, share});
        first += share;
    }
    return ranges;
}

std::vector<Range> cut_k(const WeightsShape& shape, const RknnOptions& options) {
    const std::uint32_t block = rockchip::info(info(shape.pipeline).input).channels_per_block;
    const std::uint32_t longest = shape.pipeline == Pipeline::fp16 ? options.longest_k_fp16 : options.longest_k_int8;
    const std::uint32_t most_blocks = std::max(longest / block, 1U);
    return deal(shape.k, block, ceil_div(ceil_div(shape.k, block), most_blocks));
}

std::vector<Range> cut_n(const WeightsShape& shape, const RknnOptions& options, std::uint32_t cores) {
    const std::uint32_t group = rockchip::info(info(shape.pipeline).input).kernels_per_group;
    const std::uint32_t groups = ceil_div(shape.n, group);
    const std::uint32_t needed = ceil_div(groups, std::max(options.longest_n / group, 1U));
    const std::uint32_t worthwhile = std::clamp(shape.n / std::max(options.smallest_slice, 1U), 1U, cores);
    const std::uint32_t slices = needed > worthwhile ? align_up(needed, cores) : worthwhile;
    return deal(shape.n, group, std::min(slices, groups));
}

compile::WeightLayout layout_of(const RknnWeights& weights, std::size_t slice, std::size_t tile) {
    return {info(weights.shape.pipeline).input, weights.n_slices[slice].count, weights.k_tiles[tile].count};
}

Result<void> convert_slice(RknnWeights& weights, std::size_t slice, const RowReader& read_row) {
    const WeightsShape& shape = weights.shape;
    const Precision precision = info(shape.pipeline).input;
    const std::uint32_t group = rockchip::info(precision).kernels_per_group;
    const std::uint32_t block = shape.rotated ? hadamard_block(shape.k) : 1;
    const std::size_t stride = compile::packed_bytes(precision, shape.k);
    const std::size_t tiles = weights.k_tiles.size();
    const Range range = weights.n_slices[slice];
    std::vector<float> row(shape.k);
    std::vector<std::byte> quantised(group * stride);
    for (std::uint32_t first = 0; first < range.count; first += group) {
        const std::uint32_t count = std::min(group, shape.n - range.first - first);
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t channel = range.first + first + i;
            read_row(channel, row.data());
            rotate(row.data(), shape.k, block);
            weights.scales[channel] = quantise_row(precision, row.data(), shape.k, quantised.data() + i * stride);
        }
        for (std::size_t tile = 0; tile < tiles; ++tile) {
            const Range k = weights.k_tiles[tile];
            compile::pack_weights(layout_of(weights, slice, tile),
                                  {quantised.data() + compile::packed_bytes(precision, k.first), stride}, first, count,
                                  std::min(k.count, shape.k - k.first), weights.pieces[slice * tiles + tile].data());
        }
    }
    for (std::size_t tile = 0; tile < tiles; ++tile) {
        NPU_TRY(weights.pieces[slice * tiles + tile].synchronise(rknn::Sync::to_device));
    }
    return {};
}

}  // namespace

// One piece of weights, with all that its product needs.
struct RknnEngine::Run {
    rknn::Context* context;
    const Memory* a;
    const Memory* b;
    const Memory* c;
};

struct RknnEngine::Batch {
    std::uint32_t bucket = 0;
    std::vector<const Memory*> activations;  // by K tile
    std::vector<Run> runs;                   // as RknnWeights::pieces
};

std::uint32_t rknn_row_bucket(std::uint32_t rows) {
    return rows <= 128 ? std::bit_ceil(std::max(rows, 1U)) : align_up(rows, 128U);
}

Result<std::unique_ptr<RknnEngine>> RknnEngine::open(const RknnOptions& options) {
    if (options.cores == 0 || options.domains == 0 || options.domains > 16 || options.largest_rows == 0) {
        return make_error(
            ErrorCode::invalid_argument,
            "an engine over librknnrt has at least one core, at least one row and 1 to 16 domains; %u, %u "
            "and %u were asked for",
            options.cores, options.largest_rows, options.domains);
    }
    raise_descriptor_limit();
    NPU_ASSIGN(const std::shared_ptr<const rknn::Session> session, rknn::Session::open(options.library));
    std::unique_ptr<RknnEngine> engine(new RknnEngine(options));
    engine->types_ = rknn::probe_types(*session);
    for (const rknn::ProbedType& type : engine->types_) {
        log(LogLevel::info, "librknnrt %s: %s", type.type->name, type.runs ? "right" : type.reason.c_str());
    }
    const std::uint32_t cores = rknn::probe_cores(*session, options.cores);
    engine->tied_to_cores_ = cores != 0;
    engine->cores_ = std::max(cores, 1U);
    if (cores < options.cores) {
        log(LogLevel::info, "librknnrt ties products to %u cores; %u were asked for", cores, options.cores);
    }
    engine->session_ = session;
    engine->add_domain(session);
    return engine;
}

void RknnEngine::add_domain(std::shared_ptr<const rknn::Session> session) {
    domains_.push_back(std::make_unique<Domain>(Domain{
        std::move(session), std::make_shared<std::atomic<std::size_t>>(0), rknn::ContextCache(options_.cached_contexts),
        rknn::ScratchPool(options_.scratch_bytes), rknn::ScratchPool(options_.scratch_bytes)}));
}

Result<void> RknnEngine::check_pipeline(Pipeline pipeline) const {
    const MatmulType type = type_of(pipeline);
    const auto probed = std::ranges::find_if(types_, [&](const auto& entry) { return entry.type->type == type; });
    if (probed == types_.end()) {
        return make_error(ErrorCode::unsupported, "the librknnrt engine has the pipelines fp16 and int8, not %s",
                          pipeline_name(pipeline));
    }
    if (!probed->runs) {
        return make_error(ErrorCode::unsupported, "the librknnrt engine cannot run the pipeline %s here: %s",
                          pipeline_name(pipeline), probed->reason.c_str());
    }
    return {};
}

Result<RknnWeights> RknnEngine::prepare(const WeightsShape& shape, const RowReader& read_row) {
    NPU_TRY(check_pipeline(shape.pipeline));
    constexpr std::uint32_t most = std::uint32_t{1} << 24;
    if (shape.n == 0 || shape.k == 0 || shape.n > most || shape.k > most) {
        return make_error(ErrorCode::invalid_argument, "weights have 1 to %u rows and columns; %u x %u were given",
                          most, shape.n, shape.k);
    }
    NPU_ASSIGN(RknnWeights weights, allocate(shape));
    weights.scales.resize(shape.n);
    for (std::size_t slice = 0; slice < weights.n_slices.size(); ++slice) {
        NPU_TRY(convert_slice(weights, slice, read_row));
    }
    return weights;
}

Result<RknnWeights> RknnEngine::allocate(const WeightsShape& shape) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t domains = session_->version().major < 2 ? 1 : options_.domains;
    for (std::uint32_t domain = 0;; ++domain) {
        if (domain == domains_.size()) {
            NPU_ASSIGN(auto session, session_->open_domain(domain));
            add_domain(std::move(session));
        }
        Result<RknnWeights> weights = allocate_in(domain, shape);
        if (weights || weights.error().code != ErrorCode::out_of_memory || domain + 1 == domains) {
            return weights;
        }
    }
}

Result<RknnWeights> RknnEngine::allocate_in(std::uint32_t index, const WeightsShape& shape) {
    RknnWeights weights;
    weights.shape = shape;
    weights.k_tiles = cut_k(shape, options_);
    weights.n_slices = cut_n(shape, options_, cores_);
    weights.domain = index;
    std::size_t bytes = 0;
    for (std::size_t slice = 0; slice < weights.n_slices.size(); ++slice) {
        for (std::size_t tile = 0; tile < weights.k_tiles.size(); ++tile) {
            bytes += layout_of(weights, slice, tile).bytes();
        }
    }
    const Domain& domain = *domains_[index];
    if (*domain.weight_bytes + bytes > options_.domain_bytes) {
        return make_error(
            ErrorCode::out_of_memory,
            "weights of %u x %u (%s) take %zu bytes; domain %u of librknnrt holds %zu of at most %zu. Keep "
            "fewer weights on the NPU or allow more domains (%u allowed)",
            shape.n, shape.k, pipeline_name(shape.pipeline), bytes, index, domain.weight_bytes->load(),
            options_.domain_bytes, options_.domains);
    }
    for (std::size_t slice = 0; slice < weights.n_slices.size(); ++slice) {
        for (std::size_t tile = 0; tile < weights.k_tiles.size(); ++tile) {
            NPU_ASSIGN(Memory piece, domain.session->allocate(layout_of(weights, slice, tile).bytes()));
            weights.pieces.push_back(std::move(piece));
        }
    }
    *domain.weight_bytes += bytes;
    weights.reservation =
        std::shared_ptr<void>(nullptr, [counter = domain.weight_bytes, bytes](void*) { *counter -= bytes; });
    return weights;
}

Result<RknnReport> RknnEngine::multiply(const RknnWeights& weights, RowsView x, TargetView y) {
    const std::lock_guard lock(mutex_);
    if (weights.domain >= domains_.size() || weights.pieces.empty()) {
        return make_error(ErrorCode::invalid_argument, "these weights were not prepared by this engine: prepare them");
    }
    RknnReport report;
    for (std::uint32_t first = 0; first < x.rows; first += options_.largest_rows) {
        const RowsView rows{x.data + first * x.stride, x.stride, std::min(options_.largest_rows, x.rows - first)};
        if (Result<void> done = multiply_rows(weights, rows, {y.data + first * y.stride, y.stride}, report); !done) {
            // What a context does after a failure is not documented.
            Domain& domain = *domains_[weights.domain];
            domain.contexts.clear();
            domain.activations.clear();
            domain.results.clear();
            return done.error();
        }
    }
    return report;
}

Result<void> RknnEngine::multiply_rows(const RknnWeights& weights, RowsView x, TargetView y, RknnReport& report) {
    NPU_ASSIGN(const Batch batch, prepare_batch(weights, x.rows));
    std::vector<float> scales(x.rows);
    NPU_TRY(write_activations(weights, batch, x, scales.data()));
    std::vector<std::optional<Error>> errors(cores_);
    const auto drive = [&](unsigned index, unsigned count) {
        for (std::uint32_t core = index; core < cores_; core += count) {
            if (Result<void> done = run_core(weights, batch, core, scales.data(), x.rows, y); !done) {
                errors[core] = done.error();
            }
        }
    };
    if (weights.n_slices.size() == 1) {
        drive(0, 1);
    } else {
        options_.team(drive);
    }
    for (const std::optional<Error>& error : errors) {
        if (error) {
            return *error;
        }
    }
    report.runs += batch.runs.size();
    return {};
}

// Contexts and scratch memory for all pieces, before any thread uses them.
Result<RknnEngine::Batch> RknnEngine::prepare_batch(const RknnWeights& weights, std::uint32_t rows) {
    Domain& domain = *domains_[weights.domain];
    const rknn::Session& session = *domain.session;
    const MatmulType type = type_of(weights.shape.pipeline);
    const std::size_t tiles = weights.k_tiles.size();
    domain.contexts.begin_round();
    domain.activations.begin_round();
    domain.results.begin_round();
    Batch batch;
    batch.bucket = rknn_row_bucket(rows);
    for (std::size_t slice = 0; slice < weights.n_slices.size(); ++slice) {
        const std::uint32_t core = static_cast<std::uint32_t>(slice) % cores_;
        for (std::size_t tile = 0; tile < tiles; ++tile) {
            const rknn::MatmulShape shape{batch.bucket, weights.n_slices[slice].count, weights.k_tiles[tile].count,
                                          type};
            NPU_ASSIGN(rknn::Context* const context,
                       domain.contexts.get(session, shape, tied_to_cores_ ? std::optional(core) : std::nullopt));
            if (slice == 0) {
                NPU_ASSIGN(const Memory* const a, domain.activations.get(session, context->attributes().a.size));
                batch.activations.push_back(a);
            }
            // The slices of a core run one after the other and share the memory of their results.
            const std::size_t c_bytes = context->attributes().c.size;
            const Memory* c = nullptr;
            if (slice >= cores_) {
                const Memory* before = batch.runs[(slice - cores_) * tiles + tile].c;
                c = before->bytes() == c_bytes ? before : nullptr;
            }
            if (c == nullptr) {
                NPU_ASSIGN(c, domain.results.get(session, c_bytes));
            }
            batch.runs.push_back({context, batch.activations[tile], &weights.pieces[slice * tiles + tile], c});
        }
    }
    return batch;
}

Result<void> RknnEngine::write_activations(const RknnWeights& weights, const Batch& batch, RowsView x, float* scales) {
    const Precision precision = info(weights.shape.pipeline).input;
    const std::uint32_t channels = weights.k_tiles.back().first + weights.k_tiles.back().count;
    const compile::FeatureLayout layout{precision, Arrangement::native, batch.bucket, channels};
    // A K tile is a range of whole channel blocks, hence of bytes; a row's scale is that of all tiles.
    std::vector<std::byte> whole(batch.activations.size() > 1 ? layout.bytes() : 0);
    std::byte* const to = whole.empty() ? batch.activations.front()->data() : whole.data();
    share_rows(options_.team, x.rows, [&](std::uint32_t first, std::uint32_t count) {
        gemm::write_activations(weights.shape, layout, x, first, count, to, scales);
    });
    for (std::size_t tile = 0; tile < batch.activations.size(); ++tile) {
        if (!whole.empty()) {
            const Range k = weights.k_tiles[tile];
            const std::size_t bytes = compile::packed_bytes(precision, std::size_t{batch.bucket} * k.count);
            std::memcpy(batch.activations[tile]->data(), to + layout.offset(0, k.first), bytes);
        }
        NPU_TRY(batch.activations[tile]->synchronise(rknn::Sync::to_device));
    }
    return {};
}

Result<void> RknnEngine::run_core(const RknnWeights& weights, const Batch& batch, std::uint32_t core,
                                  const float* scales, std::uint32_t rows, TargetView y) {
    const std::size_t tiles = weights.k_tiles.size();
    std::vector<const std::byte*> results(tiles);
    for (std::size_t slice = core; slice < weights.n_slices.size(); slice += cores_) {
        for (std::size_t tile = 0; tile < tiles; ++tile) {
            const Run& run = batch.runs[slice * tiles + tile];
            NPU_TRY(run.context->bind(run.a->handle(), run.b->handle(), run.c->handle()));
            NPU_TRY(run.context->run());
            NPU_TRY(run.c->synchronise(rknn::Sync::from_device));
            results[tile] = run.c->data();
        }
        const Range range = weights.n_slices[slice];
        const compile::OutputLayout layout{info(weights.shape.pipeline).output, Arrangement::native, batch.bucket,
                                           range.count};
        scale_and_untile({layout, results, weights.shape.k}, 0, rows,
                         std::min(range.count, weights.shape.n - range.first), scales,
                         weights.scales.data() + range.first, {y.data + range.first, y.stride});
    }
    return {};
}

}  // namespace npu::gemm
