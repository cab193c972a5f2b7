#include "elf/patch.h"

#include <algorithm>

#include "base/sha256.h"

namespace npu::elf {

namespace {

constexpr std::uint64_t context = 8;  // bytes kept on each side of a place

using Buffer = std::vector<std::uint8_t>;

bool holds(const Image& image, std::uint64_t address, const Buffer& bytes) {
    const auto there = image.at(address, bytes.size());
    return there && std::equal(bytes.begin(), bytes.end(), there->begin());
}

// Whether the surroundings and the given bytes are there.
bool matches(const Image& image, const PatchPlace& p, const Buffer& bytes) {
    return holds(image, p.address, bytes) &&
           (p.before.empty() || holds(image, p.address - p.before.size(), p.before)) &&
           (p.after.empty() || holds(image, p.address + bytes.size(), p.after));
}

bool is_empty_or_holds(const Program& program, const std::string& banner) {
    return banner.empty() || std::any_of(program.strings().all().begin(), program.strings().all().end(),
                                         [&](auto& t) { return t.text.find(banner) != std::string_view::npos; });
}

Buffer bytes_of(std::uint32_t word) {
    Buffer bytes;
    for (unsigned shift = 0; shift < 32; shift += 8) {
        bytes.push_back(static_cast<std::uint8_t>(word >> shift));
    }
    return bytes;
}

Buffer copy(std::optional<Bytes> bytes) { return bytes ? Buffer(bytes->begin(), bytes->end()) : Buffer{}; }

PatchPlace place_of(const Program& program, const AssertSite& site, const Guards& guards, std::size_t index) {
    const Guard& g = guards.all[index];
    PatchPlace p;
    p.address = g.site;
    p.offset = program.image().offset_of(g.site, 4).value_or(0);
    p.old_bytes = bytes_of(g.word);
    p.new_bytes = bytes_of(g.patched);
    p.before = copy(program.image().at(g.site - context, context));
    p.after = copy(program.image().at(g.site + 4, context));
    p.expression = site.expression.value_or("");
    p.guard_class = class_name(g.kind);
    p.index = index;
    p.guards = guards.all.size();
    p.reason = "disables the assertion " + p.expression;
    return p;
}

// Looks for every place by its assertion.
PatchCheck find_again(const Program& program, const Patch& patch) {
    PatchCheck check;
    check.found = patch;
    const References references = find_references(program);
    const auto sites = find_asserts(program, find_sinks(program, references));
    for (PatchPlace& place : check.found.places) {
        std::vector<PatchPlace> candidates;
        for (const AssertSite& site : sites) {
            if (place.expression.empty() || site.expression != place.expression) {
                continue;
            }
            const Guards guards = find_guards(program, site);
            const bool same = guards.all.size() == place.guards && place.index < guards.all.size() &&
                              class_name(guards.all[place.index].kind) == place.guard_class &&
                              guards.all[place.index].safe();
            if (same) {
                candidates.push_back(place_of(program, site, guards, place.index));
            }
        }
        if (candidates.size() != 1) {
            check.state = candidates.empty() ? PatchState::differs : PatchState::ambiguous;
            check.message = format(
                "the bytes at 0x%llx are not those of the patch, and its assertion (%s) was found %zu "
                "times in this build; nothing is guessed",
                static_cast<unsigned long long>(place.address),
                place.expression.empty() ? "none named" : place.expression.c_str(), candidates.size());
            return check;
        }
        check.message += format("%s0x%llx is now 0x%llx (%s)", check.message.empty() ? "" : "; ",
                                static_cast<unsigned long long>(place.address),
                                static_cast<unsigned long long>(candidates[0].address), place.expression.c_str());
        const std::string reason = place.reason;
        place = candidates[0];
        place.reason = reason;
    }
    check.found.sha256 = sha256(program.image().bytes());
    check.found.patched_sha256.clear();
    check.state = PatchState::moved;
    return check;
}

}  // namespace

PatchCheck check_patch(const Program& program, const Patch& patch) {
    const Image& image = program.image();
    if (!is_empty_or_holds(program, patch.banner)) {
        return {PatchState::wrong_target, image.name() + ": does not contain \"" + patch.banner + "\"", {}};
    }
    std::size_t old_there = 0, new_there = 0;
    for (const PatchPlace& p : patch.places) {
        if (matches(image, p, p.new_bytes)) {
            ++new_there;
        } else if (matches(image, p, p.old_bytes)) {
            ++old_there;
            if (image.offset_of(p.address, p.old_bytes.size()) != p.offset) {
                return {PatchState::wrong_target,
                        format("address 0x%llx is not file offset 0x%llx in this file",
                               static_cast<unsigned long long>(p.address), static_cast<unsigned long long>(p.offset)),
                        {}};
            }
        }
        if (image.segment_at(p.address) != nullptr && !image.executable(p.address)) {
            return {PatchState::unsafe, format("0x%llx is not code", static_cast<unsigned long long>(p.address)), {}};
        }
        if (const std::string reason = forbidden_branch(program, p.address); !reason.empty()) {
            return {PatchState::unsafe, reason, {}};
        }
    }
    if (new_there == patch.places.size()) {
        return {PatchState::applied, "patched already", {}};
    }
    if (new_there != 0) {
        return {PatchState::differs,
                format("%zu of %zu places are patched and the others are not", new_there, patch.places.size()),
                {}};
    }
    if (old_there != patch.places.size()) {
        return find_again(program, patch);
    }
    if (!patch.sha256.empty() && patch.sha256 != sha256(image.bytes())) {
        PatchCheck check{PatchState::moved, "the bytes agree, but the file is another build (its hash differs)", patch};
        check.found.patched_sha256.clear();
        return check;
    }
    return {PatchState::applies, format("all %zu places hold the old bytes", patch.places.size()), {}};
}

Result<std::vector<std::uint8_t>> apply_patch(const Image& image, const Patch& patch, bool forward) {
    Buffer bytes(image.bytes().begin(), image.bytes().end());
    for (const PatchPlace& p : patch.places) {
        const Buffer& from = forward ? p.old_bytes : p.new_bytes;
        const Buffer& to = forward ? p.new_bytes : p.old_bytes;
        const auto offset = image.offset_of(p.address, from.size());
        if (!offset || from.size() != to.size() || !holds(image, p.address, from)) {
            return make_error(ErrorCode::invalid_argument, "%s: 0x%llx does not hold the bytes to be changed",
                              image.name().c_str(), static_cast<unsigned long long>(p.address));
        }
        std::copy(to.begin(), to.end(), bytes.begin() + static_cast<std::ptrdiff_t>(*offset));
    }
    return bytes;
}

NewPatch make_patch(const Program& program, const AssertSite& site, const Guards& guards, const std::string& name,
                    bool all_guards) {
    NewPatch made;
    made.patch.name = name;
    made.patch.sha256 = sha256(program.image().bytes());
    const auto refuse = [&](const std::string& why) {
        made.state = PatchState::unsafe;
        made.message = format("the assertion at 0x%llx: ", static_cast<unsigned long long>(site.site)) + why;
        return made;
    };
    if (guards.deciding() == 0) {
        return refuse("no branch that decides it was found");
    }
    for (std::size_t i = 0; i < guards.all.size(); ++i) {
        const Guard& g = guards.all[i];
        if (g.kind == GuardClass::canary) {
            continue;  // stays as it is; the branch in front of it is changed
        }
        if (!g.safe()) {
            return refuse(format("one way to it (0x%llx) is of class %s and must not be patched",
                                 static_cast<unsigned long long>(g.site), class_name(g.kind)));
        }
        made.patch.places.push_back(place_of(program, site, guards, i));
    }
    if (made.patch.places.size() > 1 && !all_guards) {
        return refuse(format("%zu branches share its tail; changing one would disable a part of it. Use --all-guards",
                             made.patch.places.size()));
    }
    made.message = format("%zu branches", made.patch.places.size());
    const auto bytes = apply_patch(program.image(), made.patch, true);
    made.patch.patched_sha256 = bytes ? sha256(*bytes) : "";
    return made;
}

}  // namespace npu::elf
