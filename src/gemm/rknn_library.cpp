#include "gemm/rknn_library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "base/log.h"

namespace npu::gemm::rknn {

namespace {

const char* meaning(std::int32_t status) {
    switch (static_cast<Status>(status)) {
        case Status::ok: return "success";
        case Status::failed: return "failure; the library printed why";
        case Status::timed_out: return "timeout";
        case Status::device_unavailable: return "the device is not available";
        case Status::allocation_failed: return "out of memory";
        case Status::invalid_parameter: return "a parameter is invalid";
        case Status::invalid_model: return "invalid model";
        case Status::invalid_context: return "invalid context";
        case Status::invalid_input: return "invalid input";
        case Status::invalid_output: return "invalid output";
        case Status::device_mismatch: return "the device does not match";
        case Status::precompiled_mismatch: return "the pre-compiled model does not match";
        case Status::optimisation_mismatch: return "the optimisation level does not match";
        case Status::platform_mismatch: return "the target platform does not match";
    }
    return "a status that no release documents";
}

ErrorCode error_code(std::int32_t status) {
    switch (static_cast<Status>(status)) {
        case Status::timed_out: return ErrorCode::timeout;
        case Status::allocation_failed: return ErrorCode::out_of_memory;
        default: return ErrorCode::device_failure;
    }
}

template <typename Function>
bool find(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
    return function != nullptr;
}

// Fills in the functions; returns the name of a required one that is missing, or nullptr.
const char* find_functions(void* library, Functions& functions) {
#define NPU_RKNN_REQUIRE(symbol)                     \
    if (!find(library, #symbol, functions.symbol)) { \
        return #symbol;                              \
    }
    NPU_RKNN_REQUIRE(rknn_matmul_create)
    NPU_RKNN_REQUIRE(rknn_matmul_set_io_mem)
    NPU_RKNN_REQUIRE(rknn_matmul_run)
    NPU_RKNN_REQUIRE(rknn_matmul_destroy)
    NPU_RKNN_REQUIRE(rknn_create_mem)
    NPU_RKNN_REQUIRE(rknn_destroy_mem)
    NPU_RKNN_REQUIRE(rknn_mem_sync)
    NPU_RKNN_REQUIRE(rknn_query)
#undef NPU_RKNN_REQUIRE
    find(library, "rknn_matmul_set_core_mask", functions.rknn_matmul_set_core_mask);
    functions.has_create_mem2 = dlsym(library, "rknn_create_mem2") != nullptr;
    functions.has_create_dynamic_shape = dlsym(library, "rknn_matmul_create_dynamic_shape") != nullptr;
    return nullptr;
}

// A product that every chip of the family has, for contexts that never run: without one, nothing can be asked for the
// version and no memory made.
constexpr MatmulShape smallest_shape{32, 32, 32, MatmulType::fp16_fp16_fp32};

// The library's copy may lack its final zero.
std::string text_of(const char (&field)[256]) { return {field, strnlen(field, sizeof field)}; }

}  // namespace

std::string describe_status(std::int32_t status) { return format("%d, %s", status, meaning(status)); }

Result<Version> parse_version(const std::string& text) {
    Version version;
    version.text = text;
    if (std::sscanf(text.c_str(), "%4d.%4d.%4d", &version.major, &version.minor, &version.patch) < 2 ||
        version.major < 0 || version.minor < 0) {
        return make_error(ErrorCode::unsupported,
                          "librknnrt reports the version '%s', which does not begin with numbers as in 2.3.2: use a "
                          "release from 1.6 or 2.0 to 2.3",
                          text.c_str());
    }
    return version;
}

Result<void> check_version(const Version& version, const Functions& functions) {
    const bool known =
        (version.major == 1 && version.minor == 6) || (version.major == 2 && version.minor >= 0 && version.minor <= 3);
    if (!known) {
        return make_error(ErrorCode::unsupported,
                          "librknnrt %s has an interface that is not known: install a release from 1.6 or 2.0 to 2.3 "
                          "(2.3.2 is best), or use the native engine",
                          version.text.c_str());
    }
    const char* lacking = version.major >= 2 && !functions.has_create_mem2 ? "rknn_create_mem2"
                          : version.major == 2 && version.minor >= 1 && !functions.has_create_dynamic_shape
                              ? "rknn_matmul_create_dynamic_shape"
                              : nullptr;
    if (lacking != nullptr) {
        return make_error(ErrorCode::unsupported,
                          "librknnrt reports version %s but does not export %s, which that release has: install an "
                          "unmodified release",
                          version.text.c_str(), lacking);
    }
    return {};
}

Result<std::shared_ptr<const Library>> Library::open(const std::string& name) {
    const std::string file = name.empty() ? "librknnrt.so" : name;
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* reason = dlerror();
        return make_error(ErrorCode::not_found,
                          "cannot load Rockchip's matmul library '%s': %s. Install librknnrt.so (2.3.2 is best) where "
                          "the linker finds it or give its path",
                          file.c_str(), reason != nullptr ? reason : "no reason given");
    }
    std::shared_ptr<Library> library(new Library(file, handle));
    if (const char* missing = find_functions(handle, library->functions_); missing != nullptr) {
        return make_error(ErrorCode::not_found,
                          "'%s' does not export %s: it is not librknnrt, or a release before 1.6. Install a release "
                          "from 1.6 or 2.0 to 2.3",
                          file.c_str(), missing);
    }
    return std::shared_ptr<const Library>(std::move(library));
}

Library::~Library() { dlclose(handle_); }

Result<Context> Context::create(std::shared_ptr<const Library> library, const MatmulShape& shape,
                                std::uint32_t domain) {
    constexpr auto native = static_cast<std::int16_t>(Layout::native);
    const auto m = static_cast<std::int32_t>(shape.m);
    const auto k = static_cast<std::int32_t>(shape.k);
    const auto n = static_cast<std::int32_t>(shape.n);
    const auto type = static_cast<std::int32_t>(shape.type);
    MatmulInfo info{m, k, n, type, native, 0, native, 0, static_cast<std::int32_t>(domain), 0, {}};
    MatmulInfo16 info16{m, k, n, type, native, native};
    const Functions& functions = library->functions();
    void* const release_info = functions.has_create_mem2 ? static_cast<void*>(&info) : &info16;

    // A release that the gate will refuse may describe tensors in more bytes than those that are known.
    struct {
        MatmulAttributes attributes;
        std::byte slack[4096];
    } answer{};
    Context context(std::move(library), shape);
    const std::int32_t status = functions.rknn_matmul_create(&context.id_, release_info, &answer.attributes);
    if (status != 0) {
        context.id_ = 0;  // what it holds after a failure is not ours to destroy
        return make_error(error_code(status),
                          "librknnrt refused a matmul of type %d, M %d, N %d, K %d (%s): when descriptors or address "
                          "space are exhausted, raise `ulimit -n` or use fewer weights",
                          type, m, n, k, describe_status(status).c_str());
    }
    if (context.id_ == 0) {
        return make_error(ErrorCode::device_failure,
                          "librknnrt reported success for a matmul of type %d, M %d, N %d, K %d but gave no context",
                          type, m, n, k);
    }
    context.attributes_ = answer.attributes;
    return context;
}

Context::Context(Context&& other) noexcept
    : library_(std::move(other.library_)),
      shape_(other.shape_),
      id_(std::exchange(other.id_, 0)),
      attributes_(other.attributes_) {}

Context& Context::operator=(Context&& other) noexcept {
    if (this != &other) {
        destroy();
        library_ = std::move(other.library_);
        shape_ = other.shape_;
        id_ = std::exchange(other.id_, 0);
        attributes_ = other.attributes_;
    }
    return *this;
}

Context::~Context() { destroy(); }

void Context::destroy() {
    if (id_ == 0) {
        return;
    }
    if (const std::int32_t status = library_->functions().rknn_matmul_destroy(id_); status != 0) {
        log(LogLevel::warning, "librknnrt did not destroy a context (%s)", describe_status(status).c_str());
    }
    id_ = 0;
}

Result<void> Context::set_core(std::uint32_t core) {
    const auto set_core_mask = library_->functions().rknn_matmul_set_core_mask;
    if (set_core_mask == nullptr) {
        return make_error(ErrorCode::unsupported, "librknnrt has no rknn_matmul_set_core_mask: it chooses the core");
    }
    if (const std::int32_t status = set_core_mask(id_, first_core_mask << core); status != 0) {
        return make_error(ErrorCode::unsupported, "librknnrt does not run a matmul on core %u (%s)", core,
                          describe_status(status).c_str());
    }
    return {};
}

Result<void> Context::bind(const char* matrix, TensorMemory* memory, TensorAttribute& attribute) {
    const std::int32_t status = library_->functions().rknn_matmul_set_io_mem(id_, memory, &attribute);
    if (status != 0) {
        return make_error(
            error_code(status),
            "librknnrt did not take %u bytes of memory for matrix %s of a matmul of M %u, N %u, K %u (%s)",
            memory->size, matrix, shape_.m, shape_.n, shape_.k, describe_status(status).c_str());
    }
    return {};
}

Result<void> Context::bind(TensorMemory* a, TensorMemory* b, TensorMemory* c) {
    NPU_TRY(bind("A", a, attributes_.a));
    NPU_TRY(bind("B", b, attributes_.b));
    return bind("C", c, attributes_.c);
}

Result<void> Context::run() {
    if (const std::int32_t status = library_->functions().rknn_matmul_run(id_); status != 0) {
        return make_error(error_code(status), "librknnrt failed to run a matmul of type %d, M %u, N %u, K %u (%s)",
                          static_cast<int>(shape_.type), shape_.m, shape_.n, shape_.k, describe_status(status).c_str());
    }
    return {};
}

Result<std::shared_ptr<const Session>> Session::open(const std::string& library_name) {
    NPU_ASSIGN(std::shared_ptr<const Library> library, Library::open(library_name));
    NPU_ASSIGN(Context owner, Context::create(library, smallest_shape));
    std::shared_ptr<Session> session(new Session(library, std::move(owner), 0));
    SdkVersion answer{};
    const std::int32_t status =
        library->functions().rknn_query(session->owner_.id(), query_sdk_version, &answer, sizeof answer);
    if (status != 0) {
        return make_error(ErrorCode::unsupported, "'%s' does not tell its version (%s): it cannot be used safely",
                          library->name().c_str(), describe_status(status).c_str());
    }
    NPU_ASSIGN(session->version_, parse_version(text_of(answer.library)));
    NPU_TRY(check_version(session->version_, library->functions()));
    session->driver_ = text_of(answer.driver);
    log(LogLevel::info, "librknnrt %s, driver %s", session->version_.text.c_str(), session->driver_.c_str());
    return std::shared_ptr<const Session>(std::move(session));
}

Result<std::shared_ptr<const Session>> Session::open_domain(std::uint32_t domain) const {
    if (!library_->functions().has_create_mem2 || domain > 15) {
        return make_error(ErrorCode::unsupported, "librknnrt %s has %s; domain %u was asked for", version_.text.c_str(),
                          library_->functions().has_create_mem2 ? "domains 0 to 15" : "one domain", domain);
    }
    NPU_ASSIGN(Context owner, Context::create(library_, smallest_shape, domain));
    std::shared_ptr<Session> session(new Session(library_, std::move(owner), domain));
    session->version_ = version_;
    session->driver_ = driver_;
    return std::shared_ptr<const Session>(std::move(session));
}

Result<Memory> Session::allocate(std::size_t bytes) const {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    if (bytes == 0 || bytes > most) {
        return make_error(ErrorCode::invalid_argument, "librknnrt allocates 1 to %zu bytes at once; %zu were asked for",
                          most, bytes);
    }
    TensorMemory* handle = library_->functions().rknn_create_mem(owner_.id(), static_cast<std::uint32_t>(bytes));
    Memory memory;
    memory.session_ = shared_from_this();
    memory.handle_ = handle;
    memory.bytes_ = bytes;
    if (handle == nullptr || handle->address == nullptr || handle->size < bytes) {
        return make_error(ErrorCode::out_of_memory,
                          "librknnrt did not allocate %zu bytes: about 2 GiB of one domain are usable, and each memory "
                          "takes a file descriptor. Keep fewer weights on the NPU or raise `ulimit -n`",
                          bytes);
    }
    return memory;
}

Memory::Memory(Memory&& other) noexcept
    : session_(std::move(other.session_)),
      handle_(std::exchange(other.handle_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    if (this != &other) {
        destroy();
        session_ = std::move(other.session_);
        handle_ = std::exchange(other.handle_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

Memory::~Memory() { destroy(); }

void Memory::destroy() {
    if (handle_ == nullptr) {
        return;
    }
    const Functions& functions = session_->library_->functions();
    if (const std::int32_t status = functions.rknn_destroy_mem(session_->owner_.id(), handle_); status != 0) {
        log(LogLevel::warning, "librknnrt did not free %zu bytes (%s)", bytes_, describe_status(status).c_str());
    }
    handle_ = nullptr;
}

Result<void> Memory::synchronise(Sync direction) const {
    const Functions& functions = session_->library_->functions();
    const std::int32_t status =
        functions.rknn_mem_sync(session_->owner_.id(), handle_, static_cast<std::int32_t>(direction));
    if (status != 0) {
        return make_error(error_code(status), "librknnrt did not synchronise %zu bytes (%s)", bytes_,
                          describe_status(status).c_str());
    }
    return {};
}

}  // namespace npu::gemm::rknn
