// The ggml that this plugin was built against, as its own functions named it then.
#pragma once

namespace npu::plugin {

extern const char* const built_ggml_version;
extern const char* const built_ggml_commit;

}  // namespace npu::plugin
