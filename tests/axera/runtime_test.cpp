// The binding and its owners on the mock: memory, contexts of threads, teardown, errors in words.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "axera/cards.h"
#include "axera/interrupts.h"
#include "axera/memory_guard.h"
#include "axera/models.h"

namespace npu::axera::test {
namespace {

Buffer random_bytes(std::size_t count) {
    std::mt19937 random(static_cast<unsigned>(count));
    Buffer bytes(count);
    for (std::uint8_t& byte : bytes) {
        byte = static_cast<std::uint8_t>(random());
    }
    return bytes;
}

TEST(Library, one_that_is_not_there_is_an_error_that_lists_where_it_was_looked_for) {
    const Error error = axcl::Library::open("/nonexistent/libaxcl_rt.so").error();
    EXPECT_EQ(error.code, ErrorCode::not_found);
    EXPECT_NE(error.message.find("/nonexistent/libaxcl_rt.so"), std::string::npos);
    EXPECT_NE(error.message.find("GGML_NPU_AXERA_LIBRARY"), std::string::npos);
}

TEST(Library, a_library_without_the_functions_is_refused_with_their_names) {
    const Error error = axcl::Library::open("libm.so.6").error();
    EXPECT_EQ(error.code, ErrorCode::unsupported);
    EXPECT_NE(error.message.find("axclrtEngineExecute"), std::string::npos);
    EXPECT_EQ(error.message.find("axclrtRebootDevice"), std::string::npos);  // that one is optional
}

TEST(Library, every_required_function_is_missed_when_it_alone_is_missing) {
    const auto without = [](auto member) {
        axcl::Functions functions = mock::functions();
        functions.*member = nullptr;
        return axcl::Library::of(functions, "test");
    };
    EXPECT_NE(without(&axcl::Functions::axclrtMalloc).error().message.find("axclrtMalloc"), std::string::npos);
    EXPECT_NE(without(&axcl::Functions::axclInit).error().message.find("axclInit"), std::string::npos);
    EXPECT_TRUE(without(&axcl::Functions::axclrtMallocHost).ok());
    EXPECT_TRUE(without(&axcl::Functions::axclrtGetFullVersion).ok());
}

TEST(Errors, codes_that_are_met_in_the_field_are_put_into_words) {
    EXPECT_EQ(axcl::error_text(static_cast<axcl::Error>(0x80300284)),
              "0x80300284 (context: the thread has no context)");
    EXPECT_EQ(axcl::error_text(static_cast<axcl::Error>(0x8030070C)),
              "0x8030070C (engine: the card could not load or run the model)");
    EXPECT_EQ(axcl::error_text(static_cast<axcl::Error>(0x80300181)), "0x80300181 (device: no card is connected)");
    EXPECT_EQ(axcl::error_text(4), "0x00000004 (not supported)");
    EXPECT_EQ(axcl::error_text(0), "0x00000000 (success)");
    EXPECT_EQ(axcl::error_text(static_cast<axcl::Error>(0x803007EE)), "0x803007EE (engine: unknown code)");
    EXPECT_EQ(axcl::error_text(-1), "0xFFFFFFFF (unknown code)");
    const Error error = axcl::make_axcl_error(static_cast<axcl::Error>(0x8030010B), "axclInit");
    EXPECT_EQ(error.code, ErrorCode::not_found);
    EXPECT_NE(error.message.find("lsmod"), std::string::npos);
}

TEST(Runtime, without_driver_or_card_it_does_not_open_and_says_why) {
    AxeraOptions options;
    options.mock = true;
    options.mock_cmm_mib = 64;
    options.mock_cards = "no-driver";
    EXPECT_NE(Runtime::open(options).error().message.find("driver is not there"), std::string::npos);
    options.mock_cards = "none";
    EXPECT_NE(Runtime::open(options).error().message.find("no card is connected"), std::string::npos);
    options.mock_cards = "3,x";
    EXPECT_NE(Runtime::open(options).error().message.find("GGML_NPU_AXERA_MOCK_CARDS"), std::string::npos);
    options.mock_cards = "3";
    options.mock_faults = "no-such-fault";
    EXPECT_NE(Runtime::open(options).error().message.find("there is no fault 'no-such-fault'"), std::string::npos);
}

TEST(Runtime, cards_have_the_numbers_and_the_memory_of_the_options) {
    AxeraOptions options;
    options.mock = true;
    options.mock_cards = "4,129";
    options.mock_cmm_mib = 100;
    const auto runtime = must(Runtime::open(options));
    const std::vector<CardInfo> cards = must(runtime->cards());
    ASSERT_EQ(cards.size(), 2U);
    EXPECT_EQ(cards[1].id, 129);
    EXPECT_EQ(cards[1].pci, "0000:81:00.0");
    EXPECT_EQ(cards[0].total_cmm, std::uint64_t{100} << 20);
    EXPECT_EQ(cards[0].free_cmm, std::uint64_t{82} << 20);
    EXPECT_NE(cards[0].description().find("82 of 100 MiB CMM free"), std::string::npos);
    EXPECT_FALSE(Card::open(runtime, 0).ok());
}

TEST(Runtime, two_users_of_one_process_share_the_cards_of_the_mock) {
    AxeraOptions options;
    options.mock = true;
    options.mock_cards = "7";
    options.mock_cmm_mib = 50;
    const auto first = must(Card::open(must(Runtime::open(options)), 7));
    DeviceMemory memory = must(DeviceMemory::allocate(first, 1 << 20));
    const Buffer bytes = random_bytes(1 << 20);
    must(memory.write(bytes));
    const auto second = must(Card::open(must(Runtime::open(options)), 7));
    EXPECT_EQ(must(second->info()).free_cmm, std::uint64_t{31} << 20);
    Buffer back(bytes.size());
    must(memory.read(back));
    EXPECT_EQ(back, bytes);
}

TEST(Runtime, what_a_card_says_of_its_memory_is_not_believed_when_it_makes_no_sense) {
    mock_runtime();
    axcl::Functions functions = mock::functions();
    functions.axclrtGetDeviceProperties = [](std::int32_t, axcl::DeviceProperties* properties) -> axcl::Error {
        *properties = {};
        properties->total_cmm = 5;
        properties->free_cmm = 6;
        return 0;
    };
    const auto runtime = must(Runtime::open(must(axcl::Library::of(functions, "test"))));
    EXPECT_EQ(must(runtime->card(3)).total_cmm, 0U);
    EXPECT_EQ(must(runtime->card(3)).description().find("CMM"), std::string::npos);
}

TEST(DeviceMemory, bytes_come_back_in_all_directions) {
    const auto card = mock_card();
    DeviceMemory first = must(DeviceMemory::allocate(card, 10000));
    DeviceMemory second = must(DeviceMemory::allocate(card, 5000));
    const Buffer bytes = random_bytes(10000);
    must(first.write(bytes));
    must(second.fill(0xA5));
    must(second.copy_from(first, 4999, 1, 4000));
    Buffer back(5000);
    must(second.read(back));
    EXPECT_EQ(back[0], 0xA5);
    EXPECT_TRUE(std::equal(back.begin() + 1, back.begin() + 4001, bytes.begin() + 4999));
    EXPECT_EQ(back[4001], 0xA5);
    Buffer part(16);
    must(first.read(part, 9984));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + 9984));
}

