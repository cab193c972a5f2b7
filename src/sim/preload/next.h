// The function of the same name that a program would have reached without this library: usually the C library's. Looked
// up once, at the first call.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace npu::sim::preload {

// A constant-initialised object, because a program's libraries may call before any constructor has run.
template <typename Function>
class Next {
  public:
    constexpr explicit Next(const char* name) : name_(name) {}

    template <typename... Arguments>
    auto operator()(Arguments... arguments) {
        void* found = found_.load(std::memory_order_relaxed);
        if (found == nullptr) {
            found = dlsym(RTLD_NEXT, name_);
            found_.store(found, std::memory_order_relaxed);
        }
        return reinterpret_cast<Function*>(found)(arguments...);
    }

  private:
    const char* name_;
    std::atomic<void*> found_{nullptr};
};

}  // namespace npu::sim::preload

// Marks a function that takes the place of the C library's. Its name must also stand in interposed.txt.
#define NPU_INTERPOSE extern "C" __attribute__((visibility("default")))
