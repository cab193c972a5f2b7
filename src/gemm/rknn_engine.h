// Multiplication with Rockchip's own kernels, for users who want them: the engine of engine.h over librknnrt instead of
// over programs of ours. What goes in and comes out is the same: float rows, weights that were converted once, y = x * w,
// with the same conversions (quantise.h) and the same order of sums, so that int8 results are those of the native engine bit
// for bit. What differs is who cuts the work.
//
//  weights   The library runs one product per context, and slowly where K or N are long (published: one context of K 15360
//            runs 14 times slower than its pieces; halves run at 574, 173 and 74 GFLOPS with K of 2048, 4096 and 8192; a
//            vocabulary of outputs at 28 GMAC/s against 800). So weights are cut into a grid of K tiles and N slices; each
//            piece is packed by us, in the array's order, into memory of its own. How K is cut depends on the shape
//            alone, so a row's int8 result does not depend on the batch; for halves that is up to the library's kernels.
//  cores     A context runs on one core (masks of several are refused), so slices are dealt to cores, and a thread of
//            the team drives each: the library's run blocks.
//  M         A context has a fixed M: batches are filled up to buckets (1, 2, 4 ... 128, 256, 384 ...), and contexts are
//            shared by all weights with pieces of the same shape (rknn_cache.h).
//  scales    Applied on the host: the library's own per-channel scales give zeros (users' reports).
//
// The library has no deadlines: a job that hangs hangs the caller. It raises the priority of the process when it loads
// (reported, nice -19). Two processes that use other domains than 0 have brought down kernels with drivers before 0.9.8
// (reported), hence one domain unless more are asked for; a domain holds about 2 GiB.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/team.h"
#include "gemm/rknn_cache.h"
#include "gemm/rknn_library.h"
#include "gemm/rknn_probe.h"
#include "gemm/rows.h"
#include "gemm/weights.h"

namespace npu::gemm {

struct RknnOptions {
    std::string library;        // path or file name; empty: librknnrt.so
    std::uint32_t cores = 3;    // at most; fewer where the library ties contexts to fewer
    Team team = work_alone;     // converts, and drives the cores
    std::uint32_t domains = 1;  // 1 to 16
    std::size_t domain_bytes = (std::size_t{1} << 31) - (1U << 16);  // of weights in one
    std::size_t cached_contexts = 64;                                // per domain; at least what one product needs
    std::size_t scratch_bytes = std::size_t{256} << 20;              // per domain, for activations and results each
    std::uint32_t longest_k_fp16 = 2048;
    std::uint32_t longest_k_int8 = 8192;  // beyond, the library's native B is in another order
    std::uint32_t longest_n = 8192;
    std::uint32_t smallest_slice = 128;  // channels for which another core is worth its start of 33 us
    std::uint32_t largest_rows = 512;    // longer batches are multiplied in several runs
};

// Weights in the library's memory, by K tile and N slice. Movable; may outlive the engine.
struct RknnWeights {
    struct Range {
        std::uint32_t first = 0;
        std::uint32_t count = 0;  // of elements with padding: whole blocks
    };

    WeightsShape shape;
    std::vector<float> scales;         // one per output channel
    std::vector<Range> k_tiles;        // of input channels
    std::vector<Range> n_slices;       // of output channels
    std::vector<rknn::Memory> pieces;  // of a slice, one per K tile; then of the next slice
    std::uint32_t domain = 0;
    std::shared_ptr<void> reservation;  // gives the bytes back to the domain
};

struct RknnReport {
    std::size_t runs = 0;  // of contexts
};

class RknnEngine {
  public:
    // Loads the library, passes it through the version gate, tries what it computes and which cores it has, and raises
    // the process's limit of open files. Errors: as rknn_library.h.
    static Result<std::unique_ptr<RknnEngine>> open(const RknnOptions& options);

    // Whether products of this pipeline are right on this machine. Error `unsupported` says why not.
    [[nodiscard]] Result<void> check_pipeline(Pipeline pipeline) const;

    // Converts the weights into the library's memory. Thread-safe. Error out_of_memory when no domain has room.
    Result<RknnWeights> prepare(const WeightsShape& shape, const RowReader& read_row);

    // Writes x.rows rows of N floats. After an error the output is undefined, and the next call begins with new contexts.
    // Thread-safe; calls are serialised.
    Result<RknnReport> multiply(const RknnWeights& weights, RowsView x, TargetView y);

    [[nodiscard]] const rknn::Version& version() const { return session_->version(); }
    [[nodiscard]] const std::string& driver() const { return session_->driver(); }
    [[nodiscard]] const std::vector<rknn::ProbedType>& types() const { return types_; }
    [[nodiscard]] std::uint32_t cores() const { return cores_; }

  private:
    struct Domain {
        std::shared_ptr<const rknn::Session> session;
        std::shared_ptr<std::atomic<std::size_t>> weight_bytes;  // outlives the engine with the weights it counts
        rknn::ContextCache contexts;
        rknn::ScratchPool activations;  // never the results' memory: cache lines that the host wrote could be written
        rknn::ScratchPool results;      // back over what the device wrote (reported)
    };
    struct Run;
    struct Batch;

    explicit RknnEngine(const RknnOptions& options) : options_(options) {}
    void add_domain(std::shared_ptr<const rknn::Session> session);
    Result<RknnWeights> allocate(const WeightsShape& shape);
    Result<RknnWeights> allocate_in(std::uint32_t index, const WeightsShape& shape);
    Result<void> multiply_rows(const RknnWeights& weights, RowsView x, TargetView y, RknnReport& report);
    Result<Batch> prepare_batch(const RknnWeights& weights, std::uint32_t rows);
    Result<void> write_activations(const RknnWeights& weights, const Batch& batch, RowsView x, float* scales);
    Result<void> run_core(const RknnWeights& weights, const Batch& batch, std::uint32_t core, const float* scales,
                          std::uint32_t rows, TargetView y);

    RknnOptions options_;
    std::shared_ptr<const rknn::Session> session_;  // of domain 0
    std::mutex mutex_;
    std::vector<std::unique_ptr<Domain>> domains_;
    std::vector<rknn::ProbedType> types_;
    std::uint32_t cores_ = 1;
    bool tied_to_cores_ = false;
};

// Rows that a product of so many is computed with.
std::uint32_t rknn_row_bucket(std::uint32_t rows);

}  // namespace npu::gemm
