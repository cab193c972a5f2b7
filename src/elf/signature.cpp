#include "elf/signature.h"

#include <algorithm>
#include <map>

namespace npu::elf {

namespace {

// The part whose start others call: the first that is called, named or stored; else the first.
std::uint64_t main_part(const Program& program, const std::vector<std::size_t>& group,
                        const std::set<std::uint64_t>& entered) {
    for (const std::size_t f : group) {
        const Function& function = program.functions()[f];
        if (!function.name.empty() || entered.contains(function.start)) {
            return function.start;
        }
    }
    return program.functions()[group.front()].start;
}

using Key = std::set<std::string>;

class Matcher {
  public:
    Matcher(std::vector<Signature> before, std::vector<Signature> after, const Program& old_program,
            const Program& new_program)
        : before_(std::move(before)), after_(std::move(after)), old_(old_program), new_(new_program) {}

    FunctionDiff match() {
        by_key("name", [](const Signature& s, const Program& p) {
            const Function* f = p.function_at(s.address);
            return f != nullptr && !f->name.empty() ? Key{f->name} : Key{};
        });
        by_key("texts", [](const Signature& s, const Program&) { return s.texts; });
        by_key("texts and imports", [](const Signature& s, const Program&) {
            Key key = s.texts.empty() ? Key{} : s.texts;
            if (!key.empty()) {
                for (const std::string& import : s.imports) {
                    key.insert("call:" + import);
                }
            }
            return key;
        });
        bool more = true;
        for (int round = 0; more && round < 6; ++round) {
            more = neighbours();
        }
        return report();
    }

  private:
    void take(std::size_t from, std::size_t to, const char* by) {
        to_[from] = to;
        taken_.insert(to);
        how_[from] = by;
        new_of_[before_[from].address] = after_[to].address;
        names_[after_[to].address] = before_[from].address;
    }

    // Pairs functions whose key no other, matched or not, has in its build.
    template <typename KeyOf>
    void by_key(const char* by, KeyOf key_of) {
        std::map<Key, std::vector<std::size_t>> old_by, new_by;
        for (std::size_t i = 0; i < before_.size(); ++i) {
            old_by[key_of(before_[i], old_)].push_back(i);
        }
        for (std::size_t i = 0; i < after_.size(); ++i) {
            new_by[key_of(after_[i], new_)].push_back(i);
        }
        for (const auto& [key, olds] : old_by) {
            const auto news = new_by.find(key);
            if (key.empty() || olds.size() != 1 || news == new_by.end() || news->second.size() != 1) {
                continue;
            }
            if (!to_.contains(olds[0]) && !taken_.contains(news->second[0])) {
                take(olds[0], news->second[0], by);
            }
        }
    }

    // Among candidates with the same texts: those whose matched callers and callees agree, if that leaves one.
    bool neighbours() {
        std::map<Key, std::vector<std::size_t>> old_by, new_by;
        for (std::size_t i = 0; i < before_.size(); ++i) {
            if (!to_.contains(i) && !before_[i].texts.empty()) {
                old_by[before_[i].texts].push_back(i);
            }
        }
        for (std::size_t i = 0; i < after_.size(); ++i) {
            if (!taken_.contains(i)) {
                new_by[after_[i].texts].push_back(i);
            }
        }
        std::vector<std::pair<std::size_t, std::size_t>> found;
        for (const auto& [key, olds] : old_by) {
            const auto news = new_by.find(key);
            if (news == new_by.end()) {
                continue;
            }
            std::map<Key, std::vector<std::size_t>> old_around, new_around;
            for (const std::size_t o : olds) {
                old_around[around(before_[o], true)].push_back(o);
            }
            for (const std::size_t n : news->second) {
                new_around[around(after_[n], false)].push_back(n);
            }
            for (const auto& [context, few] : old_around) {
                const auto other = new_around.find(context);
                if (!context.empty() && few.size() == 1 && other != new_around.end() && other->second.size() == 1) {
                    found.emplace_back(few[0], other->second[0]);
                }
            }
        }
        for (const auto& [from, to] : found) {
            take(from, to, "texts and neighbours");
        }
        return !found.empty();
    }

    // The known neighbours of a function, named by their address in the old build.
    [[nodiscard]] Key around(const Signature& s, bool old) const {
        Key key;
        const auto add = [&](const char* role, std::uint64_t address) {
            if (old && new_of_.contains(address)) {
                key.insert(role + format("%llx", static_cast<unsigned long long>(address)));
            } else if (!old && names_.contains(address)) {
                key.insert(role + format("%llx", static_cast<unsigned long long>(names_.at(address))));
            }
        };
        for (const std::uint64_t c : s.callers) {
            add("from ", c);
        }
        for (const std::uint64_t c : s.calls) {
            add("to ", c);
        }
        return key;
    }

