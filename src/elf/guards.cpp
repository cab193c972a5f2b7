#include "elf/guards.h"

#include <algorithm>

namespace npu::elf {

namespace {

constexpr int most_steps = 8;  // blocks to follow back

class Finder {
  public:
    Finder(const Program& program, const Flow& flow, std::span<const std::size_t> group)
        : program_(program), flow_(flow) {
        for (const std::size_t f : group) {
            for (const LandingPad& pad : program.functions()[f].landing_pads) {
                pads_.insert(pad.pad);
            }
            starts_.insert(program.functions()[f].start);
        }
        find_normal_blocks();
    }

    Guards find(const AssertSite& site) {
        guards_.clear();
        visited_.clear();
        if (const auto block = flow_.block_at(site.tail)) {
            back(*block, false, 0);
        }
        Guards result;
        result.all = std::move(guards_);
        std::sort(result.all.begin(), result.all.end(), [](auto& a, auto& b) { return a.site < b.site; });
        return result;
    }

    // A conditional branch one of whose sides only reports a smashed stack.
    [[nodiscard]] bool is_canary(std::size_t block) const {
        for (const std::size_t to : flow_.blocks()[block].to) {
            if (calls_canary_failure(flow_.blocks()[to])) {
                return true;
            }
        }
        // The failing side may stand in another function (cold code).
        const Instruction last = last_of(block);
        const Instruction there = program_.instruction(last.target);
        return last.is_conditional() && there.op == Op::call && program_.name_of(there.target) == "__stack_chk_fail";
    }

  private:
    [[nodiscard]] Instruction last_of(std::size_t block) const {
        const Flow::Block& b = flow_.blocks()[block];
        return b.end == b.start ? Instruction{} : program_.instruction(b.end - 4);
    }

    [[nodiscard]] bool calls_canary_failure(const Flow::Block& block) const {
        if (block.end == block.start) {
            return false;
        }
        const Instruction last = program_.instruction(block.end - 4);
        return (last.op == Op::call || last.op == Op::jump) && program_.name_of(last.target) == "__stack_chk_fail";
    }

    // Blocks that run without an exception.
    void find_normal_blocks() {
        std::vector<std::size_t> work;
        normal_.assign(flow_.blocks().size(), false);
        for (std::size_t b = 0; b < flow_.blocks().size(); ++b) {
            const Flow::Block& block = flow_.blocks()[b];
            if (block.root && !pads_.contains(block.start)) {
                normal_[b] = true;
                work.push_back(b);
            }
        }
        while (!work.empty()) {
            const std::size_t b = work.back();
            work.pop_back();
            for (const std::size_t to : flow_.blocks()[b].to) {
                if (!normal_[to]) {
                    normal_[to] = true;
                    work.push_back(to);
                }
            }
        }
    }

    void add(GuardClass kind, std::uint64_t site, const Instruction& i, bool through_jump) {
        Guard g{.kind = kind, .site = site, .target = i.target, .word = 0, .patched = 0, .through_jump = through_jump};
        g.word = program_.image().load_at<std::uint32_t>(site).value_or(0);
        if (kind == GuardClass::taken) {
            g.patched = nop_word;
        } else if (kind == GuardClass::falls) {
            g.patched = encode_jump(site, i.target);
        }
        const bool again = std::any_of(guards_.begin(), guards_.end(), [&](auto& o) { return o.site == site; });
        if (!again) {
            guards_.push_back(g);
        }
    }

    // Whether going on behind the branch reaches a jump through a table soon, so that the branch bounds its index.
    [[nodiscard]] bool bounds_table(std::uint64_t next) const {
        for (unsigned step = 0; step < 8; ++step) {
            const Instruction i = program_.instruction(next + 4 * step);
            if (i.op == Op::jump_register) {
                return true;
            }
            if (i.ends_flow() || i.is_conditional() || i.op == Op::call) {
                return false;
            }
        }
        return false;
    }

    void back(std::size_t b, bool through_jump, int steps) {
        if (steps > most_steps || !visited_.insert(b).second) {
            return;
        }
        const Flow::Block& block = flow_.blocks()[b];
        if (block.root) {
            const GuardClass kind = pads_.contains(block.start)     ? GuardClass::exception
                                    : starts_.contains(block.start) ? GuardClass::start
                                                                    : GuardClass::unknown;
            add(kind, block.start, {}, through_jump);
        }
        for (const std::size_t from : block.from) {
            const std::uint64_t site = flow_.blocks()[from].end - 4;
            const Instruction last = last_of(from);
            if (!last.is_conditional()) {
                back(from, through_jump || last.op == Op::jump, steps + 1);
            } else if (is_canary(from)) {
                add(GuardClass::canary, site, last, through_jump);
                back(from, through_jump, steps + 1);
            } else if (!normal_[from]) {
                add(GuardClass::exception, site, last, through_jump);
            } else {
                const bool taken = last.target == block.start;
                const std::uint64_t other = taken ? site + 4 : last.target;
                add(bounds_table(other) ? GuardClass::bound
                    : taken             ? GuardClass::taken
                                        : GuardClass::falls,
                    site, last, through_jump);
            }
        }
    }

    const Program& program_;
    const Flow& flow_;
    std::set<std::uint64_t> pads_, starts_;
    std::vector<bool> normal_;
    std::set<std::size_t> visited_;
    std::vector<Guard> guards_;
};

const std::vector<std::size_t>* group_of(const Program& program, std::uint64_t address) {
    const Function* f = program.function_at(address);
    if (f == nullptr) {
        return nullptr;
    }
    const auto index = static_cast<std::size_t>(f - program.functions().data());
    for (const auto& group : program.groups()) {
        if (std::binary_search(group.begin(), group.end(), index)) {
            return &group;
        }
    }
    return nullptr;
}

}  // namespace

const char* class_name(GuardClass c) {
    switch (c) {
        case GuardClass::taken: return "taken";
        case GuardClass::falls: return "falls";
        case GuardClass::canary: return "canary";
        case GuardClass::bound: return "bound";
        case GuardClass::exception: return "exception";
        case GuardClass::start: return "start";
        case GuardClass::unknown: return "unknown";
    }
    return "";
}

std::size_t Guards::deciding() const {
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const Guard& g) { return g.kind != GuardClass::canary; }));
}

Guards find_guards(const Program& program, const AssertSite& site) {
    return find_guards(program, std::span(&site, 1)).front();
}

std::vector<Guards> find_guards(const Program& program, std::span<const AssertSite> sites) {
    std::vector<Guards> result(sites.size());
    std::map<const std::vector<std::size_t>*, std::vector<std::size_t>> by_group;
    for (std::size_t i = 0; i < sites.size(); ++i) {
        if (const auto* group = group_of(program, sites[i].site)) {
            by_group[group].push_back(i);
        }
    }
    for (const auto& [group, members] : by_group) {
        const Flow flow(program, *group);
        Finder finder(program, flow, *group);
        for (const std::size_t i : members) {
            result[i] = finder.find(sites[i]);
        }
    }
    return result;
}

std::string forbidden_branch(const Program& program, std::uint64_t address) {
    const auto* group = group_of(program, address);
    if (group == nullptr) {
        return {};
    }
    const Flow flow(program, *group);
    const auto block = flow.block_at(address);
    const bool last = block && flow.blocks()[*block].end == address + 4;
    if (last && program.instruction(address).is_conditional() && Finder(program, flow, *group).is_canary(*block)) {
        return format("the branch at 0x%llx compares the stack canary; without it an overflow of the stack goes unseen",
                      static_cast<unsigned long long>(address));
    }
    return {};
}

}  // namespace npu::elf
