#include "plugin/statistics.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace npu::plugin {

void Statistics::count_npu_matmuls(std::size_t count) {
    const std::lock_guard lock(mutex_);
    matmul_npu_ += count;
}

void Statistics::count_cpu_matmuls(const char* reason, std::size_t count) {
    const std::lock_guard lock(mutex_);
    cpu_reasons_[reason] += count;
}

void Statistics::count_submissions(const gemm::MultiplyReport& report) {
    const std::lock_guard lock(mutex_);
    submissions_ += report.submissions;
    tasks_ += report.tasks;
    space_switches_ += report.space_switches;
    predicted_seconds_ += report.predicted_seconds;
}

void Statistics::count_library_runs(std::size_t runs) {
    const std::lock_guard lock(mutex_);
    submissions_ += runs;
    library_ran_ = true;
}

void Statistics::count_cached(bool found) {
    const std::lock_guard lock(mutex_);
    (found ? from_cache_ : not_in_cache_) += 1;
}

void Statistics::count_late_upload(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    uploaded_after_load_ += bytes;
}

void Statistics::add_resident(std::ptrdiff_t bytes) {
    const std::lock_guard lock(mutex_);
    resident_bytes_ += static_cast<std::size_t>(bytes);
    peak_resident_bytes_ = std::max(peak_resident_bytes_, resident_bytes_);
}

void Statistics::add_originals(std::ptrdiff_t bytes) {
    const std::lock_guard lock(mutex_);
    original_bytes_ += static_cast<std::size_t>(bytes);
    peak_original_bytes_ = std::max(peak_original_bytes_, original_bytes_);
}

std::string Statistics::to_json(const std::string& device) const {
    const std::lock_guard lock(mutex_);
    std::size_t matmul_cpu = 0;
    for (const auto& [reason, count] : cpu_reasons_) {
        matmul_cpu += count;
    }
    const nlohmann::ordered_json unknown;  // null
    const nlohmann::ordered_json json{
        {"device", device},
        {"matmul_npu", matmul_npu_},
        {"matmul_cpu", matmul_cpu},
        {"cpu_reasons", cpu_reasons_.empty() ? nlohmann::ordered_json::object() : nlohmann::ordered_json(cpu_reasons_)},
        {"submissions", submissions_},
        {"tasks", library_ran_ ? unknown : nlohmann::ordered_json(tasks_)},
        {"address_space_switches", space_switches_},
        {"weight_bytes_resident", peak_resident_bytes_},
        {"weight_bytes_kept_in_host_memory", peak_original_bytes_},
        {"weights_from_cache", from_cache_},
        {"weights_not_in_cache", not_in_cache_},
        {"weight_bytes_uploaded_after_load", uploaded_after_load_},
        {"predicted_seconds", library_ran_ ? unknown : nlohmann::ordered_json(predicted_seconds_)},
    };
    return json.dump(2) + "\n";
}

Result<void> write_file(const std::string& path, const std::string& text) {
    const std::string temporary = path + ".part";
    std::FILE* file = std::fopen(temporary.c_str(), "we");
    if (file == nullptr) {
        return make_error(ErrorCode::not_found, "cannot write %s: %s", temporary.c_str(), std::strerror(errno));
    }
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = std::fclose(file) == 0;
    if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
        const Error error =
            make_error(ErrorCode::device_failure, "cannot write %s: %s", path.c_str(), std::strerror(errno));
        std::remove(temporary.c_str());
        return error;
    }
    return {};
}

}  // namespace npu::plugin
