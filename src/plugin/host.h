// The llama.cpp that loads us. A plugin compiled against one ggml misreads the structures of another without any
// error, so it refuses a host whose version or commit differ from what it was built against. And because activations
// stay in host memory, what the NPU does not do runs on the host's own CPU backend, found here.
#pragma once

#include "base/result.h"
#include "plugin/ggml_host.h"

namespace npu::plugin {

// Compares the host's ggml with the one we were built against. Error: unsupported, with both versions.
Result<void> check_host();

// The host's CPU device; error when no CPU backend is loaded. Looked up on each call: the host may load it later than
// us.
Result<ggml_backend_dev_t> cpu_device();

// Functions that the CPU backend exports by name; nullptr when it does not.
ggml_backend_set_n_threads_t cpu_set_n_threads();
ggml_backend_set_abort_callback_t cpu_set_abort_callback();

}  // namespace npu::plugin
