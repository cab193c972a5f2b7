// One line of text for people, with a level. The library never writes to a stream by itself: whoever hosts it
// (the plugin, the command, a test) installs a sink. Without a sink, warnings and errors go to stderr.
#pragma once

namespace npu {

enum class LogLevel { debug, info, warning, error };

using LogSink = void (*)(LogLevel level, const char* line);

// Installs the sink for the whole process; nullptr restores stderr. The line has no trailing newline.
// Thread-safe.
void set_log_sink(LogSink sink);

[[gnu::format(printf, 2, 3)]] void log(LogLevel level, const char* pattern, ...);

}  // namespace npu
