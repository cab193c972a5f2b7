#include "elf/references.h"

#include <algorithm>

namespace npu::elf {

namespace {

class Collector {
  public:
    Collector(const Program& program, References& out) : program_(program), out_(out) {}

    void visit(std::uint64_t site, const Instruction& i, const Registers& r) {
        switch (i.op) {
            case Op::adr: add(site, i.target, ReferenceKind::adr, i.rd); break;
            case Op::load_literal: add(site, i.target, ReferenceKind::literal, i.rd); break;
            case Op::add_immediate:
                if (r.is_address(i.rn)) {
                    add(site, *r.get(i.rn) + static_cast<std::uint64_t>(i.value),
                        r.is_page(i.rn) ? ReferenceKind::adrp_add : ReferenceKind::derived, i.rd);
                }
                break;
            case Op::load:
            case Op::store: access(site, i, r); break;
            case Op::call: out_.calls.push_back({site, i.target, false, false}); break;
            case Op::jump: jump(site, i); break;
            case Op::call_register:
                if (r.is_address(i.rn)) {
                    out_.calls.push_back({site, *r.get(i.rn), false, true});
                } else {
                    ++out_.indirect;
                }
                break;
            default: break;
        }
    }

  private:
    void add(std::uint64_t site, std::uint64_t target, ReferenceKind kind, std::uint8_t reg) {
        out_.all.push_back({site, target, kind, reg});
    }

    void access(std::uint64_t site, const Instruction& i, const Registers& r) {
        if (!r.is_address(i.rn)) {
            return;
        }
        const std::uint64_t place = *r.get(i.rn) + static_cast<std::uint64_t>(i.value);
        add(site, place, r.is_page(i.rn) ? ReferenceKind::adrp_load : ReferenceKind::derived, i.rd);
        if (i.op == Op::load && i.wide) {
            if (const auto pointer = constant_pointer(program_, place)) {
                add(site, *pointer, ReferenceKind::pointer, i.rd);
            }
        }
    }

    // A jump out of its function, to the beginning of another: a call whose return is somebody else's.
    void jump(std::uint64_t site, const Instruction& i) {
        const Function* from = program_.function_at(site);
        const Function* to = program_.function_at(i.target);
        if (to != from && (program_.stubs().contains(i.target) || (to != nullptr && to->start == i.target))) {
            out_.calls.push_back({site, i.target, true, false});
        }
    }

    const Program& program_;
    References& out_;
};

}  // namespace

const char* kind_name(ReferenceKind kind) {
    switch (kind) {
        case ReferenceKind::adrp_add: return "adrp+add";
        case ReferenceKind::adrp_load: return "adrp+ldr";
        case ReferenceKind::adr: return "adr";
        case ReferenceKind::literal: return "literal";
        case ReferenceKind::derived: return "derived";
        case ReferenceKind::pointer: return "pointer";
        case ReferenceKind::data: return "data";
    }
    return "";
}

References find_references(const Program& program) {
    References references;
    Collector collector(program, references);
    for (const auto& group : program.groups()) {
        Flow(program, group).walk_all([&](std::uint64_t site, const Instruction& i, const Registers& r) {
            collector.visit(site, i, r);
        });
    }
    for (const auto& [place, target] : program.dynamic().pointers) {
        references.all.push_back({place, target, ReferenceKind::data, 31});
    }
    std::sort(references.all.begin(), references.all.end(),
              [](auto& a, auto& b) { return std::pair(a.target, a.site) < std::pair(b.target, b.site); });
    std::sort(references.calls.begin(), references.calls.end(), [](auto& a, auto& b) { return a.site < b.site; });
    return references;
}

std::span<const Reference> References::to(std::uint64_t first, std::uint64_t last) const {
    const auto begin = std::lower_bound(all.begin(), all.end(), first,
                                        [](const Reference& r, std::uint64_t t) { return r.target < t; });
    const auto end =
        std::upper_bound(begin, all.end(), last, [](std::uint64_t t, const Reference& r) { return t < r.target; });
    return {begin, end};
}

std::vector<Reference> References::from(std::uint64_t start, std::uint64_t end) const {
    std::vector<Reference> some;
    std::copy_if(all.begin(), all.end(), std::back_inserter(some),
                 [&](const Reference& r) { return r.kind != ReferenceKind::data && r.site >= start && r.site < end; });
    return some;
}

std::span<const Call> References::calls_from(std::uint64_t start, std::uint64_t end) const {
    const auto less = [](const Call& c, std::uint64_t a) { return c.site < a; };
    return {std::lower_bound(calls.begin(), calls.end(), start, less),
            std::lower_bound(calls.begin(), calls.end(), end, less)};
}

}  // namespace npu::elf
