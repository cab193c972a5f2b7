// A patch as data: what is changed, where, in which file, why, and how to find the place again. A patched closed library
// can only be trusted when everybody can see what was done to it and undo it; so a patch is a text file that names the
// target by its hash and banner, each place by address, by file offset (which must agree through the program headers) and
// by the bytes around it, and the assertion that the place decides. It is applied as a whole or not at all.
//
// When a new build moved the code, the assertion is looked up again; its place is offered only if it is the only one.
#pragma once

#include "elf/guards.h"

namespace npu::elf {

struct PatchPlace {
    std::uint64_t address = 0;
    std::uint64_t offset = 0;
    std::vector<std::uint8_t> before, old_bytes, new_bytes, after;  // before and after may be empty: not known
    // How to find it again: the assertion's text, the class of the guard, and its number among the guards of the site.
    std::string expression;
    std::string guard_class;
    std::size_t index = 0;
    std::size_t guards = 0;
    std::string reason;
};

struct Patch {
    std::string name;
    std::string caveat;
    std::string sha256;          // of the target; empty: not known
    std::string patched_sha256;  // afterwards; empty: not known
    std::string banner;          // a text that the target must contain; empty: none
    std::vector<PatchPlace> places;
};

// Reading and writing as JSON (patch_file.cpp). Errors: `invalid_argument` names the field.
Result<Patch> read_patch(std::string_view json, const std::string& name);
std::string write_patch(const Patch& patch);

enum class PatchState : std::uint8_t {
    applies,       // the old bytes are there
    applied,       // the new bytes are there
    moved,         // neither, but every place was found again elsewhere, once
    ambiguous,     // a place was found again more than once
    differs,       // neither, and not found again
    wrong_target,  // another file: banner or hash differs
    unsafe,        // a place that must not be patched
};

struct PatchCheck {
    PatchState state = PatchState::differs;
    std::string message;  // why; always filled
    Patch found;          // the patch at its new places, when moved
};

// Compares a patch with a program. Reads only.
PatchCheck check_patch(const Program& program, const Patch& patch);

// The bytes of the image with every place changed from old to new (`forward`) or back. The places must hold what they are
// changed from: check first. Errors: `invalid_argument` otherwise.
Result<std::vector<std::uint8_t>> apply_patch(const Image& image, const Patch& patch, bool forward);

struct NewPatch {
    PatchState state = PatchState::applies;  // or ambiguous, unsafe
    std::string message;
    Patch patch;
};
// The patch that disables one assertion. `all_guards`: change all branches of a shared tail.
NewPatch make_patch(const Program& program, const AssertSite& site, const Guards& guards, const std::string& name,
                    bool all_guards);

}  // namespace npu::elf
