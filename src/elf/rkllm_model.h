// What a .rkllm file says before it is loaded. The outer container is laid out as GGUF version 3, but its four magic bytes
// and every string are combined with a fixed mask of 256 bytes, which begins anew with each string; counts, lengths, types
// and numbers are plain. The mask is not kept here. The names of the keys are public, and one of them in its masked form
// gives as many bytes of the mask as it is long; that is enough to recognise longer ones, and so on. What stays masked is
// shown as '?'. Read only; for inspection.
//
// Behind the directory and the ordinary tensors stands a block with the NPU's programs (magic "RLLM"), and at the very end
// a line with the version of the toolkit. Source: public descriptions of files of toolkit 1.3.1; not confirmed for others.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "elf/bytes.h"

namespace npu::elf {

struct RkllmKey {
    std::string name;          // '?' where the mask is not known
    bool complete = false;     // the whole name is known
    std::uint32_t type = 0;    // of GGUF: 4 uint32, 5 int32, 6 float32, 8 string, 9 array, ...
    std::string value;         // short form
    std::uint64_t number = 0;  // of integers
};

struct RkllmProgram {
    std::uint64_t offset = 0, version = 0, model_bytes = 0, task_bytes = 0, command_bytes = 0;
};

struct RkllmModel {
    std::uint32_t version = 0;
    std::uint64_t tensors = 0;
    std::vector<RkllmKey> keys;
    std::size_t mask_bytes = 0;  // of 256 that were found
    bool magic_agrees = false;   // the unmasked magic is GGUF
    std::string toolkit;         // "1.3.1"; empty: no such line
    std::optional<RkllmProgram> program;

    // The key of this full name; null when it is not there or not readable.
    [[nodiscard]] const RkllmKey* find(const std::string& name) const;
};

// Errors: `invalid_argument` names the field and offset that does not lie in the file; `unsupported` for other files.
Result<RkllmModel> read_rkllm(Bytes file, const std::string& name);

// What would go wrong with a runtime of this version on this platform ("rk3588"); both may be empty.
std::vector<std::string> rkllm_warnings(const RkllmModel& model, const std::string& runtime,
                                        const std::string& platform);

// "1.2.3" against "1.3": negative when a is older, 0 when equal.
int compare_versions(const std::string& a, const std::string& b);

}  // namespace npu::elf
