#include "plugin/weight_buffer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/integers.h"
#include "base/mapped_file.h"
#include "plugin/blocks.h"
#include "plugin/original_bytes.h"
#include "plugin/route.h"
#include "plugin/tensors.h"

namespace npu::plugin {

namespace {

// Smaller tensors are not worth a look for their file.
constexpr std::size_t smallest_in_file = std::size_t{64} << 10;

// What the buffer knows about one tensor; tensor->extra points here.
struct Slot {
    std::vector<ResidentTensor> resident;  // one, or that of each expert; empty: not converted
    OriginalBytes original;
    std::size_t received = 0;  // bytes of a tensor that arrives in pieces
    std::size_t uploads = 0;
};

struct BufferContext {
    DeviceContext& device;
    std::unique_ptr<WeightMemory> memory;
    MappedFiles files;
    std::byte unset{0};      // what bytes that were never set read as
    std::deque<Slot> slots;  // addresses stay valid as it grows; gone before the memory
};

BufferContext& context_of(ggml_backend_buffer_t buffer) { return *static_cast<BufferContext*>(buffer->context); }
DeviceContext& context_of(ggml_backend_buffer_type_t type) { return *static_cast<DeviceContext*>(type->context); }
Slot* slot_of(const ggml_tensor* tensor) { return static_cast<Slot*>(tensor->extra); }

bool contains_nan(std::span<const std::byte> halves) {
    for (std::size_t i = 0; i < halves.size(); i += sizeof(std::uint16_t)) {
        std::uint16_t half = 0;
        std::memcpy(&half, halves.data() + i, sizeof(half));
        if ((half & 0x7fffU) > 0x7c00U) {
            return true;
        }
    }
    return false;
}

// Whether the resident form of these bytes is them.
bool is_reversible(const Multiplier& multiplier, const ggml_tensor* tensor, const Slot& slot,
                   std::span<const std::byte> bytes) {
    return !slot.resident.empty() && multiplier.reads_back_fp16() && tensor->type == GGML_TYPE_F16 &&
           slot.resident.front().shape().pipeline == gemm::Pipeline::fp16 && !contains_nan(bytes);
}

std::size_t matrices_of(const ggml_tensor* tensor) { return static_cast<std::size_t>(tensor->ne[2]); }

// Bytes that each matrix of a tensor takes in the buffer.
std::size_t resident_stride(const Multiplier& multiplier, const ggml_tensor* tensor) {
    return align_up(multiplier.weight_bytes(weights_shape(tensor)), multiplier.granularity());
}

// Converts one matrix, `offset` bytes into the buffer.
Result<ResidentTensor> convert(BufferContext& context, const ggml_tensor* tensor, std::span<const std::byte> bytes,
                               std::size_t offset) {
    const std::size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    const auto read = [&](std::uint32_t row, float* destination) {
        read_row(tensor, bytes.data() + row * row_bytes, destination);
    };
    gemm::BlockReader read_in_blocks;
    if (const BlockFormat format = block_format(tensor->type)) {
        read_in_blocks = [&, format](std::uint32_t row, gemm::BlockTarget target) {
            format(bytes.data() + row * row_bytes, static_cast<std::size_t>(tensor->ne[0]), target);
        };
    }
    return context.memory->convert(weights_shape(tensor), {read, read_in_blocks, bytes, ggml_type_name(tensor->type)},
                                   offset);
}

// Bytes in NPU memory that the slot's weights take.
std::size_t bytes_of(const Multiplier& multiplier, const Slot& slot) {
    return slot.resident.empty() ? 0 : slot.resident.size() * multiplier.weight_bytes(slot.resident.front().shape());
}

void drop_resident(BufferContext& context, Slot& slot) {
    const std::size_t bytes = bytes_of(context.device.multiplier(), slot);
    context.device.statistics().add_resident(-static_cast<std::ptrdiff_t>(bytes));
    slot.resident.clear();
}

// Converts all of a tensor's bytes into device memory. A failure leaves the slot unconverted, which graph_compute reports.
void make_resident(BufferContext& context, const ggml_tensor* tensor, Slot& slot, std::span<const std::byte> bytes) {
    const Multiplier& multiplier = context.device.multiplier();
    const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(tensor->data) - context.memory->base());
    const std::size_t stride = resident_stride(multiplier, tensor);
    const std::size_t count = matrices_of(tensor);
    std::vector<ResidentTensor> matrices;
    for (std::size_t i = 0; i < count; ++i) {
        auto converted = convert(context, tensor, bytes.subspan(i * tensor->nb[2], tensor->nb[2]), offset + i * stride);
        if (!converted) {
            GGML_LOG_ERROR("ggml-npu: weights %s: %s\n", tensor->name, converted.error().message.c_str());
            return;
        }
        matrices.push_back(std::move(*converted));
    }
    slot.resident = std::move(matrices);
    context.device.statistics().add_resident(static_cast<std::ptrdiff_t>(bytes_of(multiplier, slot)));
    if (slot.uploads++ > 0) {
        context.device.statistics().count_late_upload(bytes_of(multiplier, slot));
    }
}

void keep_original(BufferContext& context, Slot& slot, OriginalBytes original) {
    auto& statistics = context.device.statistics();
    statistics.add_originals(static_cast<std::ptrdiff_t>(original.host_bytes()) -
                             static_cast<std::ptrdiff_t>(slot.original.host_bytes()));
    slot.original = std::move(original);
}

// All bytes of a tensor at once, which is how models are loaded: converted from where they lie.
void set_whole(BufferContext& context, const ggml_tensor* tensor, Slot& slot, std::span<const std::byte> bytes) {
    drop_resident(context, slot);
    slot.received = bytes.size();
    if (is_weight_matrix(tensor, context.device.multiplier())) {
        make_resident(context, tensor, slot, bytes);
    }
    const auto file = bytes.size() >= smallest_in_file ? context.files.behind(bytes) : std::nullopt;
    OriginalBytes original;
    if (is_reversible(context.device.multiplier(), tensor, slot, bytes)) {
        original.forget();
    } else if (file) {
        original.keep(*file);
    } else {
        original.keep(std::vector<std::byte>(bytes.begin(), bytes.end()));
    }
    keep_original(context, slot, std::move(original));
    if (file) {
        release_pages(bytes);  // a model larger than half of the memory loads, too
    }
}

// Halves that the device holds as halves.
void read_back(const Multiplier& multiplier, const ggml_tensor* tensor, const Slot& slot, std::size_t first,
               std::span<std::byte> destination) {
    const std::size_t matrix_bytes = tensor->nb[2];
    while (!destination.empty()) {
        const auto halves = multiplier.read_back_fp16(slot.resident[first / matrix_bytes]);
        const std::size_t inside = first % matrix_bytes;
        const std::size_t count = std::min(destination.size(), matrix_bytes - inside);
        std::memcpy(destination.data(), reinterpret_cast<const std::byte*>(halves.data()) + inside, count);
        destination = destination.subspan(count);
        first += count;
    }
}

// Bytes of the tensor as they were set.
void read_original(BufferContext& context, const ggml_tensor* tensor, const Slot& slot, std::size_t first,
                   std::span<std::byte> destination) {
    if (!slot.original.kept() && slot.resident.empty()) {
        std::fill(destination.begin(), destination.end(), context.unset);
        return;
    }
    if (!slot.original.kept()) {
        read_back(context.device.multiplier(), tensor, slot, first, destination);
        return;
    }
    if (const auto read = slot.original.read(first, destination); !read) {
        GGML_LOG_ERROR("ggml-npu: weights %s: %s\n", tensor->name, read.error().message.c_str());
    }
}

// Some bytes of a tensor: gathered in host memory until it is whole, and kept there.
void set_piece(BufferContext& context, const ggml_tensor* tensor, Slot& slot, std::size_t first,
               std::span<const std::byte> piece) {
    const std::size_t total = ggml_nbytes(tensor);
    if (slot.original.in_memory() == nullptr) {
        std::vector<std::byte> bytes(total);
        read_original(context, tensor, slot, 0, bytes);
        OriginalBytes original;
        original.keep(std::move(bytes));
        keep_original(context, slot, std::move(original));
    }
    drop_resident(context, slot);
    std::vector<std::byte>& bytes = *slot.original.in_memory();
    std::memcpy(bytes.data() + first, piece.data(), piece.size());
    slot.received = std::min(total, slot.received + piece.size());
    if (slot.received < total || !is_weight_matrix(tensor, context.device.multiplier())) {
        return;
    }
    make_resident(context, tensor, slot, bytes);
    if (is_reversible(context.device.multiplier(), tensor, slot, bytes)) {
        keep_original(context, slot, {});
    }
}

// The tensor that owns the slot, and where a view of it begins.
std::pair<const ggml_tensor*, std::size_t> owner_of(const ggml_tensor* tensor) {
    return tensor->view_src != nullptr ? std::pair<const ggml_tensor*, std::size_t>{tensor->view_src, tensor->view_offs}
                                       : std::pair<const ggml_tensor*, std::size_t>{tensor, 0};
}

// --- buffer -------------------------------------------------------------------------------------------------------

void buffer_free(ggml_backend_buffer_t buffer) {
    BufferContext& context = context_of(buffer);
    for (Slot& slot : context.slots) {
        drop_resident(context, slot);
        keep_original(context, slot, {});
    }
    delete &context;
}

void* buffer_get_base(ggml_backend_buffer_t buffer) { return context_of(buffer).memory->base(); }

ggml_status buffer_init_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
    if (tensor->view_src == nullptr) {
        tensor->extra = &context_of(buffer).slots.emplace_back();
    }
    return GGML_STATUS_SUCCESS;
}

