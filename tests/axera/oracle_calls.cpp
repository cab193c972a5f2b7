#include "axera/oracle_calls.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace npu::axera::test {

namespace {

std::string code(axcl::Error error) { return format("0x%08x", static_cast<unsigned>(error)); }

std::string pointer(const char* text) { return text == nullptr ? "ptr=(null)" : std::string("ptr=") + text; }

// For the call that ends the process: the signal that ended a child of ours.
std::string in_child(const std::function<void()>& work) {
    const pid_t child = fork();
    if (child == 0) {
        std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it and exit
        work();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? format("SIGNAL %d", WTERMSIG(status)) : "returned";
}

}  // namespace

RowCalls oracle_calls(const axcl::Functions& f, const std::string& model) {
    static std::uint8_t memory[4096];
    static std::uint8_t other[4096];
    static void* handle;
    static std::uint64_t number;
    static std::int64_t usage[2];
    static int kind;
    static std::uint32_t set;
    static axcl::DeviceProperties properties;
    static void* host[2];
    const auto garbage = reinterpret_cast<void*>(std::uintptr_t{0x1230});
    const auto io = [](axcl::Error error) { return code(error); };
    RowCalls calls;
    const auto add = [&](const char* function, const char* arguments, std::function<std::string()> call) {
        calls[{function, arguments}] = std::move(call);
    };
#define ROW(function, arguments, ...) add(#function, arguments, [=, &f] { return io(f.function(__VA_ARGS__)); })
    ROW(axclInit, "NULL", nullptr);
    ROW(axclInit, "missing.json", "/nonexistent/missing.json");
    ROW(axclSetLogLevel, "99", 99);
    ROW(axclSetLogLevel, "6", 6);
    ROW(axclrtGetVersion, "NULL", nullptr, nullptr, nullptr);
    ROW(axclrtSetDevice, "-1", -1);
    ROW(axclrtSetDevice, "0", 0);
    ROW(axclrtResetDevice, "0", 0);
    ROW(axclrtResetDevice, "-1", -1);
    ROW(axclrtGetDevice, "NULL", nullptr);
    ROW(axclrtGetDeviceCount, "NULL", nullptr);
    ROW(axclrtGetDeviceList, "NULL", nullptr);
    ROW(axclrtGetDeviceProperties, "0,NULL", 0, nullptr);
    ROW(axclrtGetDeviceProperties, "0,buf", 0, &properties);
    ROW(axclrtGetDeviceProperties, "-1,buf", -1, &properties);
    ROW(axclrtSynchronizeDevice, "");
    ROW(axclrtRebootDevice, "0", 0);
    ROW(axclrtCreateContext, "NULL,0", nullptr, 0);
    ROW(axclrtCreateContext, "buf,0", &handle, 0);
    ROW(axclrtDestroyContext, "NULL", nullptr);
    add("axclrtDestroyContext", "garbage", [=, &f] { return in_child([&] { f.axclrtDestroyContext(garbage); }); });
    ROW(axclrtSetCurrentContext, "NULL", nullptr);
    ROW(axclrtSetCurrentContext, "garbage", garbage);
    ROW(axclrtGetCurrentContext, "NULL", nullptr);
    ROW(axclrtGetCurrentContext, "buf", &handle);
    ROW(axclrtMalloc, "NULL", nullptr, 4096, 0);
    ROW(axclrtMalloc, "size0", &handle, 0, 0);
    ROW(axclrtMalloc, "ok", &handle, 4096, 0);
    ROW(axclrtFree, "NULL", nullptr);
    ROW(axclrtFree, "garbage", garbage);
    ROW(axclrtMallocHost, "NULL", nullptr, 4096);
    ROW(axclrtMallocHost, "size0", &host[0], 0);
    ROW(axclrtMallocHost, "ok", &host[1], 4096);
    ROW(axclrtFreeHost, "NULL", nullptr);
    ROW(axclrtMemset, "NULL", nullptr, 1, 16);
    ROW(axclrtMemset, "buf", memory, 1, 16);
    ROW(axclrtMemset, "size0", memory, 1, 0);
    ROW(axclrtMemcpy, "NULL", nullptr, nullptr, 16, 1);
    ROW(axclrtMemcpy, "size0 H2D", memory, other, 0, 1);
    add("axclrtMemcpy", "H2H", [=, &f] {
        other[5] = 77;
        const std::string answer = io(f.axclrtMemcpy(memory, other, 16, 0));
        return memory[5] == 77 ? answer : answer + ", and nothing was copied";
    });
    ROW(axclrtMemcpy, "H2H size0", memory, other, 0, 0);
    ROW(axclrtMemcpy, "H2H NULL", nullptr, nullptr, 16, 0);
    ROW(axclrtMemcpy, "kind9", memory, other, 16, 9);
    ROW(axclrtMemcpy, "D2H", memory, other, 16, 2);
    ROW(axclrtMemcpy, "D2D", memory, other, 16, 3);
    ROW(axclrtMemcmp, "NULL", nullptr, nullptr, 16);
    ROW(axclrtMemcmp, "buf", memory, other, 16);
    ROW(axclrtMemFlush, "NULL", nullptr, 16);
    ROW(axclrtMemFlush, "buf", memory, 16);
    ROW(axclrtMemInvalidate, "buf", memory, 16);
    ROW(axclrtMemcpyAsync, "H2H", memory, other, 16, 0, nullptr);
    ROW(axclrtMemcpyAsync, "NULL", nullptr, nullptr, 16, 1, nullptr);
    ROW(axclrtCreateStream, "NULL", nullptr);
    ROW(axclrtCreateStream, "buf", &handle);
    ROW(axclrtDestroyStream, "NULL", nullptr);
    ROW(axclrtDestroyStreamForce, "NULL", nullptr);
    ROW(axclrtSynchronizeStream, "NULL", nullptr);
    ROW(axclrtSynchronizeStreamWithTimeout, "NULL,0", nullptr, 0);
    ROW(axclrtCreateEvent, "NULL", nullptr);
    ROW(axclrtCreateEvent, "buf", &handle);
    ROW(axclrtDestroyEvent, "NULL", nullptr);
    ROW(axclrtRecordEvent, "NULL", nullptr, nullptr);
    ROW(axclrtStreamWaitEvent, "NULL", nullptr, nullptr);
    ROW(axclrtEngineInit, "0", 0);
    ROW(axclrtEngineInit, "9", 9);
    ROW(axclrtEngineGetVNpuKind, "NULL", nullptr);
    ROW(axclrtEngineGetVNpuKind, "buf", &kind);
    ROW(axclrtEngineFinalize, "");
    ROW(axclrtEngineLoadFromFile, "NULL,buf", nullptr, &number);
    ROW(axclrtEngineLoadFromFile, "nofile,buf", "/nonexistent.axmodel", &number);
    ROW(axclrtEngineLoadFromFile, "real,buf", model.c_str(), &number);
    ROW(axclrtEngineLoadFromFile, "real,NULL", model.c_str(), nullptr);
    ROW(axclrtEngineLoadFromMem, "NULL", nullptr, 16, &number);
    ROW(axclrtEngineLoadFromMem, "buf,0", memory, 0, &number);
    ROW(axclrtEngineLoadFromMem, "buf,16", memory, 16, &number);
    ROW(axclrtEngineUnload, "0", 0);
    ROW(axclrtEngineUnload, "5", 5);
    add("axclrtEngineGetModelCompilerVersion", "5", [&f] { return pointer(f.axclrtEngineGetModelCompilerVersion(5)); });
    ROW(axclrtEngineSetAffinity, "5,1", 5, 1);
    ROW(axclrtEngineSetAffinity, "5,0", 5, 0);
    ROW(axclrtEngineGetAffinity, "5,NULL", 5, nullptr);
    ROW(axclrtEngineGetAffinity, "5,buf", 5, &set);
    ROW(axclrtEngineSetContextAffinity, "", 5, 5, 1);
    ROW(axclrtEngineGetContextAffinity, "", 5, 5, &set);
    ROW(axclrtEngineGetUsage, "NULL", nullptr, &usage[0], &usage[1]);
    ROW(axclrtEngineGetUsage, "nofile", "/nonexistent.axmodel", &usage[0], &usage[1]);
    ROW(axclrtEngineGetUsage, "real", model.c_str(), &usage[0], &usage[1]);
    ROW(axclrtEngineGetUsageFromMem, "buf", memory, 16, &usage[0], &usage[1]);
    ROW(axclrtEngineGetUsageFromModelId, "5", 5, &usage[0], &usage[1]);
    ROW(axclrtEngineGetModelType, "real", model.c_str(), &kind);
    ROW(axclrtEngineGetModelTypeFromMem, "buf", memory, 16, &kind);
    ROW(axclrtEngineGetModelTypeFromModelId, "5", 5, &kind);
    ROW(axclrtEngineGetIOInfo, "5,NULL", 5, nullptr);
    ROW(axclrtEngineGetIOInfo, "5,buf", 5, &handle);
    ROW(axclrtEngineDestroyIOInfo, "NULL", nullptr);
    static std::int32_t count;
    ROW(axclrtEngineGetShapeGroupsCount, "NULL,buf", nullptr, &count);
    add("axclrtEngineGetNumInputs", "NULL", [&f] { return format("u64=%u", f.axclrtEngineGetNumInputs(nullptr)); });
    add("axclrtEngineGetNumOutputs", "NULL", [&f] { return format("u64=%u", f.axclrtEngineGetNumOutputs(nullptr)); });
    add("axclrtEngineGetInputSizeByIndex", "NULL",
        [&f] { return format("u64=%lld", static_cast<long long>(f.axclrtEngineGetInputSizeByIndex(nullptr, 0, 0))); });
    add("axclrtEngineGetInputNameByIndex", "NULL",
        [&f] { return pointer(f.axclrtEngineGetInputNameByIndex(nullptr, 0)); });
    ROW(axclrtEngineGetInputIndexByName, "NULL", nullptr, "x");
    static axcl::Dims dims;
    ROW(axclrtEngineGetInputDims, "NULL", nullptr, 0, 0, &dims);
    ROW(axclrtEngineGetInputDataType, "NULL", nullptr, 0, &kind);
    ROW(axclrtEngineGetInputDataLayout, "NULL", nullptr, 0, &kind);
    ROW(axclrtEngineCreateIO, "NULL,buf", nullptr, &handle);
    ROW(axclrtEngineDestroyIO, "NULL", nullptr);
    static std::uint64_t size;
    ROW(axclrtEngineSetInputBufferByIndex, "NULL io", nullptr, 0, memory, 16);
    ROW(axclrtEngineGetInputBufferByIndex, "NULL io", nullptr, 0, &handle, &size);
    ROW(axclrtEngineSetInputBufferByName, "NULL io", nullptr, "x", memory, 16);
    ROW(axclrtEngineSetDynamicBatchSize, "NULL", nullptr, 1);
    ROW(axclrtEngineCreateContext, "5,NULL", 5, nullptr);
    ROW(axclrtEngineCreateContext, "5,buf", 5, &number);
    ROW(axclrtEngineExecute, "5,5,0,NULL", 5, 5, 0, nullptr);
    ROW(axclrtEngineExecute, "5,5,0,garbage", 5, 5, 0, garbage);
    ROW(axclrtEngineExecuteAsync, "NULL", 5, 5, 0, nullptr, nullptr);
    ROW(axclFinalize, "");
#undef ROW
    return calls;
}

}  // namespace npu::axera::test
