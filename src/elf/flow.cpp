#include "elf/flow.h"

#include <algorithm>
#include <deque>

namespace npu::elf {

void Registers::forget(std::uint32_t registers) {
    known &= ~registers;
    page &= ~registers;
    address &= ~registers;
}

void Registers::set(unsigned reg, std::uint64_t value, bool is_an_address, bool is_a_page) {
    if (reg >= 31) {
        return;
    }
    const std::uint32_t bit = std::uint32_t{1} << reg;
    forget(bit);
    known |= bit;
    page |= is_a_page ? bit : 0;
    address |= is_an_address ? bit : 0;
    values[reg] = value;
}

bool Registers::meet(const Registers& other) {
    std::uint32_t keep = known & other.known;
    for (unsigned i = 0; i < 31; ++i) {
        if ((keep >> i & 1) != 0 && values[i] != other.values[i]) {
            keep &= ~(std::uint32_t{1} << i);
        }
    }
    const std::uint32_t before_known = known, before_page = page, before_address = address;
    known = keep;
    page = page & other.page & keep;
    address = address & other.address & keep;
    return known != before_known || page != before_page || address != before_address;
}

std::optional<std::uint64_t> constant_pointer(const Program& program, std::uint64_t place) {
    const auto found = program.dynamic().pointers.find(place);
    if (found == program.dynamic().pointers.end()) {
        return std::nullopt;
    }
    const Segment* relro = program.image().find_segment(segment_relro);
    const Segment* home = program.image().segment_at(place);
    const bool writable = home != nullptr && (home->flags & flag_write) != 0;
    const bool sealed = relro == nullptr || (place >= relro->address && place - relro->address < relro->memory_size);
    return !writable || sealed ? std::optional(found->second) : std::nullopt;
}

Flow::Flow(const Program& program, std::span<const std::size_t> group) : program_(program) {
    cut(group);
    connect();
    settle();
}

void Flow::cut(std::span<const std::size_t> group) {
    const auto& functions = program_.functions();
    const auto in_group = [&](std::uint64_t a) {
        return std::any_of(group.begin(), group.end(),
                           [&](std::size_t f) { return a >= functions[f].start && a < functions[f].end; });
    };
    for (const std::size_t index : group) {
        const Function& f = functions[index];
        leaders_[f.start] = true;
        for (const LandingPad& pad : f.landing_pads) {
            if (in_group(pad.pad)) {
                leaders_[pad.pad] = true;
                pads_.push_back(pad);
            }
        }
        for (std::uint64_t a = f.start; a + 4 <= f.end; a += 4) {
            const Instruction i = program_.instruction(a);
            const bool branches = i.op == Op::jump || i.is_conditional();
            if (branches && in_group(i.target)) {
                leaders_.emplace(i.target, false);
            }
            const bool ends = branches || i.ends_flow() || (i.op == Op::call && program_.ends_program(i.target));
            if (ends && a + 8 <= f.end) {
                leaders_.emplace(a + 4, false);
            }
        }
    }
    std::sort(pads_.begin(), pads_.end(), [](auto& a, auto& b) { return a.start < b.start; });
    // A part of a function that was moved away is entered by branches that are seen; only the first is entered by calls.
    for (const std::size_t index : group) {
        const auto to = program_.branches_to(functions[index].start);
        const bool only_branched =
            group.size() > 1 && !to.empty() && functions[index].name.empty() &&
            std::all_of(to.begin(), to.end(), [&](const Branch& b) { return b.op != Op::call && in_group(b.site); });
        leaders_[functions[index].start] = !only_branched;
    }
    for (auto it = leaders_.begin(); it != leaders_.end(); ++it) {
        const Function* f = program_.function_at(it->first);
        if (f == nullptr) {
            continue;
        }
        const auto next = std::next(it);
        const std::uint64_t end = next == leaders_.end() ? f->end : std::min(f->end, next->first);
        Block block;
        block.start = it->first;
        block.end = it->first + (end - it->first) / 4 * 4;
        block.root = it->second;
        blocks_.push_back(std::move(block));
    }
}

std::optional<std::size_t> Flow::block_at(std::uint64_t address) const {
    auto after = std::upper_bound(blocks_.begin(), blocks_.end(), address,
                                  [](std::uint64_t a, const Block& b) { return a < b.start; });
    if (after == blocks_.begin()) {
        return std::nullopt;
    }
    --after;
    return address < after->end ? std::optional(static_cast<std::size_t>(after - blocks_.begin())) : std::nullopt;
}

void Flow::connect() {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
        Block& block = blocks_[b];
        if (block.end == block.start) {
            continue;
        }
        const Instruction last = program_.instruction(block.end - 4);
        if (last.op == Op::jump || last.is_conditional()) {
            if (const auto to = block_at(last.target); to && blocks_[*to].start == last.target) {
                block.to.push_back(*to);
            }
        }
        const bool goes_on = !last.ends_flow() && !(last.op == Op::call && program_.ends_program(last.target));
        if (goes_on && b + 1 < blocks_.size() && blocks_[b + 1].start == block.end) {
            block.to.push_back(b + 1);
        }
        for (const std::size_t to : block.to) {
            blocks_[to].from.push_back(b);
        }
    }
    for (Block& block : blocks_) {
        block.root |= block.from.empty();
    }
}

