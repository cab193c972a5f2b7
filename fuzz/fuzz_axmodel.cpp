// Compiled models as data: the readers of the container over bytes that may be anything.
//
// Beyond not crashing: what is accepted is written back as a file with the same values, its programs written anew by
// our own writers are equivalent, and what was packed unpacks to itself.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "axera/model_builder.h"
#include "axera/model_file.h"
#include "axera/segment_codec.h"
#include "axera/verify.h"
#include "fuzz/input.h"

namespace npu::fuzz {
namespace {

[[noreturn]] void fail(const char* what, const std::string& text) {
    std::fprintf(stderr, "broken promise: %s: %s\n", what, text.c_str());
    std::abort();
}

void read_model(const axera::Buffer& file) {
    const Result<axera::ModelFile> model = axera::parse_model(file);
    if (!model) {
        return;
    }
    const Result<axera::ModelFile> again = axera::parse_model(axera::onnx::write_model(model->onnx));
    if (!again || !axera::difference(*model, *again).empty()) {
        fail("an accepted file is written back with its values",
             again ? axera::difference(*model, *again) : again.error().message);
    }
    const auto unknown = [](const axera::Program& program) { return !program.neu.unknown.empty(); };
    if (std::any_of(model->programs.begin(), model->programs.end(), unknown)) {
        return;
    }
    const Result<axera::Buffer> rebuilt = axera::rebuild_model(*model);
    const Result<axera::ModelFile> third =
        rebuilt ? axera::parse_model(*rebuilt) : Result<axera::ModelFile>(rebuilt.error());
    if (!third || !axera::difference(*model, *third).empty()) {
        fail("programs written anew are equivalent", third ? axera::difference(*model, *third) : third.error().message);
    }
    (void)axera::verify_model(*model);
}

void pack(const axera::Buffer& bytes) {
    const Result<axera::Buffer> unpacked = axera::unpack_segment(axera::pack_segment(bytes));
    if (!unpacked || *unpacked != bytes) {
        fail("what was packed unpacks to itself", std::to_string(bytes.size()));
    }
    (void)axera::unpack_segment(bytes, 1U << 20);
}

// A good model of a few shapes with some bytes changed, removed or repeated.
axera::Buffer changed_model(Input& input) {
    using enum axera::onnx::ElementType;
    axera::ModelRecipe recipe =
        axera::matmul_recipe(input.one_in(2) ? int8 : int16, 1 + input.index(4), 1 + input.index(4), 32);
    recipe.three_thirds = input.one_in(2);
    if (input.one_in(2)) {
        recipe.groups.push_back(recipe.groups.front());
    }
    axera::Buffer file = axera::build_model(recipe).value();
    for (std::uint32_t changes = input.index(6); changes != 0; --changes) {
        const std::size_t at = input.draw<std::uint16_t>() % file.size();
        const auto place = file.begin() + static_cast<std::ptrdiff_t>(at);
        switch (input.index(4)) {
            case 0: file.erase(place); break;
            case 1: file.insert(place, input.draw<std::uint8_t>()); break;
            default: *place = input.draw<std::uint8_t>(); break;
        }
    }
    return file;
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace npu;
    fuzz::Input input(data, size);
    switch (input.index(4)) {
        case 0: {
            const auto rest = input.take_rest();
            fuzz::read_model({rest.begin(), rest.end()});
            return 0;
        }
        case 1: {
            const auto rest = input.take_rest();
            const axera::Buffer blob(rest.begin(), rest.end());
            (void)axera::read_neu(blob);
            fuzz::pack(blob);
            return 0;
        }
        default: fuzz::read_model(fuzz::changed_model(input)); return 0;
    }
}