TEST(DeviceMemory, what_reaches_outside_is_refused_before_the_card_sees_it) {
    const auto card = mock_card();
    DeviceMemory memory = must(DeviceMemory::allocate(card, 100));
    Buffer bytes(101);
    EXPECT_FALSE(memory.write(bytes).ok());
    EXPECT_FALSE(memory.read(bytes).ok());
    EXPECT_FALSE(memory.write(Bytes(bytes).first(1), 100).ok());
    EXPECT_FALSE(memory.write(Bytes(bytes).first(1), ~std::size_t{0}).ok());
    EXPECT_TRUE(memory.write(Bytes(bytes).first(100)).ok());
    EXPECT_TRUE(mock::notes().empty());
}

TEST(DeviceMemory, is_given_back_and_runs_out_with_words) {
    mock::Settings settings;
    settings.cmm_bytes = 1 << 20;
    auto runtime = mock_runtime(settings);
    {
        const auto card = must(Card::open(runtime, 3));
        {
            const DeviceMemory most = must(DeviceMemory::allocate(card, 1 << 20));
            const Error error = DeviceMemory::allocate(card, 1).error();
            EXPECT_EQ(error.code, ErrorCode::out_of_memory);
            EXPECT_NE(error.message.find("1 bytes on card 3"), std::string::npos);
        }
        EXPECT_EQ(mock::counters().allocations, 0U);
        DeviceMemory again = must(DeviceMemory::allocate(card, 1 << 20));
        DeviceMemory moved = std::move(again);
        EXPECT_EQ(mock::counters().allocations, 1U);
    }
    EXPECT_EQ(mock::counters().allocations, 0U);
    EXPECT_TRUE(mock::notes().empty());
}

