// ggml's "backend" interface: one stream of graphs on the device.
#include "plugin/backend.h"

#include "plugin/arrange.h"
#include "plugin/executor.h"

namespace npu::plugin {

namespace {

struct BackendContext {
    DeviceContext& device;
    std::unique_ptr<Executor> executor;
};

BackendContext& context_of(ggml_backend_t backend) { return *static_cast<BackendContext*>(backend->context); }

ggml_guid_t guid() {
    static ggml_guid id = {0x6e, 0x1c, 0x0a, 0x52, 0x93, 0x7f, 0x4d, 0x08,
                           0xb3, 0x55, 0xc4, 0x21, 0xee, 0x18, 0x7a, 0x90};
    return &id;
}

const char* get_name(ggml_backend_t backend) { return ggml_backend_dev_name(backend->device); }

void free_backend(ggml_backend_t backend) {
    context_of(backend).device.backend_closed();
    delete &context_of(backend);
    delete backend;
}

ggml_status graph_compute(ggml_backend_t backend, ggml_cgraph* graph) {
    try {
        return context_of(backend).executor->compute(graph);
    } catch (const std::exception& exception) {  // memory of the host ran out
        GGML_LOG_ERROR("ggml-npu: %s\n", exception.what());
        return GGML_STATUS_FAILED;
    }
}

void graph_optimize(ggml_backend_t backend, ggml_cgraph* graph, ggml_backend_graph_optimize_params*) {
    gather_matmuls(graph, context_of(backend).device.multiplier());
}

constexpr ggml_backend_i interface = {
    /* .get_name            = */ get_name,
    /* .free                = */ free_backend,
    /* .set_tensor_async    = */ nullptr,
    /* .get_tensor_async    = */ nullptr,
    /* .set_tensor_2d_async = */ nullptr,
    /* .get_tensor_2d_async = */ nullptr,
    /* .cpy_tensor_async    = */ nullptr,
    /* .synchronize         = */ nullptr,
    /* .graph_plan_create   = */ nullptr,
    /* .graph_plan_free     = */ nullptr,
    /* .graph_plan_update   = */ nullptr,
    /* .graph_plan_compute  = */ nullptr,
    /* .graph_compute       = */ graph_compute,
    /* .event_record        = */ nullptr,
    /* .event_wait          = */ nullptr,
    /* .graph_optimize      = */ graph_optimize,
};

bool is_ours(ggml_backend_t backend) { return backend != nullptr && ggml_guid_matches(backend->guid, guid()); }

}  // namespace

ggml_backend_t make_backend(DeviceContext& context, ggml_backend_dev_t device) {
    auto executor = Executor::create(context);
    if (!executor) {
        GGML_LOG_ERROR("ggml-npu: %s\n", executor.error().message.c_str());
        return nullptr;
    }
    context.backend_opened();
    return new ggml_backend{guid(), interface, device, new BackendContext{context, std::move(*executor)}};
}

void set_n_threads(ggml_backend_t backend, int threads) {
    if (is_ours(backend)) {
        context_of(backend).executor->set_n_threads(threads);
    }
}

void set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void* data) {
    if (is_ours(backend)) {
        context_of(backend).executor->set_abort_callback(callback, data);
    }
}

}  // namespace npu::plugin
