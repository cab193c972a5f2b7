#include "elf/functions.h"

#include <algorithm>
#include <set>

#include "elf/decode.h"

namespace npu::elf {

namespace {

Instruction at(const Image& image, std::uint64_t address) {
    return decode(image.load_at<std::uint32_t>(address).value_or(0), address);
}

bool is_padding(std::uint32_t word) { return word == 0 || word == nop_word; }

// Looks like the first instruction of a function that keeps a frame.
bool is_prologue(std::uint32_t word) {
    return (word & 0xffc07fff) == 0xa9807bfd ||  // stp x29, x30, [sp, #-n]!
           word == 0xd503233f ||                 // paciasp
           word == 0xd503245f ||                 // bti c
           (word & 0xff8003ff) == 0xd10003ff;    // sub sp, sp, #n
}

class Finder {
  public:
    Finder(const Image& image, const Dynamic& dynamic, const std::map<std::uint64_t, std::string>& stubs)
        : image_(image), dynamic_(dynamic), stubs_(stubs), code_(code_ranges(image)) {}

    std::vector<Function> find() {
        for (Frame& frame : read_frames(image_).all) {
            if (functions_.empty() || frame.start >= functions_.back().end) {
                functions_.push_back({.start = frame.start,
                                      .end = frame.end,
                                      .name = {},
                                      .source = FunctionSource::frame,
                                      .landing_pads = std::move(frame.landing_pads)});
            }
        }
        const bool no_frames = functions_.empty();
        collect_seeds();
        std::vector<Function> more;
        for (const Range& gap : gaps()) {
            fill(gap, no_frames, more);
        }
        functions_.insert(functions_.end(), more.begin(), more.end());
        std::sort(functions_.begin(), functions_.end(), [](auto& a, auto& b) { return a.start < b.start; });
        name();
        return std::move(functions_);
    }

  private:
    // Addresses that something treats as a function.
    void collect_seeds() {
        for (const Symbol& s : dynamic_.symbols) {
            if (s.defined && s.is_function()) {
                seeds_[s.address] = FunctionSource::symbol;
            }
        }
        for (const Symbol& s : read_section_symbols(image_, 2)) {
            if (s.defined && s.is_function()) {
                seeds_[s.address] = FunctionSource::symbol;
            }
        }
        const auto seed = [&](std::uint64_t address) { seeds_.emplace(address, FunctionSource::called); };
        for (const auto& [place, target] : dynamic_.pointers) {
            seed(target);
        }
        for (const std::int64_t tag : {12, 13}) {  // DT_INIT, DT_FINI
            if (const auto address = dynamic_.value(tag)) {
                seed(*address);
            }
        }
        if (image_.entry() != 0) {
            seed(image_.entry());
        }
        for (const Range& range : code_) {
            const Bytes bytes = image_.at(range.start, range.end - range.start).value_or(Bytes{});
            for (std::uint64_t offset = 0; inside(offset, 4, bytes.size()); offset += 4) {
                const std::uint32_t word = *load<std::uint32_t>(bytes, offset);
                if ((word & 0xfc000000) == 0x94000000) {
                    seed(decode(word, range.start + offset).target);
                }
            }
        }
    }

    [[nodiscard]] std::vector<Range> gaps() const {
        std::vector<Range> gaps;
        for (const Range& range : code_) {
            std::uint64_t from = range.start;
            for (const Function& f : functions_) {
                if (f.end <= from || f.start >= range.end) {
                    continue;
                }
                if (f.start > from) {
                    gaps.push_back({from, f.start});
                }
                from = f.end;
            }
            if (from < range.end) {
                gaps.push_back({from, range.end});
            }
        }
        return gaps;
    }

    void fill(const Range& gap, bool prologues, std::vector<Function>& out) const {
        std::map<std::uint64_t, FunctionSource> starts(seeds_.lower_bound(gap.start), seeds_.lower_bound(gap.end));
        if (prologues) {
            bool fresh = true;  // nothing can run into this word
            for (std::uint64_t a = gap.start; a + 4 <= gap.end; a += 4) {
                const std::uint32_t word = image_.load_at<std::uint32_t>(a).value_or(0);
                if (fresh && is_prologue(word)) {
                    starts.emplace(a, FunctionSource::prologue);
                }
                fresh = (fresh && is_padding(word)) || decode(word, a).ends_flow();
            }
        }
        for (auto it = starts.begin(); it != starts.end(); ++it) {
            const std::uint64_t start = it->first;
            std::uint64_t end = std::next(it) == starts.end() ? gap.end : std::next(it)->first;
            if (start % 4 != 0 || stubs_.contains(start)) {
                continue;
            }
            if (const auto stub = stubs_.lower_bound(start); stub != stubs_.end()) {
                end = std::min(end, stub->first);
            }
            while (end - start > 4 && is_padding(image_.load_at<std::uint32_t>(end - 4).value_or(0))) {
                end -= 4;
            }
            if (end - start >= 4 && !is_padding(image_.load_at<std::uint32_t>(start).value_or(0))) {
                out.push_back({.start = start, .end = end, .name = {}, .source = it->second, .landing_pads = {}});
            }
        }
    }

