// ggml's "device" interface.
#pragma once

#include "plugin/context.h"
#include "plugin/ggml_host.h"

namespace npu::plugin {

// Fills a device object that lives as long as the process.
ggml_backend_device make_device(ggml_backend_reg_t registry, DeviceContext& context);

// nullptr-terminated list of the device's extra buffer types.
ggml_backend_buffer_type_t* extra_buffer_types(ggml_backend_dev_t device);

}  // namespace npu::plugin
