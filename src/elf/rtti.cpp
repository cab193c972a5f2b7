#include "elf/rtti.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace npu::elf {

namespace {

// The function around a lambda or local type: what stands in front of ::{lambda or the last )::.
std::string enclosing_of(const std::string& name) {
    const std::size_t lambda = name.find("::{lambda(");
    if (lambda != std::string::npos) {
        return name.substr(0, lambda);
    }
    const std::size_t local = name.rfind(")::");
    if (local == std::string::npos || name.find('<') < local) {
        return {};
    }
    const std::string around = name.substr(0, local + 1);
    return around.ends_with("(anonymous namespace)") ? std::string() : around;
}

}  // namespace

std::string demangle(std::string_view mangled) {
    if (mangled.starts_with('*')) {
        mangled.remove_prefix(1);
    }
    if (mangled.empty() || mangled.size() > 8192) {
        return {};
    }
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(
        abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status), std::free);
    return status == 0 && text ? std::string(text.get()) : std::string();
}

std::vector<TypeName> find_types(const Program& program) {
    const Dynamic& dynamic = program.dynamic();
    std::map<std::uint64_t, TypeName> found;
    for (const auto& [place, target] : dynamic.pointers) {
        // The first word points into a table of the run-time library, be it imported or linked in.
        const auto import = dynamic.imports.find(place - 8);
        const bool imported =
            import != dynamic.imports.end() && dynamic.symbols[import->second].name.starts_with("_ZTVN10__cxxabiv1");
        if (!imported && !dynamic.pointers.contains(place - 8)) {
            continue;
        }
        const auto text = text_at(program.image(), target);
        if (!text || text->size() < 2 || text->find_first_of(" %/") != std::string_view::npos) {
            continue;
        }
        TypeName type;
        type.name = demangle(*text);
        // Without the import a short text such as "i" would pass for a type (int): ask for a name.
        if (type.name.empty() || (!imported && text->size() < 4)) {
            continue;
        }
        type.address = place - 8;
        type.mangled = *text;
        type.enclosing = enclosing_of(type.name);
        found[type.address] = std::move(type);
    }
    for (const auto& [place, target] : dynamic.pointers) {
        if (const auto type = found.find(target);
            type != found.end() && program.image().load_at<std::uint64_t>(place - 8)) {
            type->second.tables.push_back(place);
        }
    }
    std::vector<TypeName> types;
    for (auto& [address, type] : found) {
        types.push_back(std::move(type));
    }
    std::sort(types.begin(), types.end(), [](auto& a, auto& b) { return a.name < b.name; });
    return types;
}

}  // namespace npu::elf
