// Files of strangers: the ELF reader with everything behind it, patches and .rkllm containers, from bytes that may be
// anything.
//
// Noise is refused at its first bytes, so most inputs are changes to a file that is whole: the small library that the unit
// tests write (tests/elf/tiny_elf.h), whose fields are overwritten as the input says. Beyond not crashing: a patch that
// applies can be taken back, and gives the same bytes again.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "elf/crash.h"
#include "elf/guards.h"
#include "elf/identify.h"
#include "elf/info.h"
#include "elf/patch.h"
#include "elf/rkllm_abi.h"
#include "elf/rkllm_model.h"
#include "elf/rtti.h"
#include "elf/signature.h"
#include "fuzz/input.h"
#include "tests/elf/tiny_elf.h"

namespace npu::fuzz {
namespace {

void ask_everything(std::vector<std::uint8_t> bytes) {
    auto image = elf::Image::parse(std::move(bytes), "fuzz");
    if (!image) {
        return;
    }
    auto program = elf::Program::analyse(std::move(*image));
    if (!program) {
        return;
    }
    (void)elf::describe(program->image(), program->dynamic(), program->strings());
    (void)elf::find_types(*program);
    const elf::References references = elf::find_references(*program);
    const auto sites = elf::find_asserts(*program, elf::find_sinks(*program, references));
    const auto guards = elf::find_guards(*program, sites);
    (void)elf::match_functions(*program, references, *program, references);
    (void)elf::find_layer_loops(*program, references, "l_out");
    for (std::size_t i = 0; i < sites.size(); ++i) {
        const elf::NewPatch made = elf::make_patch(*program, sites[i], guards[i], "fuzz", true);
        if (made.state != elf::PatchState::applies) {
            continue;
        }
        auto patched = elf::apply_patch(program->image(), made.patch, true);
        auto again = patched ? elf::Image::parse(std::move(*patched), "patched") : Result<elf::Image>(patched.error());
        const auto back =
            again ? elf::apply_patch(*again, made.patch, false) : Result<std::vector<std::uint8_t>>(again.error());
        if (!back || !std::equal(back->begin(), back->end(), program->image().bytes().begin())) {
            std::fprintf(stderr, "broken promise: a patch that applies can be taken back\n");
            std::abort();
        }
    }
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace npu;
    fuzz::Input input(data, size);
    const std::uint32_t kind = input.index(8);
    if (kind >= 4) {
        elf::testing::TinyElf file;
        const std::uint32_t changes = input.index(24);
        for (std::uint32_t i = 0; i < changes; ++i) {
            const std::uint64_t at = input.draw<std::uint16_t>() % (elf::testing::TinyElf::size - 8);
            const unsigned width = 1U << input.index(4);
            file.put(at, input.edge(), width);
        }
        // Code of the input's own, where the file has room for it.
        const auto code = input.take_rest();
        for (std::size_t i = 0; i < code.size() && i < 64; ++i) {
            file.bytes[elf::testing::TinyElf::code + i] = code[i];
        }
        fuzz::ask_everything(std::move(file.bytes));
        return 0;
    }
    const auto rest = input.take_rest();
    const std::string_view text(reinterpret_cast<const char*>(rest.data()), rest.size());
    switch (kind) {
        case 0: fuzz::ask_everything({rest.begin(), rest.end()}); break;
        case 1: (void)elf::read_rkllm(rest, "fuzz"); break;
        case 2: (void)elf::read_patch(text, "fuzz"); break;
        default:
            (void)elf::read_binding(std::string(text), "fuzz");
            (void)elf::read_backtrace(text);
            elf::SourceTexts texts;
            elf::read_source(text, texts);
    }
    return 0;
}
