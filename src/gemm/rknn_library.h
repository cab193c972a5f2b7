// Rockchip's librknnrt.so, opened while the program runs: never linked, so that the same plugin works where the library is
// missing, old, or new. What it is shows in two ways, and both have to agree. Which symbols it exports says which release
// series its interface belongs to (rknn_create_mem2 came with 2.0, rknn_matmul_create_dynamic_shape with 2.1); the
// version that it reports, which takes a context to ask for, says which release it is. Releases whose interface is
// described in rknn_abi.h are let in (1.6 and 2.0 to 2.3), all others refused: a struct that is read at the wrong offset
// gives wrong numbers or a crash, not an error.
//
// Handles own what the library gave: a context is destroyed and a memory freed when its handle goes. A session is the
// library, its version, and one small context that owns all memory of an IOMMU domain, because memory must not outlive the
// context that made it. Memories made by one context are bound to others of the same domain; programs in the field do so
// with activations and results.
//
// Errors: not_found for a missing library or symbol, unsupported for a refused release, device_failure and out_of_memory
// for what the library reports. The library prints its own messages on stdout and stderr; its functions give a number only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "gemm/rknn_abi.h"

namespace npu::gemm::rknn {

// What a status means, for people: "-4, out of memory". Any number.
std::string describe_status(std::int32_t status);

struct Version {
    int major = 0;
    int minor = 0;
    int patch = 0;
    std::string text;  // as the library reports it
};

// The three numbers at the start of "2.3.2 (429f97ae6b@2025-04-09)". A patch number may be missing.
Result<Version> parse_version(const std::string& text);

// Whether this release, with these symbols, has the interface of rknn_abi.h. Error `unsupported` if not.
Result<void> check_version(const Version& version, const Functions& functions);

// The open library; closed with the last reference.
class Library {
  public:
    // `name` is a path, or a file name that the dynamic linker looks for; empty: librknnrt.so.
    static Result<std::shared_ptr<const Library>> open(const std::string& name);
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    [[nodiscard]] const Functions& functions() const { return functions_; }
    [[nodiscard]] const std::string& name() const { return name_; }

  private:
    Library(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}

    std::string name_;
    void* handle_;
    Functions functions_{};
};

// A product of fixed shape. In rows, output channels and input channels, as everywhere; every layout native.
struct MatmulShape {
    std::uint32_t m = 0;
    std::uint32_t n = 0;  // whole kernel groups
    std::uint32_t k = 0;  // whole channel blocks
    MatmulType type = MatmulType::fp16_fp16_fp32;
    friend bool operator==(const MatmulShape&, const MatmulShape&) = default;
};

// A matmul context; movable. Calls on one context must not overlap; those on different ones may.
class Context {
  public:
    // Releases before 2.0 know domain 0 only.
    static Result<Context> create(std::shared_ptr<const Library> library, const MatmulShape& shape,
                                  std::uint32_t domain = 0);
    Context(Context&& other) noexcept;
    Context& operator=(Context&& other) noexcept;
    ~Context();

    [[nodiscard]] ContextId id() const { return id_; }
    [[nodiscard]] const MatmulAttributes& attributes() const { return attributes_; }
    [[nodiscard]] const MatmulShape& shape() const { return shape_; }

    // Lets the context run on this core only. Error `unsupported` where the library or the chip has no choice of cores.
    Result<void> set_core(std::uint32_t core);

    Result<void> bind(TensorMemory* a, TensorMemory* b, TensorMemory* c);
    Result<void> run();  // blocks, without a deadline: the library has none

  private:
    Context(std::shared_ptr<const Library> library, const MatmulShape& shape)
        : library_(std::move(library)), shape_(shape) {}
    Result<void> bind(const char* matrix, TensorMemory* memory, TensorAttribute& attribute);
    void destroy();

    std::shared_ptr<const Library> library_;
    MatmulShape shape_;
    ContextId id_ = 0;
    MatmulAttributes attributes_{};
};

class Memory;

// A library that passed the gate, and the context that owns all memory. Immutable after `open`; thread-safe.
class Session : public std::enable_shared_from_this<Session> {
  public:
    static Result<std::shared_ptr<const Session>> open(const std::string& library_name);

    // Another domain of the same library.
    [[nodiscard]] Result<std::shared_ptr<const Session>> open_domain(std::uint32_t domain) const;

    [[nodiscard]] Result<Context> create_context(const MatmulShape& shape) const {
        return Context::create(library_, shape, domain_);
    }

    [[nodiscard]] std::uint32_t domain() const { return domain_; }
    [[nodiscard]] const std::shared_ptr<const Library>& library() const { return library_; }
    [[nodiscard]] const Version& version() const { return version_; }
    [[nodiscard]] const std::string& driver() const { return driver_; }  // as the library reports it

    // Memory of at least one byte, not initialised.
    [[nodiscard]] Result<Memory> allocate(std::size_t bytes) const;

  private:
    friend class Memory;
    Session(std::shared_ptr<const Library> library, Context owner, std::uint32_t domain)
        : library_(std::move(library)), owner_(std::move(owner)), domain_(domain) {}

    std::shared_ptr<const Library> library_;
    Context owner_;
    std::uint32_t domain_;
    Version version_;
    std::string driver_;
};

// Device memory, mapped for the host; movable. Keeps its session alive.
class Memory {
  public:
    Memory() = default;  // none
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;
    ~Memory();

    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(handle_->address); }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] TensorMemory* handle() const { return handle_; }

    // Hands the memory to the device after the host wrote it, or to the host after the device did.
    [[nodiscard]] Result<void> synchronise(Sync direction) const;

  private:
    friend class Session;
    void destroy();

    std::shared_ptr<const Session> session_;
    TensorMemory* handle_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace npu::gemm::rknn
