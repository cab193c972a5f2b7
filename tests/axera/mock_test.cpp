// What the mock refuses, notes and injects: the mistakes and misfortunes that it is there for.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "axera/cards.h"
#include "axera/models.h"

namespace npu::axera::test {
namespace {

std::uint32_t bits(axcl::Error error) { return static_cast<std::uint32_t>(error); }

// A model that is loaded and described, with the raw functions.
struct Raw {
    explicit Raw(const std::string& faults = "",
                 const ModelRecipe& recipe = matmul_recipe(onnx::ElementType::int8, 2, 3, 8)) {
        card = mock_card(faults);
        held = must(card->hold());
        path = built_model(recipe, "raw.axmodel");
        load_error = f.axclrtEngineLoadFromFile(path.c_str(), &model);
        if (load_error == 0) {
            EXPECT_EQ(f.axclrtEngineCreateContext(model, &context), 0);
            EXPECT_EQ(f.axclrtEngineGetIOInfo(model, &info), 0);
            EXPECT_EQ(f.axclrtEngineCreateIO(info, &io), 0);
        }
    }
    void* memory(std::size_t bytes) {
        void* address = nullptr;
        EXPECT_EQ(f.axclrtMalloc(&address, bytes, 0), 0);
        return address;
    }
    std::uint32_t run(std::uint32_t group = 0) { return bits(f.axclrtEngineExecute(model, context, group, io)); }

    const axcl::Functions& f = mock::functions();
    std::shared_ptr<Card> card;
    std::unique_lock<std::recursive_mutex> held;
    std::string path;
    axcl::Error load_error = 0;
    std::uint64_t model = 0, context = 0;
    axcl::IoInfo info = nullptr;
    axcl::Io io = nullptr;
};

bool noted(const std::string& text) {
    for (const std::string& note : mock::notes()) {
        if (note.find(text) != std::string::npos) {
            return true;
        }
    }
    return false;
}

TEST(Mock, a_run_wants_every_tensor_bound_with_its_exact_size_inside_one_allocation) {
    Raw raw;
    void* const x = raw.memory(16);
    void* const y = raw.memory(24);
    void* const r = raw.memory(24);
    raw.f.axclrtMemset(x, 1, 16);
    raw.f.axclrtMemset(y, 1, 24);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 0, x, 16);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 1, y, 24);
    EXPECT_EQ(raw.run(), 0x80300703U);
    EXPECT_TRUE(noted("'r' has no buffer"));
    raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, r, 25);
    EXPECT_EQ(raw.run(), 0x80300703U);
    EXPECT_TRUE(noted("'r' takes 24 bytes in this shape group and the buffer has 25"));
    raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, static_cast<std::uint8_t*>(r) + 1, 24);
    EXPECT_EQ(raw.run(), 0x80300703U);
    EXPECT_TRUE(noted("not inside one allocation"));
    raw.f.axclrtEngineSetOutputBufferByName(raw.io, "r", r, 24);
    EXPECT_EQ(raw.run(), 0U);
    EXPECT_EQ(raw.run(1), 0x80300781U);
    float sums[6];
    EXPECT_EQ(raw.f.axclrtMemcpy(sums, r, 24, 2), 0);
    EXPECT_EQ(sums[5], 8.0F);
    EXPECT_EQ(raw.f.axclrtFree(y), 0);
    EXPECT_EQ(raw.run(), 0x80300703U);  // a buffer that was freed
}

TEST(Mock, an_output_that_overlaps_an_input_is_refused) {
    Raw raw;
    void* const all = raw.memory(64);
    raw.f.axclrtMemset(all, 0, 64);
    const auto at = [&](std::size_t offset) { return static_cast<std::uint8_t*>(all) + offset; };
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 0, at(0), 16);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 1, at(16), 24);
    raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, at(39), 24);
    EXPECT_EQ(raw.run(), 0x80300703U);
    EXPECT_TRUE(noted("the buffer of 'r' overlaps that of 'y'"));
    raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, at(40), 24);
    EXPECT_EQ(raw.run(), 0U);
}

TEST(Mock, reading_what_was_never_written_is_noted_byte_by_byte) {
    Raw raw;
    void* const x = raw.memory(16);
    void* const y = raw.memory(24);
    raw.f.axclrtMemset(x, 1, 7);
    raw.f.axclrtMemset(static_cast<std::uint8_t*>(x) + 9, 1, 7);
    raw.f.axclrtMemset(y, 1, 24);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 0, x, 16);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 1, y, 24);
    raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, raw.memory(24), 24);
    EXPECT_EQ(raw.run(), 0U);
    EXPECT_TRUE(noted("the run reads 2 bytes of 'x'"));
    raw.f.axclrtMemset(static_cast<std::uint8_t*>(x) + 7, 1, 2);
    const std::size_t before = mock::notes().size();
    EXPECT_EQ(raw.run(), 0U);
    EXPECT_EQ(mock::notes().size(), before);
}

