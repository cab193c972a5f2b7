// ggml's "backend" interface and the functions that the registry exports for it by name.
#pragma once

#include "plugin/context.h"
#include "plugin/ggml_host.h"

namespace npu::plugin {

// nullptr, with a log line, when the host has no CPU backend.
ggml_backend_t make_backend(DeviceContext& context, ggml_backend_dev_t device);

void set_n_threads(ggml_backend_t backend, int threads);
void set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void* data);

}  // namespace npu::plugin