    FunctionDiff report() {
        FunctionDiff diff;
        std::map<Key, std::size_t> left;
        for (std::size_t i = 0; i < after_.size(); ++i) {
            if (!taken_.contains(i)) {
                ++left[after_[i].texts];
            }
        }
        std::set<Key> old_keys;
        for (std::size_t i = 0; i < before_.size(); ++i) {
            const Signature& s = before_[i];
            if (to_.contains(i)) {
                diff.matched.push_back({s.address, after_[to_.at(i)].address, how_.at(i)});
                continue;
            }
            old_keys.insert(s.texts);
            const auto candidates = left.find(s.texts);
            if (candidates != left.end()) {
                diff.ambiguous.push_back({s.address, candidates->second});
            } else if (!s.texts.empty()) {
                diff.gone.push_back(s.address);
            } else {
                diff.ambiguous.push_back({s.address, 0});
            }
        }
        for (std::size_t i = 0; i < after_.size(); ++i) {
            if (!taken_.contains(i) && !after_[i].texts.empty() && !old_keys.contains(after_[i].texts)) {
                diff.added.push_back(after_[i].address);
            }
        }
        return diff;
    }

    std::vector<Signature> before_, after_;
    const Program& old_;
    const Program& new_;
    std::map<std::size_t, std::size_t> to_;
    std::map<std::size_t, const char*> how_;
    std::set<std::size_t> taken_;
    std::map<std::uint64_t, std::uint64_t> new_of_, names_;
};

}  // namespace

std::string normalised(std::string_view text) {
    // A path: the file's name only.
    if (const std::size_t slash = text.rfind('/');
        slash != std::string_view::npos && text.find(' ') == std::string_view::npos) {
        text.remove_prefix(slash + 1);
    }
    for (const std::string_view level : {"E ", "W ", "I ", "D ", "[E] ", "[W] ", "[I] ", "[D] "}) {
        if (text.starts_with(level)) {
            text.remove_prefix(level.size());
            break;
        }
    }
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 1 < text.size() && text[i + 1] != '%') {
            const std::size_t end = text.find_first_of("diouxXeEfFgGaAcspn", i + 1);
            result += '%';
            i = end == std::string_view::npos ? text.size() : end;
        } else if (static_cast<unsigned char>(text[i]) > ' ') {
            result += text[i];
        } else if (!result.empty() && result.back() != ' ') {
            result += ' ';
        }
    }
    while (!result.empty() && result.back() == ' ') {
        result.pop_back();
    }
    return result.size() < 3 ? std::string() : result;
}

std::vector<Signature> signatures(const Program& program, const References& references) {
    std::map<std::uint64_t, std::size_t> group_of;
    for (std::size_t g = 0; g < program.groups().size(); ++g) {
        for (const std::size_t f : program.groups()[g]) {
            group_of[program.functions()[f].start] = g;
        }
    }
    const auto group_at = [&](std::uint64_t address) -> std::optional<std::size_t> {
        const Function* f = program.function_at(address);
        return f == nullptr ? std::nullopt : std::optional(group_of.at(f->start));
    };
    std::set<std::uint64_t> entered;
    for (const Call& c : references.calls) {
        entered.insert(c.target);
    }
    for (const auto& [place, target] : program.dynamic().pointers) {
        entered.insert(target);
    }
    std::vector<Signature> all(program.groups().size());
    for (std::size_t g = 0; g < all.size(); ++g) {
        all[g].group = g;
        all[g].address = main_part(program, program.groups()[g], entered);
    }
    for (const Reference& r : references.all) {
        const auto g = r.kind == ReferenceKind::data ? std::nullopt : group_at(r.site);
        if (!g || program.strings().find(r.target) == nullptr) {
            continue;
        }
        if (const auto text = text_at(program.image(), r.target)) {
            if (std::string n = normalised(*text); !n.empty()) {
                all[*g].texts.insert(std::move(n));
            }
        }
    }
    for (const Call& c : references.calls) {
        const auto from = group_at(c.site);
        if (!from) {
            continue;
        }
        if (const auto stub = program.stubs().find(c.target); stub != program.stubs().end()) {
            all[*from].imports.insert(stub->second);
        } else if (const auto to = group_at(c.target)) {
            all[*from].calls.push_back(all[*to].address);
            all[*to].callers.push_back(all[*from].address);
        }
    }
    for (Signature& s : all) {
        std::sort(s.callers.begin(), s.callers.end());
    }
    std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.address < b.address; });
    return all;
}

const Match* FunctionDiff::find(std::uint64_t from) const {
    const auto found = std::find_if(matched.begin(), matched.end(), [&](const Match& m) { return m.from == from; });
    return found == matched.end() ? nullptr : &*found;
}

FunctionDiff match_functions(const Program& before, const References& before_references, const Program& after,
                             const References& after_references) {
    return Matcher(signatures(before, before_references), signatures(after, after_references), before, after).match();
}

}  // namespace npu::elf
