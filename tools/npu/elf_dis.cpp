// `npu elf dis`: a listing with what is known beside each instruction. Capstone, when it was there at configure time, prints
// the instructions; everything else does without it, and the listing then shows their words. Words go to it one at a time,
// because it stops at the first that it does not know.
#include <map>
#include <memory>

#include "elf/references.h"
#include "elf_common.h"
#ifdef NPU_HAVE_CAPSTONE
#include <capstone/capstone.h>
#endif

namespace npu::tools {

namespace {

struct Options {
    std::string path, where;
    bool json = false;
};

class Printer {
  public:
#ifdef NPU_HAVE_CAPSTONE
    Printer() { good_ = cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, &handle_) == CS_ERR_OK; }
    ~Printer() {
        if (good_) {
            cs_close(&handle_);
        }
    }
    Printer(const Printer&) = delete;
    Printer& operator=(const Printer&) = delete;

    std::string operator()(std::uint32_t word, std::uint64_t address) const {
        const std::uint8_t bytes[4] = {static_cast<std::uint8_t>(word), static_cast<std::uint8_t>(word >> 8),
                                       static_cast<std::uint8_t>(word >> 16), static_cast<std::uint8_t>(word >> 24)};
        cs_insn* instruction = nullptr;
        const std::size_t count = good_ ? cs_disasm(handle_, bytes, sizeof bytes, address, 1, &instruction) : 0;
        if (count == 0) {
            return format(".inst 0x%08x", word);
        }
        const std::string text = std::string(instruction->mnemonic) + " " + instruction->op_str;
        cs_free(instruction, count);
        return text;
    }

  private:
    csh handle_ = 0;
    bool good_ = false;
#else
    std::string operator()(std::uint32_t word, std::uint64_t /*address*/) const { return format(".inst 0x%08x", word); }
#endif
};

std::string branch_text(const elf::Program& program, const elf::Instruction& i) {
    switch (i.op) {
        case elf::Op::call: return "calls " + demangled(program.name_of(i.target));
        case elf::Op::jump:
        case elf::Op::branch_if:
        case elf::Op::compare_branch:
        case elf::Op::test_branch: return "to " + hex(i.target);
        default: return {};
    }
}

void run(const Options& options) {
    const elf::Program program = open_program(options.path);
    const std::size_t colon = options.where.find(':');
    const std::uint64_t start = parse_address(program, options.where.substr(0, colon)) & ~std::uint64_t{3};
    const elf::Function* f = program.function_at(start);
    std::uint64_t end = f != nullptr ? f->end : start + 64;
    if (colon != std::string::npos) {
        end = start + parse_address(program, "0x" + options.where.substr(colon + 1));
    }
    const elf::References references = elf::find_references(program);
    std::multimap<std::uint64_t, std::string> notes;
    for (const elf::Reference& r : references.from(start, end)) {
        const auto text =
            program.strings().find(r.target) == nullptr ? std::nullopt : elf::text_at(program.image(), r.target);
        notes.emplace(r.site, hex(r.target) + (text ? " \"" + one_line(text->substr(0, 120)) + "\"" : std::string()));
    }
    const Printer printer;
    Json list = Json::array();
    std::string lines;
    for (std::uint64_t a = start; a < end; a += 4) {
        const auto word = program.image().load_at<std::uint32_t>(a);
        if (!word) {
            break;
        }
        std::string note = branch_text(program, elf::decode(*word, a));
        const auto [first, last] = notes.equal_range(a);
        for (auto it = first; it != last; ++it) {
            note += (note.empty() ? "" : "; ") + it->second;
        }
        const std::string text = printer(*word, a);
        list.push_back({{"address", hex(a)}, {"word", format("%08x", *word)}, {"text", text}, {"note", note}});
        lines += format("%10llx  %08x  %-44s", static_cast<unsigned long long>(a), *word, text.c_str()) +
                 (note.empty() ? "" : "; " + note) + "\n";
    }
    options.json ? print(list) : print(lines);
    if (list.empty()) {
        fail("no bytes at " + hex(start), elf_nothing);
    }
}

}  // namespace

void add_elf_dis(CLI::App& elf) {
    auto options = std::make_shared<Options>();
    CLI::App* command = elf.add_subcommand("dis", "Lists instructions with the texts and functions that they mention");
    command->add_option("LIB", options->path, "Shared object or executable")->required()->type_name("");
    command
        ->add_option("ADDRESS", options->where, "Address or name, with :LENGTH in hexadecimal (default: the function)")
        ->required()
        ->type_name("");
    command->add_flag("--json", options->json, "Prints JSON");
    command->callback([options] { run(*options); });
}

}  // namespace npu::tools
