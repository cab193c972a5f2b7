#include "elf/program.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace npu::elf {

namespace {

// Imports that never return: C and C++ run-time libraries.
bool import_ends(std::string_view name) {
    static const std::set<std::string_view> names{"abort",
                                                  "exit",
                                                  "_exit",
                                                  "_Exit",
                                                  "quick_exit",
                                                  "__stack_chk_fail",
                                                  "__assert_fail",
                                                  "__assert",
                                                  "__assert2",
                                                  "__cxa_throw",
                                                  "__cxa_rethrow",
                                                  "__cxa_bad_cast",
                                                  "__cxa_bad_typeid",
                                                  "__cxa_throw_bad_array_new_length",
                                                  "__cxa_pure_virtual",
                                                  "_Unwind_Resume",
                                                  "_ZSt9terminatev",
                                                  "__chk_fail",
                                                  "__fortify_fail",
                                                  "longjmp",
                                                  "__longjmp_chk",
                                                  "ggml_abort",
                                                  "__cxa_call_unexpected",
                                                  "__cxa_call_terminate",
                                                  "__clang_call_terminate"};
    return names.contains(name) || name.starts_with("_ZSt20__throw_") || name.starts_with("_ZSt16__throw_") ||
           (name.starts_with("_ZSt") && name.find("__throw_") != std::string_view::npos);
}

}  // namespace

Result<Program> Program::analyse(Image image) {
    Program program(std::move(image));
    NPU_ASSIGN(program.dynamic_, read_dynamic(program.image_));
    program.strings_ = Strings(program.image_);
    program.stubs_ = find_stubs(program.image_, program.dynamic_);
    program.functions_ = find_functions(program.image_, program.dynamic_, program.stubs_);
    program.collect_branches();
    program.find_ends();
    program.group();
    return program;
}

Instruction Program::instruction(std::uint64_t address) const {
    return decode(image_.load_at<std::uint32_t>(address).value_or(0), address);
}

void Program::collect_branches() {
    for (const Function& f : functions_) {
        const Bytes bytes = image_.at(f.start, f.end - f.start).value_or(Bytes{});
        for (std::uint64_t offset = 0; inside(offset, 4, bytes.size()); offset += 4) {
            const Instruction i = decode(*load<std::uint32_t>(bytes, offset), f.start + offset);
            if (i.op == Op::call || i.op == Op::jump || i.is_conditional()) {
                branches_.push_back({f.start + offset, i.target, i.op});
            }
        }
    }
    std::sort(branches_.begin(), branches_.end(),
              [](auto& a, auto& b) { return std::pair(a.target, a.site) < std::pair(b.target, b.site); });
}

std::span<const Branch> Program::branches_to(std::uint64_t target) const {
    const auto first = std::lower_bound(branches_.begin(), branches_.end(), target,
                                        [](const Branch& b, std::uint64_t t) { return b.target < t; });
    const auto last =
        std::upper_bound(first, branches_.end(), target, [](std::uint64_t t, const Branch& b) { return t < b.target; });
    return {first, last};
}

// A function never returns when it holds no return, no branch through a register and no jump to one that returns. Finding
// one may reveal others, so the question is asked again until nothing changes.
void Program::find_ends() {
    for (const auto& [address, name] : stubs_) {
        if (import_ends(name)) {
            endless_.insert(address);
        }
    }
    bool changed = true;
    for (int round = 0; changed && round < 8; ++round) {
        changed = false;
        for (Function& f : functions_) {
            if (!f.returns) {
                continue;
            }
            bool leaves = false;
            bool stops = false;
            Instruction last;
            for (std::uint64_t a = f.start; a + 4 <= f.end && !leaves; a += 4) {
                const Instruction i = instruction(a);
                leaves = i.op == Op::give_back || i.op == Op::jump_register ||
                         ((i.op == Op::jump || i.is_conditional()) && (i.target < f.start || i.target >= f.end) &&
                          !endless_.contains(i.target));
                stops |= i.op == Op::trap || (i.op == Op::call && endless_.contains(i.target)) ||
                         (i.op == Op::jump && endless_.contains(i.target));
                last = i.op == Op::nothing ? last : i;
            }
            const bool runs_out = !last.ends_flow() && !(last.op == Op::call && endless_.contains(last.target));
            if (!leaves && stops && !runs_out) {
                f.returns = false;
                endless_.insert(f.start);
                changed = true;
            }
        }
    }
}

bool Program::ends_program(std::uint64_t target) const { return endless_.contains(target); }

void Program::group() {
    std::vector<std::size_t> parent(functions_.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    const auto root = [&](std::size_t i) {
        while (parent[i] != i) {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        return i;
    };
    const auto index = [&](const Function* f) { return static_cast<std::size_t>(f - functions_.data()); };
    std::set<std::uint64_t> addressed;
    for (const auto& [place, target] : dynamic_.pointers) {
        addressed.insert(target);
    }
    for (const Branch& b : branches_) {
        const Function* to = b.op == Op::call ? nullptr : function_at(b.target);
        const Function* from = to == nullptr ? nullptr : function_at(b.site);
        if (to == nullptr || from == nullptr || to == from) {
            continue;
        }
        bool part = b.op != Op::jump || b.target != to->start;
        if (!part && to->name.empty() && !addressed.contains(b.target)) {
            // A jump to a beginning: a tail call, or cold code of the only function that ever goes there.
            const auto all = branches_to(b.target);
            part = std::all_of(all.begin(), all.end(), [&](const Branch& other) {
                return other.op != Op::call && function_at(other.site) == from;
            });
        }
        if (part) {
            parent[root(index(from))] = root(index(to));
        }
    }
    std::map<std::size_t, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < functions_.size(); ++i) {
        groups[root(i)].push_back(i);
    }
    for (auto& [key, members] : groups) {
        groups_.push_back(std::move(members));
    }
}

const Function* Program::function_at(std::uint64_t address) const {
    auto after = std::upper_bound(functions_.begin(), functions_.end(), address,
                                  [](std::uint64_t a, const Function& f) { return a < f.start; });
    if (after == functions_.begin()) {
        return nullptr;
    }
    --after;
    return address < after->end ? &*after : nullptr;
}

std::string Program::name_of(std::uint64_t address) const {
    if (const auto stub = stubs_.find(address); stub != stubs_.end()) {
        return stub->second;
    }
    const Function* f = function_at(address);
    if (f != nullptr && f->start == address && !f->name.empty()) {
        return f->name;
    }
    return format("fn_%llx", static_cast<unsigned long long>(address));
}

std::optional<std::uint64_t> Program::address_of(std::string_view name) const {
    for (const Function& f : functions_) {
        if (!f.name.empty() && f.name == name) {
            return f.start;
        }
    }
    for (const auto& [address, import] : stubs_) {
        if (import == name) {
            return address;
        }
    }
    for (const Symbol& s : dynamic_.symbols) {
        if (s.defined && s.name == name) {
            return s.address;
        }
    }
    return std::nullopt;
}

}  // namespace npu::elf
