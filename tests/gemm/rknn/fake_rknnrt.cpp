// A librknnrt.so of ours, so that the engine over the vendor's library is tested where neither the library nor the chip is.
// It answers the calls of the matmul interface as the published facts describe RK3588, and is stricter than the original:
// what crashes or silently corrupts there is a violation here, kept for the test to read.
//
// It is built once per release (FAKE_RKNN_RELEASE 16, 20 or 23), because which symbols exist is part of the interface.
// Descriptions of structs and layouts are its own, not those of src/gemm, so that the two can disagree.
//
// Host and device see different bytes of a memory until it is synchronised.
//
// Environment: FAKE_RKNN_VERSION and FAKE_RKNN_DRIVER are what the query reports. FAKE_RKNN_FAULTS is a list by comma:
//   create, create-null, run, bind, sync, query   the call fails (create-null: succeeds without a context)
//   run-after=N                                   runs fail after the first N of the process
//   memory-after=N                                allocations fail when N memories live
//   null-address                                  memories have no address
//   type=T                                        type T is refused
//   zeros=T                                       products of type T are zeros
//   cores=N                                       contexts can be tied to the first N cores only
//   other-block                                   B comes in blocks of another chip
// With FAKE_RKNN_MACHINE, native products of types 1 and 2 are computed by the simulated NPU, not by loops.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_machine.h"
#include "fake_products.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

using namespace fake;

namespace {

struct Mem {
    void* virt_addr;
    std::uint64_t phys_addr;
    std::int32_t fd;
    std::int32_t offset;
    std::uint32_t size;
    std::uint32_t flags;
    void* priv_data;
};
static_assert(sizeof(Mem) == 40);

struct Attr {
    char name[256];
    std::uint32_t n_dims;
    std::uint32_t dims[16];
    std::uint32_t size;
    std::int32_t type;
};
static_assert(sizeof(Attr) == 332);

struct IoAttr {
    Attr matrix[3];
};
static_assert(sizeof(IoAttr) == 996);

// What a caller of the release passes, read from its bytes.
Info read_info(const void* from) {
    // The whole struct is copied, so that AddressSanitizer sees a caller that passes a shorter one.
    std::int32_t words[FAKE_RKNN_RELEASE == 16 ? 6 : 16];
    std::memcpy(words, from, sizeof words);
    Info info{words[0], words[1], words[2], words[3], 0, 0, 0, 0, 0};
#if FAKE_RKNN_RELEASE == 16
    info.b_layout = words[4];
    info.ac_layout = words[5];
#else
    std::int16_t halves[4];
    std::memcpy(halves, &words[4], sizeof halves);
    info.b_layout = halves[0];
    info.b_quant = halves[1];
    info.ac_layout = halves[2];
    info.ac_quant = halves[3];
    info.domain = words[6];
#endif
    return info;
}

struct Memory {
    Mem mem{};
    std::uint64_t owner = 0;
    int domain = 0;
    std::unique_ptr<std::uint8_t[]> host;
    std::vector<std::uint8_t> device;
};

struct Context {
    Info info{};
    const Type* type = nullptr;
    IoAttr attr{};
    std::shared_ptr<Memory> bound[3];
    std::atomic<bool> running{false};
};

std::mutex mutex;
std::map<std::uint64_t, std::shared_ptr<Context>> contexts;
std::map<Mem*, std::shared_ptr<Memory>> memories;
std::uint64_t next_context = 0x1000;
int peak_contexts = 0;
std::atomic<int> machine_runs = 0;
int runs = 0;  // counted with the fault run-after only
std::string first_violation;

int violation(const std::string& text) {
    if (first_violation.empty()) {
        first_violation = text;
    }
    return -5;
}

// Value of `name=value` in the list of faults, 0 for a bare `name`, -1 when it is not there.
int fault(const std::string& name) {
    const char* list = std::getenv("FAKE_RKNN_FAULTS");
    std::string rest = list != nullptr ? list : "";
    while (!rest.empty()) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const std::string entry = rest.substr(0, comma);
        rest.erase(0, comma + 1);
        if (entry == name) {
            return 0;
        }
        if (entry.compare(0, name.size() + 1, name + "=") == 0) {
            return std::atoi(entry.c_str() + name.size() + 1);
        }
    }
    return -1;
}

