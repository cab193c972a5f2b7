#include "axera/axcl_library.h"

#include <dlfcn.h>

namespace npu::axera::axcl {

namespace {

constexpr const char* plain_name = "libaxcl_rt.so";
constexpr bool required = true;
constexpr bool optional = false;

std::vector<std::string> places_of(const std::string& path) {
    if (!path.empty() && path != plain_name) {
        return {path};
    }
    return {plain_name, "/usr/lib/axcl/libaxcl_rt.so", "libaxcl_rt.so.1.0", "/usr/lib/axcl/libaxcl_rt.so.1.0",
            "/usr/lib/aarch64-linux-gnu/libaxcl_rt.so"};
}

// The names of required functions that are missing, by comma.
std::string missing_in(const Functions& functions) {
    std::string missing;
#define AXCL_FUNCTION(need, result, name, parameters, arguments)       \
    if ((need) && functions.name == nullptr) {                         \
        missing += (missing.empty() ? "" : ", ") + std::string(#name); \
    }
#include "axera/axcl_functions.def"
#undef AXCL_FUNCTION
    return missing;
}

}  // namespace

const std::vector<FunctionInfo>& function_list() {
    static const std::vector<FunctionInfo> list{
#define AXCL_FUNCTION(need, result, name, parameters, arguments) {#name, need},
#include "axera/axcl_functions.def"
#undef AXCL_FUNCTION
    };
    return list;
}

Result<std::shared_ptr<const Library>> Library::open(const std::string& path) {
    std::string tried;
    for (const std::string& place : places_of(path)) {
        void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            const char* reason = dlerror();
            tried += format("\n  %s: %s", place.c_str(), reason != nullptr ? reason : "unknown reason");
            continue;
        }
        Functions functions;
#define AXCL_FUNCTION(need, result, name, parameters, arguments) \
    functions.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name));
#include "axera/axcl_functions.def"
#undef AXCL_FUNCTION
        return of(functions, place);
    }
    return make_error(ErrorCode::not_found,
                      "the AXCL runtime was not found; install the vendor's axcl package or name the library "
                      "(GGML_NPU_AXERA_LIBRARY). Tried:%s",
                      tried.c_str());
}

Result<std::shared_ptr<const Library>> Library::of(const Functions& functions, std::string name) {
    if (const std::string missing = missing_in(functions); !missing.empty()) {
        return make_error(ErrorCode::unsupported, "%s is not an AXCL runtime that can be used: it lacks %s",
                          name.c_str(), missing.c_str());
    }
    auto library = std::make_shared<Library>();
    library->functions_ = functions;
    library->path_ = std::move(name);
    return std::shared_ptr<const Library>(std::move(library));
}

std::string Library::version() const {
    if (functions_.axclrtGetFullVersion != nullptr) {
        if (const char* text = functions_.axclrtGetFullVersion(); text != nullptr && *text != '\0') {
            return text;
        }
    }
    std::int32_t major = 0;
    std::int32_t minor = 0;
    std::int32_t patch = 0;
    if (functions_.axclrtGetVersion != nullptr && functions_.axclrtGetVersion(&major, &minor, &patch) == 0) {
        return format("%d.%d.%d", major, minor, patch);
    }
    return "unknown version";
}

}  // namespace npu::axera::axcl
