// Patches as JSON. Numbers that people compare with a disassembly (addresses, bytes) are hexadecimal texts.
#include <charconv>
#include <nlohmann/json.hpp>

#include "elf/patch.h"

namespace npu::elf {

namespace {

using Json = nlohmann::ordered_json;
using Buffer = std::vector<std::uint8_t>;

std::string hex(const Buffer& bytes) {
    std::string text;
    for (const std::uint8_t b : bytes) {
        text += npu::format("%02x", b);
    }
    return text;
}

std::string hex(std::uint64_t value) { return npu::format("0x%llx", static_cast<unsigned long long>(value)); }

class Reader {
  public:
    explicit Reader(std::string name) : name_(std::move(name)) {}

    Result<Patch> read(const Json& file) {
        if (!file.is_object() || file.value("format", "") != "npu-elf-patch-1") {
            return bad("format", "expected \"npu-elf-patch-1\"");
        }
        Patch patch;
        const Json target = file.value("target", Json::object());
        if (!target.is_object() || target.value("arch", "") != "aarch64") {
            return bad("target.arch", "expected \"aarch64\"");
        }
        patch.name = text(file, "name");
        patch.caveat = text(file, "caveat");
        patch.sha256 = text(target, "sha256");
        patch.patched_sha256 = text(target, "patched_sha256");
        patch.banner = text(target, "banner");
        if (patch.sha256.empty() && patch.banner.empty()) {
            return bad("target", "needs a sha256 or a banner; otherwise it would be for any file");
        }
        if (!file.contains("places") || !file.at("places").is_array() || file.at("places").empty()) {
            return bad("places", "expected a list with at least one place");
        }
        for (const Json& entry : file.at("places")) {
            NPU_ASSIGN(PatchPlace place, read_place(entry));
            patch.places.push_back(std::move(place));
        }
        return patch;
    }

  private:
    [[nodiscard]] Error bad(const std::string& field, const std::string& why) const {
        return Error{ErrorCode::invalid_argument, name_ + ": " + field + ": " + why};
    }

    static std::string text(const Json& object, const char* key) {
        return object.contains(key) && object.at(key).is_string() ? object.at(key).get<std::string>() : std::string();
    }

    [[nodiscard]] Result<std::uint64_t> number(const Json& entry, const char* key) const {
        const std::string digits = text(entry, key);
        std::uint64_t value = 0;
        const char* begin = digits.c_str() + (digits.starts_with("0x") ? 2 : 0);
        const char* end = digits.c_str() + digits.size();
        const auto [stop, error] = std::from_chars(begin, end, value, 16);
        if (error != std::errc{} || stop != end) {
            return bad(key, "expected a hexadecimal text such as \"0x2b55a8\"");
        }
        return value;
    }

    [[nodiscard]] Result<Buffer> bytes(const Json& entry, const char* key) const {
        const std::string digits = text(entry, key);
        Buffer buffer;
        for (std::size_t i = 0; i < digits.size(); i += 2) {
            unsigned value = 0;
            const char* end = digits.data() + std::min(i + 2, digits.size());
            const auto [stop, error] = std::from_chars(digits.data() + i, end, value, 16);
            if (error != std::errc{} || stop != digits.data() + i + 2 || buffer.size() >= 64) {
                return bad(key, "expected at most 64 bytes as hexadecimal digits in the order of the file");
            }
            buffer.push_back(static_cast<std::uint8_t>(value));
        }
        return buffer;
    }

    [[nodiscard]] Result<PatchPlace> read_place(const Json& entry) const {
        if (!entry.is_object()) {
            return bad("places", "each is an object");
        }
        PatchPlace p;
        NPU_ASSIGN(p.address, number(entry, "address"));
        NPU_ASSIGN(p.offset, number(entry, "offset"));
        NPU_ASSIGN(p.before, bytes(entry, "before"));
        NPU_ASSIGN(p.old_bytes, bytes(entry, "old"));
        NPU_ASSIGN(p.new_bytes, bytes(entry, "new"));
        NPU_ASSIGN(p.after, bytes(entry, "after"));
        if (p.old_bytes.empty() || p.old_bytes.size() != p.new_bytes.size()) {
            return bad("old, new", "expected as many bytes in both, at least one");
        }
        if (p.address % 4 != 0 || p.old_bytes.size() % 4 != 0) {
            return bad("address", "instructions are 4 bytes, at multiples of 4");
        }
        p.reason = text(entry, "reason");
        const Json signature = entry.value("signature", Json::object());
        if (signature.is_object()) {
            p.expression = text(signature, "expression");
            p.guard_class = text(signature, "class");
            const auto count = [&](const char* key) {
                return signature.contains(key) && signature.at(key).is_number_unsigned()
                           ? signature.at(key).get<std::size_t>()
                           : std::size_t{0};
            };
            p.index = count("index");
            p.guards = count("guards");
        }
        return p;
    }

    std::string name_;
};

}  // namespace

Result<Patch> read_patch(std::string_view json, const std::string& name) {
    const Json file = Json::parse(json, nullptr, false);
    if (file.is_discarded()) {
        return Error{ErrorCode::invalid_argument, name + ": this is no JSON"};
    }
    try {
        return Reader(name).read(file);
    } catch (const Json::exception& error) {  // a field of another type than expected
        return Error{ErrorCode::invalid_argument, name + ": " + error.what()};
    }
}

std::string write_patch(const Patch& patch) {
    Json places = Json::array();
    for (const PatchPlace& p : patch.places) {
        places.push_back(
            {{"address", hex(p.address)},
             {"offset", hex(p.offset)},
             {"before", hex(p.before)},
             {"old", hex(p.old_bytes)},
             {"new", hex(p.new_bytes)},
             {"after", hex(p.after)},
             {"signature",
              {{"expression", p.expression}, {"class", p.guard_class}, {"index", p.index}, {"guards", p.guards}}},
             {"reason", p.reason}});
    }
    const Json file{{"format", "npu-elf-patch-1"},
                    {"name", patch.name},
                    {"caveat", patch.caveat},
                    {"target",
                     {{"arch", "aarch64"},
                      {"sha256", patch.sha256},
                      {"patched_sha256", patch.patched_sha256},
                      {"banner", patch.banner}}},
                    {"places", std::move(places)}};
    return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace npu::elf
