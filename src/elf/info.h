// Who made a library, of what, and how well it is guarded: the first questions about a closed file. The answers are its
// build-id and compiler notes, the version banners among its strings, the libraries it is linked to (NEEDED) and those it
// may open while it runs (strings that look like lib*.so and are not linked), its exports, and the hardening that shows
// in imports and notes.
#pragma once

#include "elf/dynamic.h"
#include "elf/strings.h"

namespace npu::elf {

struct Hardening {
    bool canary = false;         // imports __stack_chk_fail
    bool branch_target = false;  // GNU property: BTI
    bool pointer_auth = false;   // GNU property: PAC
    bool relro = false;
    bool bind_now = false;  // with relro: the GOT is read-only, too
    bool stack_executable = false;
};

struct Info {
    std::string sha256;
    std::string build_id;                // empty: none
    std::vector<std::string> compilers;  // .comment
    std::vector<std::string> banners;    // strings that state a version of RKLLM, RKNN or its drivers
    std::string runtime_version;         // of librkllmrt: "1.2.3"; empty when there is no such banner
    std::vector<std::string> opened;     // candidates for dlopen
    Hardening hardening;
    bool stripped = false;         // no .symtab
    bool has_frame_table = false;  // .eh_frame_hdr
};

// Never fails: what is not there is empty.
Info describe(const Image& image, const Dynamic& dynamic, const Strings& strings);

}  // namespace npu::elf