Context* find(std::uint64_t id) {
    const auto found = contexts.find(id);
    return found == contexts.end() ? nullptr : found->second.get();
}

std::uint32_t bytes_of(std::int64_t elements, int bits) { return static_cast<std::uint32_t>(elements * bits / 8); }

void describe(Attr& attr, const char* name, std::initializer_list<int> dims, std::uint32_t size, int type) {
    std::strcpy(attr.name, name);
    attr.n_dims = 0;
    for (const int dim : dims) {
        attr.dims[attr.n_dims++] = static_cast<std::uint32_t>(dim);
    }
    attr.size = size;
    attr.type = type;
}

// False: the simulated machine did not compute it, and the violation says why.
bool compute(const Context& c) {
    const Product product{c.info, *c.type};
    std::vector<std::uint8_t>& result = c.bound[2]->device;
    const bool on_machine = std::getenv("FAKE_RKNN_MACHINE") != nullptr && product.info.b_layout == 1 &&
                            product.info.ac_layout == 1 && (c.type->code == 1 || c.type->code == 2);
    if (on_machine) {
        const std::string error = multiply_on_machine(
            c.type->code == 1, static_cast<std::uint32_t>(c.info.m), static_cast<std::uint32_t>(c.info.n),
            static_cast<std::uint32_t>(c.info.k), c.bound[0]->device, c.bound[1]->device, result);
        if (!error.empty()) {
            const std::lock_guard lock(mutex);
            violation(error);
            return false;
        }
        ++machine_runs;
    } else {
        multiply(product, c.bound[0]->device, c.bound[1]->device, result);
    }
    if (fault("zeros") == c.type->code) {
        std::ranges::fill(result, std::uint8_t{0});
    }
    return true;
}

int check(const Info& info, const Type& type) {
    if (info.m <= 0 || info.k <= 0 || info.n <= 0 || info.k % type.b_channels != 0 || info.n % type.b_kernels != 0) {
        return -5;
    }
    if (info.b_layout < 0 || info.b_layout > 1 || info.ac_layout < 0 || info.ac_layout > 1) {
        return -5;
    }
    if (info.b_quant != 0 || info.ac_quant != 0 || info.domain < 0 || info.domain > 15) {
        return -5;
    }
    return 0;
}

}  // namespace

FAKE_EXPORT int rknn_matmul_create(std::uint64_t* id, const void* caller_info, IoAttr* attr) {
    const std::lock_guard lock(mutex);
    *id = 0;
    if (fault("create") == 0) {
        *id = 0xbad;  // nothing that may be used
        return -1;
    }
    if (fault("create-null") == 0) {
        return 0;
    }
    auto made = std::make_shared<Context>();
    made->info = read_info(caller_info);
    const Info& info = made->info;
    for (const Type& type : types()) {
        if (type.code == info.type && type.since <= FAKE_RKNN_RELEASE && fault("type") != type.code) {
            made->type = &type;
        }
    }
    if (made->type == nullptr) {
        return -1;  // "unsupported matmul dtype in this platform"
    }
    const Type& type = *made->type;
    if (const int status = check(info, type); status != 0) {
        return status;
    }
    const std::int64_t m = info.m;
    const std::uint32_t a_bytes = bytes_of(m * info.k, type.in_bits);
    const std::uint32_t b_bytes = bytes_of(std::int64_t{info.n} * info.k, type.in_bits);
    const std::uint32_t c_bytes = bytes_of(m * info.n, type.out_bits);
    const bool native = info.ac_layout == 1;
    Attr* matrix = made->attr.matrix;
    native ? describe(matrix[0], "A", {info.k / type.a_group, info.m, type.a_group}, a_bytes, type.in_tensor)
           : describe(matrix[0], "A", {info.m, info.k}, a_bytes, type.in_tensor);
    const int kernels = fault("other-block") == 0 ? type.b_kernels / 2 : type.b_kernels;
    info.b_layout == 1
        ? describe(matrix[1], "B", {info.n / kernels, info.k / type.b_channels, kernels, type.b_channels}, b_bytes,
                   type.in_tensor)
        : describe(matrix[1], "B", {info.k, info.n}, b_bytes, type.in_tensor);
    native ? describe(matrix[2], "C", {info.n / type.c_group, info.m, type.c_group}, c_bytes, type.out_tensor)
           : describe(matrix[2], "C", {info.m, info.n}, c_bytes, type.out_tensor);
    *attr = made->attr;
    *id = next_context++;
    contexts[*id] = made;
    peak_contexts = std::max(peak_contexts, static_cast<int>(contexts.size()));
    return 0;
}

