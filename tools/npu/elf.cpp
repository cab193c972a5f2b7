// `npu elf`: questions to a closed library, each a subcommand of its own.
#include "elf_common.h"

namespace npu::tools {

void add_elf(CLI::App& program) {
    CLI::App* elf =
        program.add_subcommand("elf", "Reads stripped AArch64 libraries: texts, functions, assertions, patches");
    elf->require_subcommand(1);
    add_elf_info(*elf);
    add_elf_strings(*elf);
    add_elf_functions(*elf);
    add_elf_xref(*elf);
    add_elf_callers(*elf);
    add_elf_asserts(*elf);
    add_elf_guards(*elf);
    add_elf_patch(*elf);
    add_elf_diff(*elf);
    add_elf_find(*elf);
    add_elf_crash(*elf);
    add_elf_rtti(*elf);
    add_elf_dis(*elf);
    add_elf_identify(*elf);
    elf->footer(
        "Exit status: 0 done; 1 nothing found; 2 usage; 3 not a supported ELF file; 4 torn or malformed; 5 bytes "
        "differ;\n"
        "6 patched already; 7 ambiguous; 8 must not be patched; 9 cannot read or write. More: docs/rkllm-runtime.md");
}

}  // namespace npu::tools
