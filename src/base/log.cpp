#include "base/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace npu {

namespace {

std::atomic<LogSink> sink{nullptr};

void write_to_stderr(LogLevel level, const char* line) {
    if (level >= LogLevel::warning) {
        std::fprintf(stderr, "ggml-npu: %s\n", line);
    }
}

}  // namespace

void set_log_sink(LogSink new_sink) { sink.store(new_sink); }

void log(LogLevel level, const char* pattern, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(line, sizeof line, pattern, arguments);
    va_end(arguments);
    const LogSink current = sink.load();
    (current != nullptr ? current : write_to_stderr)(level, line);
}

}  // namespace npu