TEST(Mock, memory_that_was_never_written_is_not_a_number) {
    Raw raw;
    float value = 0;
    EXPECT_EQ(raw.f.axclrtMemcpy(&value, raw.memory(4), 4, 2), 0);
    EXPECT_NE(value, value);
}

TEST(Mock, addresses_are_never_used_twice_and_lead_nowhere_near_the_end) {
    Raw raw;
    auto* const first = static_cast<std::uint8_t*>(raw.memory(100));
    std::uint8_t byte = 0;
    EXPECT_EQ(raw.f.axclrtMemcpy(&byte, first + 99, 1, 2), 0);
    EXPECT_EQ(bits(raw.f.axclrtMemcpy(&byte, first + 100, 1, 2)), 0x80300581U);
    EXPECT_EQ(bits(raw.f.axclrtMemcpy(&byte, first - 1, 1, 2)), 0x80300581U);
    EXPECT_EQ(bits(raw.f.axclrtFree(first + 1)), 0x80300581U);
    EXPECT_EQ(raw.f.axclrtFree(first), 0);
    EXPECT_EQ(bits(raw.f.axclrtFree(first)), 0x80300581U);
    EXPECT_NE(raw.memory(100), first);
}

TEST(Mock, handles_of_what_is_gone_are_errors) {
    Raw raw;
    EXPECT_EQ(raw.f.axclrtEngineUnload(raw.model), 0);
    EXPECT_EQ(bits(raw.f.axclrtEngineUnload(raw.model)), 0x80300703U);
    EXPECT_EQ(raw.run(), 0x80300703U);
    EXPECT_EQ(bits(raw.f.axclrtEngineDestroyIO(raw.io)), 0x80300703U);
    EXPECT_EQ(raw.f.axclrtEngineGetNumInputs(raw.info), 0x80300703U);
    EXPECT_EQ(bits(raw.f.axclrtDestroyContext(&raw)), 0x80300282U);
    EXPECT_EQ(mock::counters().models, 0U);
}

TEST(Mock, work_in_a_stream_happens_when_it_is_synchronised_and_in_order) {
    Raw raw;
    auto* const memory = static_cast<std::uint8_t*>(raw.memory(8));
    raw.f.axclrtMemset(memory, 0, 8);
    axcl::Stream stream = nullptr;
    ASSERT_EQ(raw.f.axclrtCreateStream(&stream), 0);
    const std::uint8_t one[4] = {1, 1, 1, 1};
    const std::uint8_t two[4] = {2, 2, 2, 2};
    EXPECT_EQ(raw.f.axclrtMemcpyAsync(memory, one, 4, 1, stream), 0);
    EXPECT_EQ(raw.f.axclrtMemcpyAsync(memory + 2, two, 4, 1, stream), 0);
    std::uint8_t back[8];
    EXPECT_EQ(raw.f.axclrtMemcpy(back, memory, 8, 2), 0);
    EXPECT_EQ(back[0], 0);
    EXPECT_EQ(raw.f.axclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(raw.f.axclrtMemcpy(back, memory, 8, 2), 0);
    const std::uint8_t expected[8] = {1, 1, 2, 2, 2, 2, 0, 0};
    EXPECT_EQ(std::memcmp(back, expected, 8), 0);
    EXPECT_EQ(raw.f.axclrtDestroyStream(stream), 0);
}

TEST(Mock, time_is_counted_by_the_published_costs) {
    Raw raw;
    void* const x = raw.memory(16);
    std::uint8_t data[16] = {};
    const auto spent = [](auto work) {
        const std::uint64_t before = mock::counters().nanoseconds;
        work();
        return mock::counters().nanoseconds - before;
    };
    EXPECT_GE(spent([&] { raw.f.axclrtMemcpy(x, data, 16, 1); }), 1'000'000U);
    void* pinned = nullptr;
    ASSERT_EQ(raw.f.axclrtMallocHost(&pinned, 16), 0);
    EXPECT_LT(spent([&] { raw.f.axclrtMemcpy(x, pinned, 16, 1); }), 100'000U);
    raw.f.axclrtFreeHost(pinned);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 0, x, 16);
    void* const y = raw.memory(24);
    raw.f.axclrtMemset(y, 0, 24);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 1, y, 24);
    raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, raw.memory(24), 24);
    const std::uint64_t run = spent([&] { EXPECT_EQ(raw.run(), 0U); });
    EXPECT_GE(run, 457'000U);
    EXPECT_LT(run, 600'000U);
}

TEST(MockFaults, a_call_that_fails_once_works_the_next_time) {
    Raw raw("execute-fails@at=2,malloc-fails@at=4,copy-fails@at=1");
    void* const x = raw.memory(16);
    void* const y = raw.memory(24);
    void* const r = raw.memory(24);
    void* none = nullptr;
    EXPECT_EQ(bits(raw.f.axclrtMalloc(&none, 16, 0)), 0x80300507U);
    EXPECT_NE(raw.memory(16), nullptr);
    std::uint8_t data[24] = {};
    EXPECT_EQ(bits(raw.f.axclrtMemcpy(x, data, 16, 1)), 0x8030050CU);
    EXPECT_EQ(raw.f.axclrtMemcpy(x, data, 16, 1), 0);
    EXPECT_EQ(raw.f.axclrtMemcpy(y, data, 24, 1), 0);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 0, x, 16);
    raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 1, y, 24);
    raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, r, 24);
    EXPECT_EQ(raw.run(), 0U);
    EXPECT_EQ(raw.run(), 0x8030070CU);
    EXPECT_EQ(raw.run(), 0U);
}

