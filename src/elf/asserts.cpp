#include "elf/asserts.h"

#include <algorithm>
#include <charconv>

namespace npu::elf {

namespace {

constexpr unsigned look_ahead = 12;  // instructions between a mention of the anchor and the call
constexpr int most_ways = 4;         // blocks to go back for a call whose arguments come from several ways

class Reader {
  public:
    Reader(const Program& program, const Flow& flow, std::span<const FoundSink> sinks)
        : program_(program), flow_(flow), sinks_(sinks) {}

    void read(std::vector<AssertSite>& out) {
        for (std::size_t b = 0; b < flow_.blocks().size(); ++b) {
            const Flow::Block& block = flow_.blocks()[b];
            if (block.end == block.start) {
                continue;
            }
            flow_.walk(block, block.in, [&](std::uint64_t site, const Instruction& i, const Registers& r) {
                const FoundSink* sink = i.op == Op::call || i.op == Op::jump ? sink_at(i.target) : nullptr;
                if (sink != nullptr) {
                    expand(*sink->sink, site, b, r, {b}, out);
                }
            });
        }
    }

  private:
    [[nodiscard]] const FoundSink* sink_at(std::uint64_t target) const {
        for (const FoundSink& s : sinks_) {
            if (s.address == target) {
                return &s;
            }
        }
        return nullptr;
    }

    [[nodiscard]] std::optional<std::string> text(const Registers& r, int reg) const {
        const auto address = reg < 0 ? std::nullopt : r.get(static_cast<unsigned>(reg));
        const auto found = address ? text_at(program_.image(), *address) : std::nullopt;
        return found ? std::optional(std::string(*found)) : std::nullopt;
    }

    [[nodiscard]] AssertSite evaluate(const Sink& sink, std::uint64_t site, std::uint64_t tail,
                                      const Registers& r) const {
        AssertSite s;
        s.site = site;
        s.tail = tail;
        const Function* f = program_.function_at(site);
        s.function = f == nullptr ? 0 : f->start;
        s.sink = &sink;
        s.format = text(r, sink.format);
        s.file = text(r, sink.file);
        s.function_name = text(r, sink.function);
        if (sink.line >= 0) {
            if (const auto line = r.get(static_cast<unsigned>(sink.line)); line && *line < (1U << 24)) {
                s.line = static_cast<std::uint32_t>(*line);
            }
        }
        const bool has_expression = sink.anchor == nullptr || sink.format < 0 || !s.format || *s.format == sink.anchor;
        if (has_expression) {
            s.expression = text(r, sink.expression);
        }
        return s;
    }

    static bool complete(const AssertSite& s) {
        const Sink& sink = *s.sink;
        const bool other_format = s.format && sink.anchor != nullptr && *s.format != sink.anchor;
        return (sink.expression < 0 || s.expression || other_format) && (sink.line < 0 || s.line) &&
               (sink.file < 0 || s.file);
    }

    // `way`: the blocks from the one evaluated from to the one that calls.
    void expand(const Sink& sink, std::uint64_t site, std::size_t first, const Registers& r,
                const std::vector<std::size_t>& way, std::vector<AssertSite>& out) const {
        const AssertSite s = evaluate(sink, site, flow_.blocks()[first].start, r);
        const Flow::Block& block = flow_.blocks()[first];
        if (complete(s) || block.from.size() < 2 || way.size() > most_ways) {
            if (!sink.anchor_required || (s.format && *s.format == sink.anchor)) {
                out.push_back(s);
            }
            return;
        }
        for (const std::size_t from : block.from) {
            if (std::find(way.begin(), way.end(), from) != way.end()) {
                continue;
            }
            Registers state = flow_.walk(flow_.blocks()[from], flow_.blocks()[from].in);
            for (const std::size_t b : way) {
                const Flow::Block& next = flow_.blocks()[b];
                if (b == way.back()) {
                    Flow::Block front = next;
                    front.end = site;
                    state = flow_.walk(front, state);
                } else {
                    state = flow_.walk(next, state);
                }
            }
            std::vector<std::size_t> longer{from};
            longer.insert(longer.end(), way.begin(), way.end());
            expand(sink, site, from, state, longer, out);
        }
    }

