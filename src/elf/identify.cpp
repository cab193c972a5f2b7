#include "elf/identify.h"

#include <algorithm>
#include <cctype>

#include "elf/asserts.h"

namespace npu::elf {

namespace {

std::string squeezed(std::string_view text) {
    std::string out;
    std::copy_if(text.begin(), text.end(), std::back_inserter(out),
                 [](unsigned char c) { return std::isspace(c) == 0; });
    return out;
}

class SourceReader {
  public:
    SourceReader(std::string_view text, SourceTexts& into) : text_(text), into_(into) {}

    void read() {
        while (at_ < text_.size()) {
            if (skip_comment()) {
                continue;
            }
            const char c = text_[at_];
            if (c == '"') {
                literal();
            } else if (c == '\'') {
                at_ += text_.substr(at_ + 1, 1) == "\\" ? 4 : 3;
                flush();
            } else if (text_.substr(at_, 12) == "GGML_ASSERT(") {
                flush();
                assertion();
            } else {
                if (std::isspace(static_cast<unsigned char>(c)) == 0) {
                    flush();
                }
                ++at_;
            }
        }
        flush();
    }

  private:
    bool skip_comment() {
        if (text_.substr(at_, 2) == "//") {
            at_ = std::min(text_.find('\n', at_), text_.size());
            return true;
        }
        if (text_.substr(at_, 2) == "/*") {
            const std::size_t end = text_.find("*/", at_ + 2);
            at_ = end == std::string_view::npos ? text_.size() : end + 2;
            return true;
        }
        return false;
    }

    void flush() {
        if (joined_.size() >= 4) {
            into_.literals.insert(joined_);
        }
        joined_.clear();
    }

    void literal() {
        for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
            if (text_[at_] != '\\' || at_ + 1 >= text_.size()) {
                joined_ += text_[at_];
                continue;
            }
            switch (text_[++at_]) {
                case 'n': joined_ += '\n'; break;
                case 't': joined_ += '\t'; break;
                case 'r': joined_ += '\r'; break;
                case '\n': break;
                case '0':
                    if (text_.substr(at_, 3) == "033") {
                        joined_ += '\x1b';
                        at_ += 2;
                    }
                    break;
                default: joined_ += text_[at_];
            }
        }
        ++at_;
    }

    void assertion() {
        const std::size_t begin = at_ + 12;
        int depth = 1;
        std::size_t end = begin;
        for (bool quoted = false; end < text_.size() && depth != 0; ++end) {
            const char c = text_[end];
            quoted ^= c == '"' && text_[end - 1] != '\\';
            depth += quoted ? 0 : c == '(' ? 1 : c == ')' ? -1 : 0;
        }
        if (depth == 0 && end - begin < 1000) {
            into_.assertions.insert(squeezed(text_.substr(begin, end - 1 - begin)));
        }
        at_ = begin;  // literals inside count, too
    }

    std::string_view text_;
    SourceTexts& into_;
    std::size_t at_ = 0;
    std::string joined_;
};

// Whether an instruction passes a register on: moves or stores it (either one of a pair).
bool passes_on(const Program& program, std::uint64_t address, unsigned reg) {
    const Instruction i = program.instruction(address);
    const std::uint32_t word = program.image().load_at<std::uint32_t>(address).value_or(0);
    const bool pair = (word & 0x3a000000) == 0x28000000;
    return (i.op == Op::move_register && i.rn == reg) ||
           (i.op == Op::store && (i.rd == reg || (pair && (word >> 10 & 31) == reg)));
}

// The innermost loop around a mention of a name: the shortest stretch that a branch goes back over. A compiler may have made
// the address in front of the loop; then it is the shortest behind it that passes the register on.
// Returns where the name is on its way to the callback.
std::uint64_t find_loop(const Program& program, const Function& f, const Reference& r, LayerLoop& loop) {
    std::uint64_t best = r.site;
    for (const bool hoisted : {false, true}) {
        for (std::uint64_t a = r.site; a + 4 <= f.end; a += 4) {
            const Instruction i = program.instruction(a);
            if ((!i.is_conditional() && i.op != Op::jump) || i.target > a || i.target < f.start) {
                continue;
            }
            bool around = i.target <= r.site;
            std::uint64_t passed = r.site;
            for (std::uint64_t b = i.target; hoisted && !around && b < a; b += 4) {
                around = passes_on(program, b, r.reg);
                passed = around ? b : passed;
            }
            if (around && (loop.end == 0 || a + 4 - i.target < loop.end - loop.start)) {
                loop.start = i.target;
                loop.end = a + 4;
                best = passed;
            }
        }
        if (loop.end != 0) {
            break;
        }
    }
    return best;
}

}  // namespace

