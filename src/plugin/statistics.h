// What a run did, counted where it happens and written as JSON when the device closes. Nothing that runs on the CPU
// instead of the NPU is silent: each such matmul is counted under its reason.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "base/result.h"
#include "gemm/engine.h"
#include "plugin/profile.h"

namespace npu::plugin {

// Thread-safe.
class Statistics {
  public:
    explicit Statistics(bool profile) : profile_(profile) {}
    void count_npu_matmuls(std::size_t count);
    void count_cpu_matmuls(const char* reason, std::size_t count);
    // Work of one multiplication, as the engine reports it.
    void count_submissions(const gemm::MultiplyReport& report);
    // Runs of contexts of librknnrt, each of which is a submission. It tells neither tasks nor what the timing model needs:
    // after this both are reported as unknown.
    void count_library_runs(std::size_t runs);
    // A weight matrix that was looked for in the cache of converted weights (GGML_NPU_CACHE).
    void count_cached(bool found);
    // Weights written to the device other than by loading them: host matrices uploaded for one multiplication, and
    // resident weights that are written a second time.
    void count_late_upload(std::size_t bytes);
    // Device memory that holds weights grew (or shrank) by `bytes`. The statistics report the largest amount.
    void add_resident(std::ptrdiff_t bytes);
    // The same of host memory that holds what weights were before they were converted (original_bytes.h).
    void add_originals(std::ptrdiff_t bytes);

    Profile& profile() { return profile_; }

    // The counts as JSON; `device` is the device's description.
    [[nodiscard]] std::string to_json(const std::string& device) const;

  private:
    Profile profile_;
    mutable std::mutex mutex_;
    std::size_t matmul_npu_ = 0;
    std::map<std::string, std::size_t> cpu_reasons_;
    std::size_t submissions_ = 0;
    std::size_t tasks_ = 0;
    std::size_t space_switches_ = 0;
    std::size_t from_cache_ = 0;
    std::size_t not_in_cache_ = 0;
    std::size_t resident_bytes_ = 0;
    std::size_t peak_resident_bytes_ = 0;
    std::size_t original_bytes_ = 0;
    std::size_t peak_original_bytes_ = 0;
    std::size_t uploaded_after_load_ = 0;
    double predicted_seconds_ = 0;
    bool library_ran_ = false;
};

// Writes `text` to `path`, through a temporary file beside it so that a reader never sees half of it.
Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace npu::plugin
