// The mock, without a card, against the vendor's library without a card: every row of $NPU_TEST_DATA/data/
// axcl-without-card.txt, in process and through the library that is found by name.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "axera/mock/mock.h"
#include "axera/models.h"
#include "axera/oracle_calls.h"

namespace npu::axera::test {
namespace {

struct Expected {
    Row row;
    std::string answer;
};

// Lines are a function, arguments that may be empty or hold spaces, and an answer.
std::vector<Expected> load_table(const std::string& path) {
    std::vector<Expected> table;
    std::ifstream stream(path);
    for (std::string line; std::getline(stream, line);) {
        const std::size_t name_end = line.find(' ');
        const std::size_t answer_end = line.find_last_not_of(' ') + 1;
        std::size_t answer = line.rfind("  ", answer_end - 1);
        answer = line.find_first_not_of(' ', answer);
        std::string arguments = line.substr(name_end, answer - name_end);
        const std::size_t first = arguments.find_first_not_of(' ');
        arguments =
            first == std::string::npos ? "" : arguments.substr(first, arguments.find_last_not_of(' ') + 1 - first);
        table.push_back({{line.substr(0, name_end), arguments}, line.substr(answer, answer_end - answer)});
    }
    return table;
}

void expect_rows(const axcl::Functions& functions, const std::string& folder) {
    const std::vector<Expected> table = load_table(folder + "/../axcl-without-card.txt");
    EXPECT_GE(table.size(), 110U);
    const RowCalls calls = oracle_calls(functions, folder + "/v1_matmul_npu3_s16_256_10000_16_987814.axmodel");
    for (const Expected& expected : table) {
        const auto call = calls.find(expected.row);
        ASSERT_NE(call, calls.end()) << expected.row.first << " " << expected.row.second;
        EXPECT_EQ(call->second(), expected.answer) << expected.row.first << "(" << expected.row.second << ")";
    }
    EXPECT_EQ(calls.size(), table.size());  // no row was left out by a spelling
}

mock::Settings no_driver() {
    mock::Settings settings;
    settings.driver = false;
    settings.faults = "crash-on-garbage";
    return settings;
}

TEST(Oracle, the_mock_without_a_driver_answers_every_row_as_the_real_library) {
    NPU_REQUIRE_MODELS(folder);
    must(mock::configure(no_driver()));
    expect_rows(mock::functions(), *folder);
}

TEST(Oracle, so_does_the_library_that_is_found_by_name) {
    NPU_REQUIRE_MODELS(folder);
    setenv("GGML_NPU_AXERA_MOCK_CARDS", "no-driver", 1);
    setenv("GGML_NPU_AXERA_MOCK_FAULTS", "crash-on-garbage", 1);
    const auto library = must(axcl::Library::open(NPU_AXCL_MOCK));
    EXPECT_EQ(library->version(), "V3.10.2_mock");
    expect_rows(library->functions(), *folder);
}

TEST(Oracle, a_driver_without_cards_says_so_and_answers_the_rest_alike) {
    mock::Settings settings;
    settings.cards.clear();
    must(mock::configure(settings));
    const axcl::Functions& f = mock::functions();
    EXPECT_EQ(static_cast<std::uint32_t>(f.axclInit(nullptr)), 0x80300181U);
    EXPECT_EQ(static_cast<std::uint32_t>(f.axclInit(nullptr)), 0x80300181U);
    axcl::DeviceList list;
    list.count = 9;
    EXPECT_EQ(f.axclrtGetDeviceList(&list), 0);
    EXPECT_EQ(list.count, 0U);
    std::int32_t device = 0;
    EXPECT_EQ(static_cast<std::uint32_t>(f.axclrtGetDevice(&device)), 0x80300185U);
    EXPECT_EQ(static_cast<std::uint32_t>(f.axclrtSetDevice(3)), 0x80300184U);
    EXPECT_STREQ(f.axclrtGetSocName(), "UNKNOWN");
}

TEST(Oracle, with_a_card_the_same_calls_answer_otherwise) {
    NPU_REQUIRE_MODELS(folder);
    mock::Settings settings;
    settings.cards = {0};
    must(mock::configure(settings));
    ASSERT_EQ(mock::functions().axclInit(nullptr), 0);
    ASSERT_EQ(mock::functions().axclrtSetDevice(0), 0);
    // But for those that take the card or the context away.
    const std::set<Row> skipped{
        {"axclrtSetCurrentContext", "garbage"}, {"axclrtResetDevice", "0"}, {"axclrtRebootDevice", "0"}};
    std::size_t different = 0;
    const RowCalls calls = oracle_calls(mock::functions(), *folder + "/v1_matmul_npu3_s16_256_10000_16_987814.axmodel");
    for (const Expected& expected : load_table(*folder + "/../axcl-without-card.txt")) {
        if (skipped.count(expected.row) == 0) {
            different += calls.at(expected.row)() != expected.answer ? 1 : 0;
        }
    }
    EXPECT_GT(different, 20U);
}

}  // namespace
}  // namespace npu::axera::test
