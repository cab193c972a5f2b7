// The gate before the engine over librknnrt: which libraries are let in, what the others are told, and that the fake that
// all this is tested with agrees with itself.
#include "gemm/rknn_library.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "support.h"

namespace npu::gemm {
namespace {

// Before anything raises it.
const bool limit_lowered = [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}();

Result<std::unique_ptr<RknnEngine>> open(const std::string& library) {
    RknnOptions options;
    options.library = library;
    return RknnEngine::open(options);
}

void expect_error(const Result<std::unique_ptr<RknnEngine>>& result, ErrorCode code, const std::string& part) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(RknnLibrary, AMissingLibraryIsNamed) {
    expect_error(open("/nowhere/librknnrt.so"), ErrorCode::not_found, "/nowhere/librknnrt.so");
}

TEST(RknnLibrary, AMissingSymbolIsNamed) {
    expect_error(open(fake_path("incomplete")), ErrorCode::not_found, "rknn_matmul_run");
    expect_error(open("libm.so.6"), ErrorCode::not_found, "rknn_matmul_create");
}

TEST(RknnLibrary, ReleasesWithADescribedInterfaceAreLetIn) {
    for (const auto& [folder, version] : {std::pair{"1.6", "1.6.0"}, std::pair{"2.0", "2.0.0b0 (35a6907d79)"},
                                          std::pair{"2.3", "2.1.0 (708089eabb@2024-08-07)"}, std::pair{"2.3", "2.2"},
                                          std::pair{"2.3", "2.3.2 (429f97ae6b@2025-04-09T09:09:27)"}}) {
        const FakeSetting scope("FAKE_RKNN_VERSION", version);
        const auto engine = open(fake_path(folder));
        ASSERT_TRUE(engine) << engine.error().message;
        EXPECT_EQ((*engine)->version().text, version);
        EXPECT_EQ((*engine)->driver(), "0.9.8");
    }
}

TEST(RknnLibrary, OtherReleasesAreRefused) {
    const FakeLibrary library("2.3");
    for (const char* version : {"9.9.0", "1.5.2", "1.7.0", "2.4.0", "0.9.8", "-2.3.0", "trunk", ""}) {
        const FakeSetting scope("FAKE_RKNN_VERSION", version);
        expect_error(open(fake_path("2.3")), ErrorCode::unsupported, version);
        EXPECT_EQ(library.contexts(), 0);
    }
    const Faults scope("query");
    expect_error(open(fake_path("2.3")), ErrorCode::unsupported, "version");
}

TEST(RknnLibrary, AVersionThatItsSymbolsContradictIsRefused) {
    const FakeSetting scope("FAKE_RKNN_VERSION", "2.3.2");
    expect_error(open(fake_path("1.6")), ErrorCode::unsupported, "rknn_create_mem2");
    expect_error(open(fake_path("2.0")), ErrorCode::unsupported, "rknn_matmul_create_dynamic_shape");
    EXPECT_TRUE(open(fake_path("2.3")));
}

TEST(RknnLibrary, AnotherChipsBlocksAreRefused) {
    const Faults scope("other-block");
    const auto engine = open(fake_path("2.3"));
    ASSERT_TRUE(engine) << engine.error().message;
    const auto usable = (*engine)->check_pipeline(Pipeline::int8);
    ASSERT_FALSE(usable);
    EXPECT_NE(usable.error().message.find("16 x 32"), std::string::npos) << usable.error().message;
}

TEST(RknnLibrary, FailuresWhileOpeningAreErrors) {
    const FakeLibrary library("2.3");
    for (const char* faults : {"create", "create-null"}) {
        const Faults scope(faults);
        expect_error(open(fake_path("2.3")), ErrorCode::device_failure, "librknnrt");
    }
    for (const char* faults : {"run", "sync", "memory-after=0", "null-address"}) {
        const Faults scope(faults);
        const auto engine = open(fake_path("2.3"));
        ASSERT_TRUE(engine) << engine.error().message;
        EXPECT_FALSE((*engine)->check_pipeline(Pipeline::fp16)) << faults;
        EXPECT_FALSE((*engine)->check_pipeline(Pipeline::int8)) << faults;
    }
    EXPECT_EQ(library.contexts(), 0);
    EXPECT_EQ(library.memories(), 0);
    EXPECT_EQ(library.violation(), "");
}

TEST(RknnLibrary, TypesAreTriedOnceAndFoundRight) {
    for (const char* folder : {"1.6", "2.0", "2.3"}) {
        const auto engine = open(fake_path(folder));
        ASSERT_TRUE(engine) << engine.error().message;
        for (const rknn::ProbedType& type : (*engine)->types()) {
            const bool exists = type.type->since_1_6 || std::string(folder) != "1.6";
            EXPECT_EQ(type.runs, exists) << type.type->name << ": " << type.reason;
        }
        EXPECT_EQ((*engine)->types().size(), 4U);
    }
}

TEST(RknnLibrary, TheLimitOfOpenFilesIsRaisedToTheHardOne) {
    ASSERT_TRUE(limit_lowered);
    ASSERT_TRUE(open(fake_path("2.3")));
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
    EXPECT_GT(limit.rlim_max, 64U);
}

TEST(RknnLibrary, StatusesAreExplained) {
    EXPECT_EQ(rknn::describe_status(-4), "-4, out of memory");
    EXPECT_NE(rknn::describe_status(-77).find("no release documents"), std::string::npos);
}

// Through the bare interface, with every matrix in the host's order: the fake's normal layouts give the same sums.
TEST(RknnLibrary, TheFakeMultipliesInNormalLayout) {
    const auto library = rknn::Library::open(fake_path("2.3"));
    ASSERT_TRUE(library) << library.error().message;
    const rknn::Functions& call = (*library)->functions();
    constexpr int m = 3;
    constexpr int k = 64;
    constexpr int n = 64;
    rknn::MatmulInfo info{m, k, n, 2, 0, 0, 0, 0, 0, 0, {}};
    rknn::MatmulAttributes attributes{};
    rknn::ContextId context = 0;
    ASSERT_EQ(call.rknn_matmul_create(&context, &info, &attributes), 0);
    rknn::TensorAttribute* matrices[] = {&attributes.a, &attributes.b, &attributes.c};
    rknn::TensorMemory* memories[3];
    for (int i = 0; i < 3; ++i) {
        memories[i] = call.rknn_create_mem(context, matrices[i]->size);
        ASSERT_NE(memories[i], nullptr);
        ASSERT_EQ(call.rknn_matmul_set_io_mem(context, memories[i], matrices[i]), 0);
    }
    auto* a = static_cast<std::int8_t*>(memories[0]->address);
    auto* b = static_cast<std::int8_t*>(memories[1]->address);
    for (int i = 0; i < m * k; ++i) {
        a[i] = static_cast<std::int8_t>(i * 89 % 256 - 128);
    }
    for (int i = 0; i < k * n; ++i) {
        b[i] = static_cast<std::int8_t>(i * 57 % 251 - 125);
    }
    ASSERT_EQ(call.rknn_mem_sync(context, memories[0], 1), 0);
    ASSERT_EQ(call.rknn_mem_sync(context, memories[1], 1), 0);
    ASSERT_EQ(call.rknn_matmul_run(context), 0);
    ASSERT_EQ(call.rknn_mem_sync(context, memories[2], 2), 0);
    const auto* c = static_cast<const std::int32_t*>(memories[2]->address);
    for (int row = 0; row < m; ++row) {
        for (int column = 0; column < n; ++column) {
            int sum = 0;
            for (int i = 0; i < k; ++i) {
                sum += a[row * k + i] * b[i * n + column];
            }
            ASSERT_EQ(c[row * n + column], sum) << row << ", " << column;
        }
    }
    for (rknn::TensorMemory* memory : memories) {
        EXPECT_EQ(call.rknn_destroy_mem(context, memory), 0);
    }
    EXPECT_EQ(call.rknn_matmul_destroy(context), 0);
}

// The fake's own checks: a client that makes the mistakes that crash the original is told.
TEST(RknnLibrary, TheFakeNoticesMistakes) {
    const FakeLibrary fake("2.3");
    const auto library = rknn::Library::open(fake_path("2.3"));
    ASSERT_TRUE(library) << library.error().message;
    const rknn::Functions& call = (*library)->functions();
    rknn::MatmulInfo info{2, 32, 32, 2, 1, 0, 1, 0, 0, 0, {}};
    rknn::MatmulAttributes attributes{};
    rknn::ContextId context = 0;
    ASSERT_EQ(call.rknn_matmul_create(&context, &info, &attributes), 0);
    EXPECT_EQ(fake.violation(), "");
    EXPECT_NE(call.rknn_matmul_run(context), 0);
    EXPECT_NE(fake.violation(), "");
    rknn::TensorMemory* memory = call.rknn_create_mem(context, 63);
    EXPECT_NE(call.rknn_matmul_set_io_mem(context, memory, &attributes.a), 0);
    EXPECT_NE(fake.violation(), "");
    EXPECT_NE(call.rknn_matmul_run(context + 1), 0);
    EXPECT_NE(fake.violation(), "");
    char answer[8];
    EXPECT_NE(call.rknn_query(context, rknn::query_sdk_version, answer, sizeof answer), 0);
    EXPECT_NE(fake.violation(), "");
    EXPECT_EQ(call.rknn_destroy_mem(context, memory), 0);
    memory = call.rknn_create_mem(context, 64);
    EXPECT_EQ(call.rknn_matmul_destroy(context), 0);
    EXPECT_NE(fake.violation(), "");
    info.k = 33;
    EXPECT_NE(call.rknn_matmul_create(&context, &info, &attributes), 0);
}

}  // namespace
}  // namespace npu::gemm