void buffer_set_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data, size_t offset,
                       size_t size) {
    const auto [owner, start] = owner_of(tensor);
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(data), size);
    if (size == ggml_nbytes(owner)) {
        set_whole(context_of(buffer), owner, *slot_of(owner), bytes);
    } else {
        set_piece(context_of(buffer), owner, *slot_of(owner), start + offset, bytes);
    }
}

void buffer_get_tensor(ggml_backend_buffer_t buffer, const ggml_tensor* tensor, void* data, size_t offset,
                       size_t size) {
    const auto [owner, start] = owner_of(tensor);
    read_original(context_of(buffer), owner, *slot_of(owner), start + offset, {static_cast<std::byte*>(data), size});
}

void buffer_memset_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, uint8_t value, size_t offset,
                          size_t size) {
    const std::vector<std::byte> bytes(size, std::byte{value});
    buffer_set_tensor(buffer, tensor, bytes.data(), offset, size);
}

void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    // Only used on fresh buffers, before tensors are set; the kernel has zeroed the memory. Contents are defined by
    // set_tensor, so the device memory itself need not be touched.
    BufferContext& context = context_of(buffer);
    context.unset = std::byte{value};
    for (Slot& slot : context.slots) {
        drop_resident(context, slot);
        keep_original(context, slot, {});
        slot.received = 0;
    }
}

