// ggml's "device" interface: what the NPU is, which memory it likes, what it accepts.
#include "plugin/device.h"

#include "base/options.h"
#include "plugin/backend.h"
#include "plugin/host.h"
#include "plugin/route.h"
#include "plugin/tensors.h"
#include "plugin/weight_buffer.h"

namespace npu::plugin {

namespace {

DeviceContext& context_of(ggml_backend_dev_t device) { return *static_cast<DeviceContext*>(device->context); }

const char* get_name(ggml_backend_dev_t) { return "NPU0"; }

const char* get_description(ggml_backend_dev_t device) { return context_of(device).description().c_str(); }

void get_memory(ggml_backend_dev_t device, size_t* free, size_t* total) {
    const device::MemoryInfo memory = context_of(device).multiplier().memory();
    *free = memory.free;
    *total = memory.total;
}

enum ggml_backend_dev_type get_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }

void get_props(ggml_backend_dev_t device, ggml_backend_dev_props* props) {
    props->name = get_name(device);
    props->description = get_description(device);
    props->type = get_type(device);
    get_memory(device, &props->memory_free, &props->memory_total);
    props->caps = {
        /* .async                = */ false,
        /* .host_buffer          = */ false,
        /* .buffer_from_host_ptr = */ true,
        /* .events               = */ false,
        /* .mmap_support         = */ true,
    };
}

ggml_backend_t init_backend(ggml_backend_dev_t device, const char*) { return make_backend(context_of(device), device); }

// Activations, the KV cache and everything that is not a matmul's weights stay in host memory.
ggml_backend_buffer_type_t get_buffer_type(ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); }

ggml_backend_buffer_t buffer_from_host_ptr(ggml_backend_dev_t, void* data, size_t size, size_t) {
    return ggml_backend_cpu_buffer_from_ptr(data, size);
}

bool reads_npu_weights(const ggml_tensor* op) {
    for (const ggml_tensor* source : op->src) {
        if (source != nullptr && source->buffer != nullptr && is_weight_buffer(source->buffer)) {
            return true;
        }
    }
    return false;
}

// A loader that looks for the right memory of a weight asks with a buffer of size zero in its place.
bool is_loader_probe(const ggml_tensor* weights) {
    return weights->buffer != nullptr && ggml_backend_buffer_get_size(weights->buffer) == 0;
}

bool cpu_supports(const ggml_tensor* op) {
    const auto cpu = cpu_device();
    return cpu && ggml_backend_dev_supports_op(*cpu, op);
}

bool supports_op(ggml_backend_dev_t device, const ggml_tensor* op) {
    if (is_view(op)) {
        return true;
    }
    const bool whole_graphs = options()->claim == "all";
    if (is_matmul(op)) {
        const ggml_tensor* weights = op->src[0];
        const Multiplier& multiplier = context_of(device).multiplier();
        const Route route = route_matmul(op, multiplier).route;
        if (route == Route::resident) {
            return true;
        }
        if (reads_npu_weights(op)) {
            return false;
        }
        const bool would_be_resident = op->op == GGML_OP_MUL_MAT_ID || route == Route::transient;
        if (is_loader_probe(weights) && is_weight_matrix(weights, multiplier) && would_be_resident) {
            return false;  // not here: the loader's next question will be about our own buffer type
        }
        return route == Route::transient || (whole_graphs && cpu_supports(op));
    }
    return whole_graphs && !reads_npu_weights(op) && cpu_supports(op);
}

bool supports_buft(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return ggml_backend_buft_is_host(type) || is_weight_buffer_type(type);
}

constexpr ggml_backend_device_i interface = {
    /* .get_name             = */ get_name,
    /* .get_description      = */ get_description,
    /* .get_memory           = */ get_memory,
    /* .get_type             = */ get_type,
    /* .get_props            = */ get_props,
    /* .init_backend         = */ init_backend,
    /* .get_buffer_type      = */ get_buffer_type,
    /* .get_host_buffer_type = */ nullptr,
    /* .buffer_from_host_ptr = */ buffer_from_host_ptr,
    /* .supports_op          = */ supports_op,
    /* .supports_buft        = */ supports_buft,
    /* .offload_op           = */ nullptr,
    /* .event_new            = */ nullptr,
    /* .event_free           = */ nullptr,
    /* .event_synchronize    = */ nullptr,
};

}  // namespace

ggml_backend_device make_device(ggml_backend_reg_t registry, DeviceContext& context) {
    return {interface, registry, &context};
}

ggml_backend_buffer_type_t* extra_buffer_types(ggml_backend_dev_t device) {
    static ggml_backend_buffer_type_t types[] = {weight_buffer_type(context_of(device), device), nullptr};
    return types;
}

}  // namespace npu::plugin