    const Program& program_;
    const Flow& flow_;
    std::span<const FoundSink> sinks_;
};

// The function that is called most often shortly after a mention of the anchor.
FoundSink by_anchor(const Program& program, const References& references, const Sink& sink) {
    std::map<std::uint64_t, std::size_t> called;
    std::size_t mentions = 0;
    for (const Text& text : program.strings().all()) {
        if (!text.text.ends_with(sink.anchor)) {
            continue;
        }
        const std::uint64_t begin = text.address + text.text.size() - std::string_view(sink.anchor).size();
        for (const Reference& r : references.to(begin, begin)) {
            if (r.kind == ReferenceKind::data) {
                continue;
            }
            ++mentions;
            for (unsigned step = 1; step <= look_ahead; ++step) {
                const Instruction i = program.instruction(r.site + 4 * step);
                if (i.op == Op::call) {
                    ++called[i.target];
                    break;
                }
                if (i.ends_flow()) {
                    if (i.op == Op::jump) {  // the last instructions may be shared with another site
                        for (unsigned more = 0; more < 4; ++more) {
                            const Instruction at = program.instruction(i.target + 4 * more);
                            if (at.op == Op::call) {
                                ++called[at.target];
                                break;
                            }
                        }
                    }
                    break;
                }
            }
        }
    }
    const auto most =
        std::max_element(called.begin(), called.end(), [](auto& a, auto& b) { return a.second < b.second; });
    return most == called.end() ? FoundSink{} : FoundSink{&sink, most->first, most->second, mentions};
}

}  // namespace

const std::vector<Sink>& known_sinks() {
    static const std::vector<Sink> sinks{
        {.name = "ggml_abort",
         .symbols = {"ggml_abort"},
         .anchor = "GGML_ASSERT(%s) failed",
         .expression = 3,
         .file = 0,
         .line = 1,
         .format = 2},
        {.name = "__assert_fail",
         .symbols = {"__assert_fail"},
         .anchor = nullptr,
         .expression = 0,
         .file = 1,
         .line = 2,
         .function = 3},
        {.name = "__assert2",
         .symbols = {"__assert2"},
         .anchor = nullptr,
         .expression = 3,
         .file = 0,
         .line = 1,
         .function = 2},
        {.name = "_mpp_log_l",
         .symbols = {"_mpp_log_l"},
         .anchor = "Assertion %s failed at %s:%d\n",
         .expression = 4,
         .line = 6,
         .function = 5,
         .format = 2,
         .anchor_required = true},
        {.name = "std::__throw",
         .symbols = {"_ZSt20__throw_length_errorPKc", "_ZSt19__throw_logic_errorPKc", "_ZSt20__throw_out_of_rangePKc",
                     "_ZSt24__throw_out_of_range_fmtPKcz", "_ZSt24__throw_invalid_argumentPKc",
                     "_ZSt21__throw_runtime_errorPKc"},
         .anchor = nullptr,
         .expression = 0}};
    return sinks;
}

std::vector<FoundSink> find_sinks(const Program& program, const References& references, std::string_view only) {
    std::vector<FoundSink> found;
    const auto add = [&](const FoundSink& sink) {
        const bool again = std::any_of(found.begin(), found.end(), [&](auto& f) { return f.address == sink.address; });
        if (sink.sink != nullptr && !again) {
            found.push_back(sink);
        }
    };
    if (!only.empty()) {
        std::uint64_t address = 0;
        const std::string_view digits = only.starts_with("0x") ? only.substr(2) : only;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address, 16);
        const bool is_number = error == std::errc{} && end == digits.data() + digits.size();
        const auto named = is_number ? std::optional(address) : program.address_of(only);
        for (const Sink& sink : known_sinks()) {
            const bool match =
                std::any_of(sink.symbols.begin(), sink.symbols.end(), [&](auto* s) { return only == s; });
            if (named && match) {
                add({&sink, *named, 0, 0});
            }
        }
        if (named) {
            add({&known_sinks().front(), *named, 0, 0});
        }
        return found;
    }
    for (const Sink& sink : known_sinks()) {
        for (const char* symbol : sink.symbols) {
            for (const auto& [address, name] : program.stubs()) {
                if (name == symbol) {
                    add({&sink, address, 0, 0});
                }
            }
            if (const auto address = program.address_of(symbol)) {
                add({&sink, *address, 0, 0});
            }
        }
        if (sink.anchor != nullptr) {
            add(by_anchor(program, references, sink));
        }
    }
    return found;
}

std::vector<AssertSite> find_asserts(const Program& program, std::span<const FoundSink> sinks) {
    std::set<const Function*> callers;
    for (const FoundSink& sink : sinks) {
        for (const Branch& b : program.branches_to(sink.address)) {
            callers.insert(program.function_at(b.site));
        }
    }
    std::vector<AssertSite> sites;
    for (const auto& group : program.groups()) {
        const bool calls = std::any_of(group.begin(), group.end(),
                                       [&](std::size_t f) { return callers.contains(&program.functions()[f]); });
        if (calls) {
            const Flow flow(program, group);
            Reader(program, flow, sinks).read(sites);
        }
    }
    std::sort(sites.begin(), sites.end(),
              [](auto& a, auto& b) { return std::pair(a.site, a.tail) < std::pair(b.site, b.tail); });
    return sites;
}

}  // namespace npu::elf