TEST(MockFaults, a_load_that_fails_once_works_the_next_time) {
    Raw raw("load-fails@at=1");
    EXPECT_EQ(bits(raw.load_error), 0x8030070CU);
    EXPECT_EQ(raw.f.axclrtEngineLoadFromFile(raw.path.c_str(), &raw.model), 0);
}

TEST(MockFaults, a_card_that_is_gone_comes_back_with_a_reboot_and_without_its_memory) {
    const auto card = mock_card("disconnects@at=4");
    const axcl::Functions& f = mock::functions();
    const auto held = must(card->hold());
    void* first = nullptr;
    void* second = nullptr;
    std::uint32_t failed = 0;
    while (failed == 0) {
        first = second;
        failed = bits(f.axclrtMalloc(&second, 16, 0));
    }
    EXPECT_EQ(failed, 0x80300181U);
    EXPECT_EQ(bits(f.axclrtFree(first)), 0x80300181U);
    EXPECT_EQ(bits(f.axclrtSetDevice(3)), 0x80300181U);
    EXPECT_EQ(f.axclrtRebootDevice(3), 0);
    EXPECT_EQ(f.axclrtSetDevice(3), 0);
    EXPECT_EQ(bits(f.axclrtFree(first)), 0x80300581U);
    EXPECT_EQ(f.axclrtMalloc(&second, 16, 0), 0);
}

TEST(MockFaults, specifications_that_mean_nothing_are_refused) {
    mock::Settings settings;
    for (const char* bad : {"execute-fail", "execute-fails@at=0", "execute-fails@at=x", "execute-fails@", ","}) {
        settings.faults = bad;
        EXPECT_FALSE(mock::configure(settings).ok()) << bad;
    }
    settings.faults = "execute-fails@at=12,types-unknown";
    EXPECT_TRUE(mock::configure(settings).ok());
    settings.cards = {3, 3};
    EXPECT_FALSE(mock::configure(settings).ok());
}

TEST(MockFaults, a_card_that_hangs_in_a_load_works_again_after_a_reboot) {
    Raw raw("load-wedges@at=1");
    EXPECT_EQ(bits(raw.load_error), 0x8030070CU);
    void* address = nullptr;
    EXPECT_EQ(bits(raw.f.axclrtMalloc(&address, 16, 0)), 0x8030050CU);
    EXPECT_EQ(bits(raw.f.axclrtEngineLoadFromFile(raw.path.c_str(), &raw.model)), 0x8030070CU);
    EXPECT_EQ(raw.f.axclrtRebootDevice(3), 0);
    EXPECT_EQ(raw.f.axclrtSetDevice(3), 0);
    EXPECT_EQ(raw.f.axclrtEngineInit(0), 0);
    EXPECT_EQ(raw.f.axclrtEngineLoadFromFile(raw.path.c_str(), &raw.model), 0);
}

TEST(MockFaults, loading_from_host_memory_hangs_until_the_card_is_rebooted) {
    Raw raw("load-from-memory-hangs");
    const axcl::Context context = [&] {
        axcl::Context current = nullptr;
        raw.f.axclrtGetCurrentContext(&current);
        return current;
    }();
    std::thread stuck([&] {
        const Buffer file = must(read_bytes(raw.path));
        std::uint64_t model = 0;
        raw.f.axclrtSetCurrentContext(context);
        EXPECT_EQ(bits(raw.f.axclrtEngineLoadFromMem(file.data(), file.size(), &model)), 0x80300181U);
    });
    while (!noted("LoadFromMem wants memory of the card")) {
        std::this_thread::yield();
    }
    EXPECT_EQ(raw.f.axclrtRebootDevice(3), 0);
    stuck.join();
}