constexpr ggml_backend_buffer_i buffer_interface = {
    /* .free_buffer   = */ buffer_free,
    /* .get_base      = */ buffer_get_base,
    /* .init_tensor   = */ buffer_init_tensor,
    /* .memset_tensor = */ buffer_memset_tensor,
    /* .set_tensor    = */ buffer_set_tensor,
    /* .get_tensor    = */ buffer_get_tensor,
    /* .set_tensor_2d = */ nullptr,
    /* .get_tensor_2d = */ nullptr,
    /* .cpy_tensor    = */ nullptr,
    /* .clear         = */ buffer_clear,
    /* .reset         = */ nullptr,
};

// --- buffer type --------------------------------------------------------------------------------------------------

const char* type_get_name(ggml_backend_buffer_type_t) { return "NPU_REPACK"; }

ggml_backend_buffer_t type_alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    DeviceContext& device = context_of(type);
    auto memory = device.multiplier().allocate(size);
    if (!memory) {
        GGML_LOG_ERROR("ggml-npu: %s\n", memory.error().message.c_str());
        return nullptr;
    }
    return ggml_backend_buffer_init(type, buffer_interface, new BufferContext{device, std::move(*memory), {}, {}, {}},
                                    size);
}

size_t type_get_alignment(ggml_backend_buffer_type_t) { return weight_alignment; }

size_t type_get_max_size(ggml_backend_buffer_type_t) {
    return std::size_t{256} << 20;  // several moderate buffers find room in a fragmented address window
}

size_t type_get_alloc_size(ggml_backend_buffer_type_t type, const ggml_tensor* tensor) {
    const Multiplier& multiplier = context_of(type).multiplier();
    const std::size_t plain = ggml_nbytes(tensor);  // ggml asks for at least this
    const std::size_t resident =
        is_weight_matrix(tensor, multiplier) ? matrices_of(tensor) * resident_stride(multiplier, tensor) : 0;
    return align_up(std::max(plain, resident), multiplier.granularity());
}

bool type_is_host(ggml_backend_buffer_type_t) { return false; }  // so that loaders never bypass set_tensor

}  // namespace

ggml_backend_buffer_type_t weight_buffer_type(DeviceContext& context, ggml_backend_dev_t device) {
    static ggml_backend_buffer_type type = {
        /* .iface   = */ {
            /* .get_name       = */ type_get_name,
            /* .alloc_buffer   = */ type_alloc_buffer,
            /* .get_alignment  = */ type_get_alignment,
            /* .get_max_size   = */ type_get_max_size,
            /* .get_alloc_size = */ type_get_alloc_size,
            /* .is_host        = */ type_is_host,
        },
        /* .device  = */ device,
        /* .context = */ &context,
    };
    return &type;
}

bool is_weight_buffer_type(ggml_backend_buffer_type_t type) { return type->iface.get_name == type_get_name; }

bool is_weight_buffer(ggml_backend_buffer_t buffer) { return is_weight_buffer_type(buffer->buft); }

std::span<const ResidentTensor> resident_matrices(const ggml_tensor* tensor) {
    if (tensor->buffer == nullptr || tensor->buffer->context == nullptr || !is_weight_buffer(tensor->buffer) ||
        tensor->view_src != nullptr || tensor->extra == nullptr) {
        return {};
    }
    return slot_of(tensor)->resident;
}

}  // namespace npu::plugin