FAKE_EXPORT int rknn_matmul_destroy(std::uint64_t id) {
    const std::lock_guard lock(mutex);
    if (find(id) == nullptr) {
        violation("destroyed a context that does not exist");
        return -7;
    }
    for (const auto& [mem, memory] : memories) {
        if (memory->owner == id) {
            violation("destroyed a context before its memory: crashes");
        }
    }
    contexts.erase(id);
    return 0;
}

FAKE_EXPORT int rknn_matmul_set_core_mask(std::uint64_t id, int mask) {
    const std::lock_guard lock(mutex);
    if (find(id) == nullptr) {
        violation("core mask of a context that does not exist");
        return -7;
    }
    const int cores = fault("cores");
    const bool one_core = mask == 1 || mask == 2 || mask == 4;
    return one_core && (cores < 0 || mask < 1 << cores) ? 0 : -1;
}

FAKE_EXPORT Mem* rknn_create_mem(std::uint64_t id, std::uint32_t size) {
    const std::lock_guard lock(mutex);
    const Context* owner = find(id);
    if (owner == nullptr || size == 0) {
        violation("memory of no context or of no bytes");
        return nullptr;
    }
    if (const int most = fault("memory-after"); most >= 0 && static_cast<int>(memories.size()) >= most) {
        return nullptr;
    }
    auto memory = std::make_shared<Memory>();
    memory->owner = id;
    memory->domain = owner->info.domain;
    memory->host.reset(new std::uint8_t[size]);
    std::memset(memory->host.get(), 0xa5, size);
    memory->device.assign(size, 0x5a);
    memory->mem = {memory->host.get(), 0, 100, 0, size, 1, memory.get()};
    if (fault("null-address") == 0) {
        memory->mem.virt_addr = nullptr;
    }
    Mem* mem = &memory->mem;
    memories[mem] = std::move(memory);
    return mem;
}

FAKE_EXPORT int rknn_destroy_mem(std::uint64_t id, Mem* mem) {
    const std::lock_guard lock(mutex);
    const auto found = memories.find(mem);
    if (found == memories.end() || found->second->owner != id || find(id) == nullptr) {
        return violation("freed memory that does not exist, or through another context: crashes");
    }
    memories.erase(found);
    return 0;
}

FAKE_EXPORT int rknn_mem_sync(std::uint64_t id, Mem* mem, int mode) {
    const std::lock_guard lock(mutex);
    const auto found = memories.find(mem);
    if (found == memories.end() || find(id) == nullptr || mode < 1 || mode > 2) {
        return violation("synchronised memory that does not exist, or in no direction");
    }
    if (fault("sync") == 0) {
        return -1;
    }
    Memory& memory = *found->second;
    if (mode == 1) {
        std::copy_n(memory.host.get(), mem->size, memory.device.begin());
    } else {
        std::copy_n(memory.device.begin(), mem->size, memory.host.get());
    }
    return 0;
}

FAKE_EXPORT int rknn_matmul_set_io_mem(std::uint64_t id, Mem* mem, Attr* attr) {
    const std::lock_guard lock(mutex);
    Context* context = find(id);
    const auto found = memories.find(mem);
    if (context == nullptr || found == memories.end()) {
        return violation("bound memory or a context that does not exist");
    }
    if (fault("bind") == 0) {
        return -1;
    }
    for (int i = 0; i < 3; ++i) {
        if (std::memcmp(attr, &context->attr.matrix[i], sizeof(Attr)) == 0) {
            if (mem->size < attr->size) {
                return violation("bound memory that is too small");
            }
            if (found->second->domain != context->info.domain) {
                return violation("bound memory of another domain");
            }
            context->bound[i] = found->second;
            return 0;
        }
    }
    return violation("bound memory to a matrix that is not the context's");
}