TEST(MockFaults, from_memory_of_the_card_a_model_loads) {
    Raw raw;
    const Buffer file = must(read_bytes(raw.path));
    void* const memory = raw.memory(file.size());
    ASSERT_EQ(raw.f.axclrtMemcpy(memory, file.data(), file.size(), 1), 0);
    std::uint64_t model = 0;
    EXPECT_EQ(raw.f.axclrtEngineLoadFromMem(memory, file.size(), &model), 0);
    std::int64_t system = -1;
    std::int64_t cmm = -1;
    EXPECT_EQ(raw.f.axclrtEngineGetUsageFromModelId(model, &system, &cmm), 0);
    EXPECT_GE(cmm, 4096);
    std::uint64_t host = 0;
    EXPECT_EQ(bits(raw.f.axclrtEngineLoadFromMem(file.data(), file.size(), &host)), 0x80300581U);
}

TEST(MockFaults, a_card_drops_when_another_kind_of_model_follows_a_language_model) {
    Raw raw("mixed-engines-disconnect", layer_recipe(true));
    EXPECT_EQ(raw.load_error, 0);
    const std::string other = built_model(matmul_recipe(onnx::ElementType::int8, 2, 3, 8), "other.axmodel");
    std::uint64_t model = 0;
    EXPECT_EQ(bits(raw.f.axclrtEngineLoadFromFile(other.c_str(), &model)), 0x80300181U);
    void* address = nullptr;
    EXPECT_EQ(bits(raw.f.axclrtMalloc(&address, 16, 0)), 0x80300181U);
    axcl::DeviceList list;
    EXPECT_EQ(raw.f.axclrtGetDeviceList(&list), 0);
    EXPECT_EQ(list.count, 0U);
    EXPECT_EQ(raw.f.axclrtRebootDevice(3), 0);
    EXPECT_EQ(raw.f.axclrtGetDeviceList(&list), 0);
    EXPECT_EQ(list.count, 1U);
}

TEST(MockFaults, a_tensor_bound_inside_a_buffer_is_read_from_its_start) {
    for (const bool faulty : {false, true}) {
        Raw raw(faulty ? "offset-binding-ignored" : "");
        auto* const x = static_cast<std::uint8_t*>(raw.memory(32));
        void* const y = raw.memory(24);
        void* const r = raw.memory(24);
        raw.f.axclrtMemset(x, 5, 16);
        raw.f.axclrtMemset(x + 16, 1, 16);
        raw.f.axclrtMemset(y, 1, 24);
        raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 0, x + 16, 16);
        raw.f.axclrtEngineSetInputBufferByIndex(raw.io, 1, y, 24);
        raw.f.axclrtEngineSetOutputBufferByIndex(raw.io, 0, r, 24);
        EXPECT_EQ(raw.run(), 0U);
        float sum = 0;
        raw.f.axclrtMemcpy(&sum, r, 4, 2);
        EXPECT_EQ(sum, faulty ? 40.0F : 8.0F);
    }
}

TEST(MockFaults, memory_of_a_user_that_left_stays_taken_until_a_reboot) {
    mock::Settings settings;
    settings.faults = "cmm-leaks";
    settings.cmm_bytes = 1 << 20;
    auto runtime = mock_runtime(settings);
    const axcl::Functions& f = mock::functions();
    void* address = nullptr;
    ASSERT_EQ(f.axclrtSetDevice(3), 0);
    ASSERT_EQ(f.axclrtMalloc(&address, 1 << 19, 0), 0);
    ASSERT_EQ(f.axclrtResetDevice(3), 0);
    ASSERT_EQ(f.axclrtSetDevice(3), 0);
    EXPECT_EQ(bits(f.axclrtMalloc(&address, (1 << 19) + 1, 0)), 0x80300507U);
    ASSERT_EQ(f.axclrtRebootDevice(3), 0);
    ASSERT_EQ(f.axclrtSetDevice(3), 0);
    EXPECT_EQ(f.axclrtMalloc(&address, (1 << 19) + 1, 0), 0);
    f.axclrtResetDevice(3);
}

TEST(MockFaults, a_damaged_model_is_refused_as_a_card_refuses_it_and_the_reason_is_noted) {
    const auto card = mock_card();
    const std::string path = built_model(layer_recipe(true), "damaged.axmodel");
    Buffer file = must(read_bytes(path));
    file.resize(file.size() / 2);
    FILE* stream = std::fopen(path.c_str(), "wb");
    std::fwrite(file.data(), 1, file.size(), stream);
    std::fclose(stream);
    const Error error = Executor::load(card, path).error();
    EXPECT_NE(error.message.find("0x8030070C"), std::string::npos) << error.message;
    EXPECT_TRUE(noted("the file is incomplete"));
    EXPECT_NE(Executor::load(card, "/nonexistent.axmodel").error().message.find("cannot open"), std::string::npos);
}

}  // namespace
}  // namespace npu::axera::test
