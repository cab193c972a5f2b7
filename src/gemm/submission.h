// One job of the device: a batch of rows times one or several weight matrices. The matrices share the activations, which lie
// in memory once; every one has a plan and a program of its own, and the last task of one program leads to the first of the
// next on the same core, so that the driver is asked once. Programs are planned and written when a submission is made and
// aimed at weights, features and results, by rewriting the words that hold addresses, whenever it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compile/program.h"
#include "compile/search.h"
#include "device/device.h"
#include "gemm/weights.h"

namespace npu::gemm {

// How programs are made.
struct ProgramOptions {
    std::uint32_t cores = 3;                              // where they share an address space; elsewhere all work
    compile::Reduce reduce = compile::Reduce::automatic;  // who adds partial sums: compile/search.h
    std::string without = {};                             // constraints to take away, by comma: compile/constraints.h
    bool check_programs = true;  // every new program passes rockchip::check_program before its first run
};

// What makes two submissions the same. Shapes agree in K, pipeline and rotation.
struct SubmissionKey {
    std::vector<WeightsShape> shapes;
    std::uint32_t rows = 0;
    std::uint32_t first_space = 0;
    std::uint32_t slot = 0;  // which scratch memory it uses; two that are in flight at once differ
    friend bool operator==(const SubmissionKey&, const SubmissionKey&) = default;
};

// Device memory of one address space that submissions read and write.
struct Scratch {
    std::unique_ptr<device::Buffer> features;
    std::unique_ptr<device::Buffer> output;
};

// A slice of one matrix, and the plan for it.
struct ProductPlan {
    std::size_t product = 0;  // index among the shapes
    Slice slice;
    compile::Plan plan;
};

struct SubmissionPlan {
    std::vector<ProductPlan> parts;
    std::size_t tasks = 0;
    double seconds = 0;  // predicted, at the chip's nominal clock
};

// Slices of a matrix on this device: one, or one per core where each has an address space.
std::uint32_t slices_on(const device::Device& device);

// Pure but for what it asks the device about itself. Errors: what planning says.
Result<SubmissionPlan> plan_submission(const device::Device& device, std::span<const WeightsShape> shapes,
                                       std::uint32_t rows, const ProgramOptions& options);

class Submission {
  public:
    struct Part {
        std::size_t product = 0;
        Slice slice;
        std::uint32_t space = 0;
        compile::Plan plan;
        compile::Program program = {};
        std::size_t words_offset = 0;            // bytes, in the program memory of its space
        std::size_t output_offset = 0;           // bytes, in Scratch::output of its space
        std::vector<std::size_t> canaries = {};  // one per core: bytes, in Scratch::output
        compile::Addresses aimed_at = {};
        bool aimed = false;
    };

    // Plans, writes the words and allocates memory for them. The device must outlive the submission.
    static Result<std::unique_ptr<Submission>> make(device::Device& device, const ProgramOptions& options,
                                                    SubmissionKey key);

    [[nodiscard]] const SubmissionKey& key() const { return key_; }
    [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
    [[nodiscard]] std::size_t tasks() const { return tasks_; }
    [[nodiscard]] double predicted_seconds() const { return predicted_seconds_; }
    // The same for all parts.
    [[nodiscard]] compile::FeatureLayout feature_layout() const { return parts_.front().plan.feature_layout(); }
    [[nodiscard]] std::size_t feature_bytes() const { return feature_layout().bytes(); }
    // Of the results of all parts in an address space; 0 where none lies.
    [[nodiscard]] std::size_t output_bytes(std::uint32_t space) const;

    // Points the programs at these weights, one for each shape, and at scratch memory by address space, and hands them to
    // the device. Errors: what the checker says of a new program; what the device says.
    Result<void> aim(std::span<const ResidentWeights* const> weights, std::span<const Scratch> scratch);

    // Runs it, aimed and its features handed over, and waits.
    Result<device::JobReport> run(std::span<const Scratch> scratch, std::chrono::milliseconds deadline) const;

  private:
    struct Words {  // the programs in one address space
        std::unique_ptr<device::Buffer> buffer;
        std::size_t bytes = 0;
    };

    Submission(device::Device& device, const ProgramOptions& options, SubmissionKey key)
        : device_(device), options_(options), key_(std::move(key)) {}
    void place(Part& part);
    Result<void> allocate_words();
    void write_chains();
    Result<void> check(const Part& part, const ResidentWeights& weights, const Scratch& scratch) const;
    [[nodiscard]] std::size_t core_of(const Part& part, std::size_t core) const;

    device::Device& device_;
    ProgramOptions options_;
    SubmissionKey key_;
    std::vector<Part> parts_;
    std::vector<Words> words_;                                   // by address space
    std::vector<std::size_t> output_bytes_;                      // by address space
    std::vector<std::vector<device::TaskChain::Entry>> chains_;  // by core
    std::size_t tasks_ = 0;
    double predicted_seconds_ = 0;
};

}  // namespace npu::gemm