TEST(MemoryGuard, what_fits_to_the_byte_is_let_through_and_one_byte_more_is_not) {
    CardInfo card;
    card.total_cmm = std::uint64_t{1000} << 20;
    card.free_cmm = std::uint64_t{700} << 20;
    const MemoryNeed exact{std::uint64_t{500} << 20, std::uint64_t{72} << 20, std::uint64_t{128} << 20};
    EXPECT_TRUE(check_memory(exact, card).ok());
    for (const auto part : {&MemoryNeed::model_bytes, &MemoryNeed::cache_bytes, &MemoryNeed::floor_bytes}) {
        MemoryNeed more = exact;
        more.*part += 1;
        const Error error = check_memory(more, card).error();
        EXPECT_EQ(error.code, ErrorCode::out_of_memory);
        EXPECT_NE(error.message.find("700 of 1000 MiB of CMM free"), std::string::npos) << error.message;
        more.*part = ~std::uint64_t{0};
        EXPECT_FALSE(check_memory(more, card).ok());
    }
    card.total_cmm = card.free_cmm = 0;  // the card does not say
    EXPECT_TRUE(check_memory(exact, card).ok());
}

TEST(MemoryGuard, a_model_larger_than_the_free_memory_is_not_sent_to_the_card) {
    mock::Settings settings;
    settings.cmm_bytes = std::uint64_t{32} << 20;
    auto runtime = mock_runtime(settings);
    const auto card = must(Card::open(runtime, 3));
    ModelRecipe recipe = matmul_recipe(onnx::ElementType::int8, 2, 3, 8);
    recipe.params.resize(std::size_t{15} << 20);  // an idle card has 18 of its MiB in use
    const std::uint64_t before = mock::counters().bytes_to_device;
    const Error error = Executor::load(card, built_model(recipe, "large.axmodel")).error();
    EXPECT_NE(error.message.find("models take 16 MiB"), std::string::npos) << error.message;
    EXPECT_EQ(mock::counters().bytes_to_device, before);
    EXPECT_EQ(mock::counters().models, 0U);
    recipe.params.resize(std::size_t{13} << 20);
    EXPECT_TRUE(Executor::load(card, built_model(recipe, "large.axmodel")).ok());
}

TEST(Interrupts, the_first_signal_only_asks_and_afterwards_signals_do_what_they_did) {
    struct sigaction before = {};
    sigaction(SIGTERM, nullptr, &before);
    {
        const Interrupts interrupts;
        EXPECT_FALSE(interrupts.requested());
        std::raise(SIGTERM);
        EXPECT_TRUE(interrupts.requested());
    }
    struct sigaction after = {};
    sigaction(SIGTERM, nullptr, &after);
    EXPECT_EQ(after.sa_handler, before.sa_handler);
    const Interrupts again;
    EXPECT_FALSE(again.requested());
}

TEST(Interrupts, a_second_signal_ends_the_program) {
    EXPECT_EXIT(
        {
            const Interrupts interrupts;
            std::raise(SIGINT);
            std::raise(SIGINT);
        },
        testing::KilledBySignal(SIGINT), "");
}

TEST(Card, works_from_threads_that_never_made_a_context) {
    const auto card = mock_card();
    std::vector<std::thread> threads;
    std::atomic<int> good = 0;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i) {
                DeviceMemory memory = must(DeviceMemory::allocate(card, 4096));
                const Buffer bytes = random_bytes(static_cast<std::size_t>(1000 + t * 100 + i));
                must(memory.write(bytes));
                Buffer back(bytes.size());
                must(memory.read(back));
                good += back == bytes ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(good, 80);
    // The positive control: the same without a context fails.
    std::thread([] {
        void* address = nullptr;
        EXPECT_EQ(static_cast<std::uint32_t>(mock::functions().axclrtMalloc(&address, 16, 0)), 0x80300284U);
    }).join();
}

TEST(Card, two_cards_do_not_share_memory) {
    mock::Settings settings;
    settings.cards = {3, 4};
    auto runtime = mock_runtime(settings);
    const auto first = must(Card::open(runtime, 3));
    const auto second = must(Card::open(runtime, 4));
    DeviceMemory a = must(DeviceMemory::allocate(first, 64));
    DeviceMemory b = must(DeviceMemory::allocate(second, 64));
    EXPECT_FALSE(b.copy_from(a, 0, 0, 64).ok());
    const auto held = must(second->hold());
    EXPECT_EQ(static_cast<std::uint32_t>(mock::functions().axclrtFree(a.address())), 0x80300581U);
}

TEST(Card, an_engine_that_another_program_set_up_is_used_as_it_is) {
    EXPECT_NE(mock_card("engine-taken"), nullptr);
    mock::Settings settings;
    auto runtime = mock_runtime(settings);
    const axcl::Functions& f = mock::functions();
    ASSERT_EQ(f.axclrtSetDevice(3), 0);
    ASSERT_EQ(f.axclrtEngineInit(static_cast<int>(axcl::VirtualNpu::enable)), 0);
    const Error error = Card::open(runtime, 3).error();
    EXPECT_NE(error.message.find("virtual NPUs (mode 1)"), std::string::npos);
    f.axclrtResetDevice(3);
}

}  // namespace
}  // namespace npu::axera::test