void read_source(std::string_view text, SourceTexts& into) {
    ++into.files;
    SourceReader(text, into).read();
}

Identification identify(const Program& program, const References& references, const std::vector<SourceTexts>& trees) {
    std::set<std::string> texts, assertions;
    for (const Text& t : program.strings().all()) {
        texts.emplace(t.text);
    }
    // Texts that are the end of others are found where they are mentioned.
    for (const Reference& r : references.all) {
        if (program.strings().find(r.target) != nullptr) {
            if (const auto text = text_at(program.image(), r.target)) {
                texts.emplace(*text);
            }
        }
    }
    for (const AssertSite& s : find_asserts(program, find_sinks(program, references))) {
        if (s.expression && std::string_view(s.sink->name) == "ggml_abort") {
            assertions.insert(squeezed(*s.expression));
        }
    }
    Identification result;
    result.assertions = assertions.size();
    // Evidence by text: how many trees have it. Assertions and literals are kept apart by a mark.
    std::map<std::string, std::size_t> holders;
    std::vector<std::set<std::string>> present(trees.size());
    for (std::size_t i = 0; i < trees.size(); ++i) {
        for (const std::string& a : trees[i].assertions) {
            if (assertions.contains(a)) {
                present[i].insert("assert " + a);
            }
        }
        for (const std::string& l : trees[i].literals) {
            if (texts.contains(l)) {
                present[i].insert("text " + l);
            }
        }
        for (const std::string& p : present[i]) {
            ++holders[p];
        }
    }
    for (std::size_t i = 0; i < trees.size(); ++i) {
        SourceScore score;
        score.name = trees[i].name;
        for (const auto& [text, count] : holders) {
            const bool here = present[i].contains(text);
            score.assertions_present += here && text.starts_with("assert ") ? 1 : 0;
            score.literals_present += here && text.starts_with("text ") ? 1 : 0;
            if (here && count < trees.size()) {
                score.only_here.push_back(text);
            } else if (!here) {
                score.missing_here.push_back(text);
            }
        }
        for (const std::string& a : trees[i].assertions) {
            if (!assertions.contains(a)) {
                score.not_in_library.push_back(a);
            }
        }
        result.scores.push_back(std::move(score));
    }
    result.shared_texts = holders.size();
    const auto rank = [](const SourceScore& s) {
        return std::pair(s.assertions_present + s.literals_present, ~s.not_in_library.size());
    };
    std::stable_sort(result.scores.begin(), result.scores.end(), [&](auto& a, auto& b) { return rank(a) > rank(b); });
    result.tie = result.scores.size() > 1 && rank(result.scores[0]) == rank(result.scores[1]);
    return result;
}

std::vector<LayerLoop> find_layer_loops(const Program& program, const References& references, std::string_view name) {
    std::vector<LayerLoop> loops;
    for (const Reference& r : references.all) {
        const auto text = r.kind == ReferenceKind::data ? std::nullopt : text_at(program.image(), r.target);
        const Function* f = text == name ? program.function_at(r.site) : nullptr;
        if (f == nullptr) {
            continue;
        }
        LayerLoop loop;
        loop.function = f->start;
        loop.site = r.site;
        const std::uint64_t passed = find_loop(program, *f, r, loop);
        std::set<int> counters;
        for (std::uint64_t a = loop.start; a < loop.end; a += 4) {
            const Instruction i = program.instruction(a);
            if (i.op == Op::add_immediate && i.value == 1 && i.rd == i.rn && i.rd < 31) {
                counters.insert(i.rd);
            }
        }
        loop.index_register = counters.size() == 1 ? *counters.begin() : -1;
        for (std::uint64_t a = passed; a < passed + 16 * 4 && a + 4 <= f->end; a += 4) {
            if (program.instruction(a).op == Op::call_register) {
                loop.callbacks.push_back(a);
                break;
            }
        }
        loops.push_back(std::move(loop));
    }
    std::sort(loops.begin(), loops.end(), [](auto& a, auto& b) { return a.site < b.site; });
    return loops;
}

}  // namespace npu::elf