// Joins registers into a block; true when that changed what the block begins with.
bool Flow::enter(std::size_t block, const Registers& registers) {
    Block& next = blocks_[block];
    if (next.seen) {
        return next.in.meet(registers);
    }
    next.in = registers;
    next.seen = true;
    return true;
}

// What is known at the beginning of `to` after the last branch of `from`, which may have compared something.
Registers Flow::along(const Block& from, std::size_t to, Registers registers) const {
    const Instruction last = program_.instruction(from.end - 4);
    const bool taken = blocks_[to].start == last.target;
    if (!last.is_conditional() || last.target == from.end) {
        return registers;
    }
    const std::uint32_t word = program_.image().load_at<std::uint32_t>(from.end - 4).value_or(0);
    if (last.op == Op::compare_branch && ((word >> 24 & 1) == 0) == taken && !registers.get(last.rn)) {
        registers.set(last.rn, 0, false);
    } else if (last.op == Op::branch_if && from.end - from.start >= 8 && (word & 15) <= 1 &&
               ((word & 15) == 0) == taken) {
        const std::uint32_t before = program_.image().load_at<std::uint32_t>(from.end - 8).value_or(0);
        const unsigned reg = before >> 5 & 31;
        if ((before & 0x7fc0001f) == 0x7100001f && !registers.get(reg)) {  // cmp reg, #immediate
            registers.set(reg, before >> 10 & 4095, false);
        }
    }
    return registers;
}

void Flow::run(const std::vector<std::size_t>& first) {
    std::deque<std::size_t> work(first.begin(), first.end());
    std::vector<bool> waiting(blocks_.size(), false);
    const auto push = [&](std::size_t b) {
        if (!waiting[b]) {
            waiting[b] = true;
            work.push_back(b);
        }
    };
    const auto throws = [&](std::uint64_t a, const Instruction& i, const Registers& r) {
        if (pads_.empty() || (i.op != Op::call && i.op != Op::call_register)) {
            return;
        }
        auto pad = std::upper_bound(pads_.begin(), pads_.end(), a,
                                    [](std::uint64_t at, const LandingPad& p) { return at < p.start; });
        if (pad == pads_.begin() || a >= (--pad)->end) {
            return;
        }
        Registers kept = r;
        kept.forget(i.writes);
        const auto to = block_at(pad->pad);
        if (to && enter(*to, kept)) {
            push(*to);
        }
    };
    while (!work.empty()) {
        const std::size_t b = work.front();
        work.pop_front();
        waiting[b] = false;
        const Registers in = blocks_[b].in;
        const Registers out = walk(blocks_[b], in, throws);
        for (const std::size_t to : blocks_[b].to) {
            if (enter(to, along(blocks_[b], to, out))) {
                push(to);
            }
        }
    }
}

void Flow::settle() {
    std::set<std::uint64_t> pads;
    for (const LandingPad& pad : pads_) {
        pads.insert(pad.pad);
    }
    // First what is entered from outside; then, knowing nothing, what no path was seen to reach.
    for (const bool landing : {false, true}) {
        std::vector<std::size_t> first;
        for (std::size_t b = 0; b < blocks_.size(); ++b) {
            Block& block = blocks_[b];
            if (!block.seen && block.root && (landing || !pads.contains(block.start))) {
                block.seen = true;
                first.push_back(b);
            }
        }
        run(first);
    }
}

void Flow::step(const Instruction& i, std::uint64_t /*address*/, Registers& r) const {
    switch (i.op) {
        case Op::adr: r.set(i.rd, i.target, true); return;
        case Op::adrp: r.set(i.rd, i.target, true, true); return;
        case Op::move_wide: r.set(i.rd, static_cast<std::uint64_t>(i.value), false); return;
        case Op::add_immediate:
            if (const auto base = r.get(i.rn)) {
                const std::uint64_t sum = *base + static_cast<std::uint64_t>(i.value);
                r.set(i.rd, i.wide ? sum : sum & 0xffffffff, r.is_address(i.rn));
                return;
            }
            break;
        case Op::move_register:
            if (i.rn == 31) {
                r.set(i.rd, 0, false);
                return;
            }
            if (const auto value = r.get(i.rn)) {
                r.set(i.rd, i.wide ? *value : *value & 0xffffffff, r.is_address(i.rn), r.is_page(i.rn));
                return;
            }
            break;
        case Op::move_keep:
            if (const auto value = r.get(i.rd)) {
                const std::uint64_t hole = ~(std::uint64_t{0xffff} << i.shift);
                r.set(i.rd, (*value & hole) | static_cast<std::uint64_t>(i.value) << i.shift, r.is_address(i.rd));
                return;
            }
            break;
        case Op::load:
            if (i.wide && r.is_address(i.rn)) {
                const auto place = *r.get(i.rn) + static_cast<std::uint64_t>(i.value);
                if (const auto pointer = constant_pointer(program_, place)) {
                    r.forget(i.writes);
                    r.set(i.rd, *pointer, true);
                    return;
                }
            }
            break;
        default: break;
    }
    r.forget(i.writes);
}

Registers Flow::walk(const Block& block, Registers registers, const Visitor& visit) const {
    for (std::uint64_t a = block.start; a < block.end; a += 4) {
        const Instruction i = program_.instruction(a);
        if (visit) {
            visit(a, i, registers);
        }
        step(i, a, registers);
    }
    return registers;
}

void Flow::walk_all(const Visitor& visit) const {
    for (const Block& block : blocks_) {
        walk(block, block.in, visit);
    }
}

}  // namespace npu::elf
