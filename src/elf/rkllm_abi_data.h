// The layouts of rkllm_abi.h as they are kept: text, so that they can be compared with a header by eye.
#pragma once

namespace npu::elf {

// Lines: "version V", "functions F...", "struct NAME SIZE FIELD@OFFSET..."; a line that begins with spaces continues.
extern const char* const rkllm_abi_text;

}  // namespace npu::elf