FAKE_EXPORT int rknn_matmul_run(std::uint64_t id) {
    std::shared_ptr<Context> context;
    {
        const std::lock_guard lock(mutex);
        if (find(id) == nullptr) {
            violation("ran a context that does not exist");
            return -7;
        }
        context = contexts[id];
        for (const std::shared_ptr<Memory>& memory : context->bound) {
            if (memory == nullptr || memories.count(&memory->mem) == 0) {
                return violation("ran a context whose matrices have no memory");
            }
        }
        if (fault("run") == 0) {
            return -1;
        }
        if (const int most = fault("run-after"); most >= 0 && runs++ >= most) {
            return -1;
        }
    }
    if (context->running.exchange(true)) {
        const std::lock_guard lock(mutex);
        return violation("two runs of one context at once");
    }
    const bool done = compute(*context);
    context->running = false;
    return done ? 0 : -1;
}

FAKE_EXPORT int rknn_query(std::uint64_t id, int command, void* answer, std::uint32_t size) {
    const std::lock_guard lock(mutex);
    if (find(id) == nullptr || command != 5 || size != 512) {
        return violation("a query of no context, another command or another size than the version's");
    }
    if (fault("query") == 0) {
        return -1;
    }
    const char* version = std::getenv("FAKE_RKNN_VERSION");
    const std::string text = version != nullptr        ? version
                             : FAKE_RKNN_RELEASE == 16 ? "1.6.0 (fake)"
                             : FAKE_RKNN_RELEASE == 20 ? "2.0.0b0 (fake)"
                                                       : "2.3.2 (fake)";
    std::memset(answer, 0, size);
    std::strncpy(static_cast<char*>(answer), text.c_str(), 255);
    const char* driver = std::getenv("FAKE_RKNN_DRIVER");
    std::strncpy(static_cast<char*>(answer) + 256, driver != nullptr ? driver : "0.9.8", 255);
    return 0;
}

#if FAKE_RKNN_RELEASE >= 20
FAKE_EXPORT Mem* rknn_create_mem2(std::uint64_t id, std::uint64_t size, std::uint64_t) {
    return rknn_create_mem(id, static_cast<std::uint32_t>(size));
}
#endif
#if FAKE_RKNN_RELEASE == 20
FAKE_EXPORT int rknn_matmul_create_dyn_shape() { return -1; }
#endif
#if FAKE_RKNN_RELEASE >= 23
FAKE_EXPORT int rknn_matmul_create_dynamic_shape() { return -1; }
#endif

// What tests ask.
FAKE_EXPORT int fake_rknn_contexts() {
    const std::lock_guard lock(mutex);
    return static_cast<int>(contexts.size());
}

FAKE_EXPORT int fake_rknn_memories() {
    const std::lock_guard lock(mutex);
    return static_cast<int>(memories.size());
}

// Domains that contexts live in.
FAKE_EXPORT int fake_rknn_domains() {
    const std::lock_guard lock(mutex);
    std::set<int> domains;
    for (const auto& [id, context] : contexts) {
        domains.insert(context->info.domain);
    }
    return static_cast<int>(domains.size());
}

FAKE_EXPORT int fake_rknn_machine_runs() { return machine_runs; }

// The most contexts at a time since the last call.
FAKE_EXPORT int fake_rknn_peak_contexts() {
    const std::lock_guard lock(mutex);
    const int peak = peak_contexts;
    peak_contexts = static_cast<int>(contexts.size());
    return peak;
}

// The first violation since the last call; empty if there was none. Valid until the next call.
FAKE_EXPORT const char* fake_rknn_violation() {
    static std::string text;
    const std::lock_guard lock(mutex);
    text = first_violation;
    first_violation.clear();
    return text.c_str();
}
