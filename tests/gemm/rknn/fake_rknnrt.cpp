// A librknnrt.so of ours, so that the engine over the vendor's library is tested where neither the library nor the chip is.
// It answers the calls of the matmul interface as the published facts describe RK3588, and is stricter than the original:
// what crashes or silently corrupts there is a violation here, kept for the test to read.
//
// It is built once per release (FAKE_RKNN_RELEASE 16, 20 or 23), because which symbols exist is part of the interface.
// Descriptions of structs and layouts are its own, not those of src/gemm, so that the two can disagree.
//
// Host and device see different bytes of a memory until it is synchronised. Products are plain loops over index functions.
//
// Environment: FAKE_RKNN_VERSION is what the query reports. FAKE_RKNN_FAULTS is a list by comma:
//   create, create-null, run, bind, sync, query   the call fails (create-null: succeeds without a context)
//   memory-after=N                                allocations fail when N memories live
//   null-address                                  memories have no address
//   type=T                                        type T is refused
//   zeros=T                                       products of type T are zeros
//   cores=N                                       contexts can be tied to the first N cores only
//   other-block                                   B comes in blocks of another chip
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/float_bits.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

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
struct Info {
    std::int32_t m, k, n, type;
    int b_layout, b_quant, ac_layout, ac_quant, domain;
};

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

// A type: bits and tensor-type codes of operands and result, and how the native layouts cut them.
struct Type {
    int code;
    int in_bits, out_bits;
    int in_tensor, out_tensor;
    int a_group, b_kernels, b_channels, c_group;
    int since;  // release
};
constexpr Type types[] = {
    {1, 16, 32, 1, 0, 8, 16, 32, 4, 16},
    {2, 8, 32, 2, 6, 16, 32, 32, 4, 16},
    {4, 16, 16, 1, 1, 8, 16, 32, 8, 20},
    {10, 4, 16, 10, 4, 32, 64, 32, 8, 16},
};

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
int runs = 0;
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

constexpr int longest_segment = 8192;  // of a native B; a longer K is packed segment by segment

std::int64_t index_a(const Context& c, std::int64_t m, std::int64_t k) {
    const std::int64_t group = c.type->a_group;
    return c.info.ac_layout == 0 ? m * c.info.k + k : (k / group * c.info.m + m) * group + k % group;
}

std::int64_t index_b(const Context& c, std::int64_t k, std::int64_t n) {
    if (c.info.b_layout == 0) {
        return k * c.info.n + n;
    }
    const std::int64_t kernels = c.type->b_kernels;
    const std::int64_t channels = c.type->b_channels;
    const std::int64_t start = k / longest_segment * longest_segment;
    const std::int64_t length = std::min<std::int64_t>(longest_segment, c.info.k - start);
    const std::int64_t in = k - start;
    return start * c.info.n + ((n / kernels * (length / channels) + in / channels) * kernels + n % kernels) * channels +
           in % channels;
}

std::int64_t index_c(const Context& c, std::int64_t m, std::int64_t n) {
    const std::int64_t group = c.type->c_group;
    return c.info.ac_layout == 0 ? m * c.info.n + n : (n / group * c.info.m + m) * group + n % group;
}

double element(const std::vector<std::uint8_t>& bytes, int bits, std::int64_t index) {
    if (bits == 4) {
        const int nibble = bytes.at(static_cast<std::size_t>(index / 2)) >> (index % 2 * 4) & 15;
        return nibble >= 8 ? nibble - 16 : nibble;
    }
    if (bits == 8) {
        return static_cast<std::int8_t>(bytes.at(static_cast<std::size_t>(index)));
    }
    const auto at = static_cast<std::size_t>(index) * 2;
    return npu::half_to_float(static_cast<std::uint16_t>(bytes.at(at) | bytes.at(at + 1) << 8));
}

void put(const Type& type, double sum, std::int64_t index, std::vector<std::uint8_t>& bytes) {
    std::uint32_t word = 0;
    switch (type.code) {
        case 1: word = std::bit_cast<std::uint32_t>(static_cast<float>(sum)); break;
        case 4: word = npu::float_to_half(static_cast<float>(sum)); break;
        case 10:
            word = static_cast<std::uint16_t>(static_cast<std::int16_t>(std::clamp(sum, -32768.0, 32767.0)));
            break;
        default: word = static_cast<std::uint32_t>(static_cast<std::int32_t>(sum)); break;
    }
    for (int byte = 0; byte < type.out_bits / 8; ++byte) {
        bytes.at(static_cast<std::size_t>(index * (type.out_bits / 8) + byte)) =
            static_cast<std::uint8_t>(word >> byte * 8);
    }
}

void compute(const Context& c) {
    const bool zeros = fault("zeros") == c.type->code;
    const std::vector<std::uint8_t>& a = c.bound[0]->device;
    const std::vector<std::uint8_t>& b = c.bound[1]->device;
    std::vector<double> row(static_cast<std::size_t>(c.info.k));
    std::vector<double> kernel(row.size());
    for (int n = 0; n < c.info.n; ++n) {
        for (int k = 0; k < c.info.k; ++k) {
            kernel[static_cast<std::size_t>(k)] = element(b, c.type->in_bits, index_b(c, k, n));
        }
        for (int m = 0; m < c.info.m; ++m) {
            double sum = 0;
            for (int k = 0; k < c.info.k; ++k) {
                sum += element(a, c.type->in_bits, index_a(c, m, k)) * kernel[static_cast<std::size_t>(k)];
            }
            put(*c.type, zeros ? 0 : sum, index_c(c, m, n), c.bound[2]->device);
        }
    }
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
    for (const Type& type : types) {
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
        ++runs;
    }
    if (context->running.exchange(true)) {
        const std::lock_guard lock(mutex);
        return violation("two runs of one context at once");
    }
    compute(*context);
    context->running = false;
    return 0;
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
    std::strcpy(static_cast<char*>(answer) + 256, "0.9.8");
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

FAKE_EXPORT int fake_rknn_runs() {
    const std::lock_guard lock(mutex);
    return runs;
}

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
