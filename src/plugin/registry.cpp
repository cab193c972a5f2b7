// ggml's "registry" interface, and the two functions that the plugin exports.
#include <cstring>
#include <exception>
#include <memory>

#include "base/log.h"
#include "base/options.h"
#include "plugin/backend.h"
#include "plugin/context.h"
#include "plugin/device.h"
#include "plugin/host.h"

namespace npu::plugin {

namespace {

struct Plugin {
    std::unique_ptr<DeviceContext> context;
    ggml_backend_reg registry{};
    ggml_backend_device device{};
};

// Made once and never destroyed: the host may still run graphs while its process exits.
Plugin* plugin = nullptr;

const char* get_name(ggml_backend_reg_t) { return "NPU"; }

size_t get_device_count(ggml_backend_reg_t) { return 1; }

ggml_backend_dev_t get_device(ggml_backend_reg_t, size_t index) { return index == 0 ? &plugin->device : nullptr; }

void* get_proc_address(ggml_backend_reg_t, const char* name) {
    if (std::strcmp(name, "ggml_backend_set_n_threads") == 0) {
        return reinterpret_cast<void*>(set_n_threads);
    }
    if (std::strcmp(name, "ggml_backend_set_abort_callback") == 0) {
        return reinterpret_cast<void*>(set_abort_callback);
    }
    if (std::strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0) {
        return reinterpret_cast<void*>(extra_buffer_types);
    }
    return nullptr;
}

void log_to_ggml(LogLevel level, const char* line) {
    switch (level) {
        case LogLevel::debug: GGML_LOG_DEBUG("ggml-npu: %s\n", line); break;
        case LogLevel::info: GGML_LOG_INFO("ggml-npu: %s\n", line); break;
        case LogLevel::warning: GGML_LOG_WARN("ggml-npu: %s\n", line); break;
        case LogLevel::error: GGML_LOG_ERROR("ggml-npu: %s\n", line); break;
    }
}

Result<Plugin*> make_plugin() {
    NPU_TRY(check_host());
    set_log_sink(log_to_ggml);
    for (const std::string& name : unknown_options()) {
        log(LogLevel::warning, "%s is no option of this plugin; known are:\n%s", name.c_str(),
            describe_options().c_str());
    }
    auto made = std::make_unique<Plugin>();
    NPU_ASSIGN(made->context, DeviceContext::open());
    made->registry = {GGML_BACKEND_API_VERSION, {get_name, get_device_count, get_device, get_proc_address}, nullptr};
    made->device = make_device(&made->registry, *made->context);
    return made.release();
}

// Called by every ggml_backend_load_all() of the host, from one thread at a time: always the same object.
ggml_backend_reg_t registry() {
    if (plugin == nullptr) {
        try {
            auto made = make_plugin();
            if (!made) {
                GGML_LOG_ERROR("ggml-npu: %s\n", made.error().message.c_str());
                return nullptr;
            }
            plugin = *made;
        } catch (const std::exception& exception) {
            GGML_LOG_ERROR("ggml-npu: %s\n", exception.what());
            return nullptr;
        }
    }
    return &plugin->registry;
}

int score() { return 1; }

}  // namespace

}  // namespace npu::plugin

GGML_BACKEND_DL_IMPL(npu::plugin::registry)
GGML_BACKEND_DL_SCORE_IMPL(npu::plugin::score)