    void name() {
        std::map<std::uint64_t, std::string> names;
        for (const Symbol& s : read_section_symbols(image_, 2)) {
            if (s.defined && s.is_function()) {
                names[s.address] = s.name;
            }
        }
        for (const Symbol& s : dynamic_.symbols) {
            if (s.defined && s.is_function()) {
                names[s.address] = s.name;
            }
        }
        for (Function& f : functions_) {
            if (const auto found = names.find(f.start); found != names.end()) {
                f.name = found->second;
            }
        }
    }

    const Image& image_;
    const Dynamic& dynamic_;
    const std::map<std::uint64_t, std::string>& stubs_;
    std::vector<Range> code_;
    std::vector<Function> functions_;
    std::map<std::uint64_t, FunctionSource> seeds_;
};

}  // namespace

const char* source_name(FunctionSource source) {
    switch (source) {
        case FunctionSource::frame: return "frame";
        case FunctionSource::symbol: return "symbol";
        case FunctionSource::called: return "called";
        case FunctionSource::prologue: return "prologue";
    }
    return "";
}

std::vector<Range> code_ranges(const Image& image) {
    std::vector<Range> ranges;
    for (const Section& s : image.sections()) {
        const bool code = s.type == 1 && (s.flags & 6) == 6 && s.size >= 4;  // PROGBITS, loaded, executable
        if (code && s.name != ".plt" && image.at(s.address, s.size)) {
            ranges.push_back({s.address, s.address + s.size / 4 * 4});
        }
    }
    if (ranges.empty()) {
        for (const Segment& s : image.segments()) {
            if (s.type == segment_load && (s.flags & flag_execute) != 0) {
                ranges.push_back({s.address, s.address + s.file_size / 4 * 4});
            }
        }
    }
    std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.start < b.start; });
    return ranges;
}

std::map<std::uint64_t, std::string> find_stubs(const Image& image, const Dynamic& dynamic) {
    std::map<std::uint64_t, std::string> stubs;
    for (const Segment& s : image.segments()) {
        if (s.type != segment_load || (s.flags & flag_execute) == 0) {
            continue;
        }
        // adrp x16, page; ldr x17, [x16, n]; add x16, x16, n; br x17
        for (std::uint64_t a = s.address; inside(a - s.address, 16, s.file_size); a += 4) {
            const std::uint32_t word = image.load_at<std::uint32_t>(a).value_or(0);
            if ((word & 0x9f00001f) != 0x90000010) {
                continue;
            }
            const Instruction page = decode(word, a);
            const Instruction slot = at(image, a + 4);
            const Instruction add = at(image, a + 8);
            const bool branches =
                at(image, a + 12).op == Op::jump_register || at(image, a + 16).op == Op::jump_register;
            if (slot.op != Op::load || slot.rn != 16 || slot.rd != 17 || add.op != Op::add_immediate || !branches) {
                continue;
            }
            const std::uint64_t place = page.target + static_cast<std::uint64_t>(slot.value);
            const bool marked = a >= s.address + 4 && image.load_at<std::uint32_t>(a - 4) == 0xd503245fU;  // bti c
            const std::uint64_t start = marked ? a - 4 : a;
            if (const auto import = dynamic.imports.find(place); import != dynamic.imports.end()) {
                stubs[start] = dynamic.symbols[import->second].name;
            } else if (const auto here = dynamic.pointers.find(place); here != dynamic.pointers.end()) {
                stubs[start] = format("0x%llx", static_cast<unsigned long long>(here->second));
            }
        }
    }
    return stubs;
}

std::vector<Function> find_functions(const Image& image, const Dynamic& dynamic,
                                     const std::map<std::uint64_t, std::string>& stubs) {
    return Finder(image, dynamic, stubs).find();
}

}  // namespace npu::elf
