#include "axera/cards.h"

#include <fstream>

#include "axera/models.h"

namespace npu::axera::test {

std::shared_ptr<Runtime> mock_runtime(const mock::Settings& settings) {
    must(mock::configure(settings));
    return must(Runtime::open(must(axcl::Library::of(mock::functions(), "mock"))));
}

std::shared_ptr<Card> mock_card(const std::string& faults) {
    mock::Settings settings;
    settings.faults = faults;
    auto runtime = mock_runtime(settings);
    const std::int32_t id = must(runtime->cards()).at(0).id;
    return must(Card::open(std::move(runtime), id));
}

std::string built_model(const ModelRecipe& recipe, const std::string& name) {
    std::string path = testing::TempDir() + name;
    const Buffer file = must(build_model(recipe));
    std::ofstream stream(path, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    EXPECT_TRUE(stream.good());
    return path;
}

}  // namespace npu::axera::test
