#include "plugin/host.h"

#include <cstring>

#include "base/options.h"
#include "plugin/build_host.h"

namespace npu::plugin {

Result<void> check_host() {
    if (std::strcmp(ggml_version(), built_ggml_version) == 0 && std::strcmp(ggml_commit(), built_ggml_commit) == 0) {
        return {};
    }
    if (options() && options()->any_host) {
        GGML_LOG_WARN("ggml-npu: built against ggml %s (%s), loaded into %s (%s), because GGML_NPU_ANY_HOST=1\n",
                      built_ggml_version, built_ggml_commit, ggml_version(), ggml_commit());
        return {};
    }
    return make_error(
        ErrorCode::unsupported,
        "this plugin was built against ggml %s (commit %s) but the program that loads it has ggml %s "
        "(commit %s); rebuild the plugin against that llama.cpp, or set GGML_NPU_ANY_HOST=1 to try anyway",
        built_ggml_version, built_ggml_commit, ggml_version(), ggml_commit());
}

Result<ggml_backend_dev_t> cpu_device() {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == nullptr) {
        return make_error(ErrorCode::not_found,
                          "the host program has no CPU backend loaded; libggml-cpu*.so must stand beside it");
    }
    return device;
}

namespace {

void* cpu_function(const char* name) {
    const auto device = cpu_device();
    return device ? ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(*device), name) : nullptr;
}

}  // namespace

ggml_backend_set_n_threads_t cpu_set_n_threads() {
    return reinterpret_cast<ggml_backend_set_n_threads_t>(cpu_function("ggml_backend_set_n_threads"));
}

ggml_backend_set_abort_callback_t cpu_set_abort_callback() {
    return reinterpret_cast<ggml_backend_set_abort_callback_t>(cpu_function("ggml_backend_set_abort_callback"));
}

}  // namespace npu::plugin
