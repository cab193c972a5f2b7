#include "plugin/weight_buffer.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "base/integers.h"
#include "plugin/blocks.h"
#include "plugin/route.h"
#include "plugin/tensors.h"

namespace npu::plugin {

namespace {

constexpr std::size_t alignment = 64;

// What the buffer knows about one tensor; tensor->extra points here.
struct Slot {
    std::optional<ResidentTensor> resident;
    std::vector<std::byte> original;  // bytes as they were set; empty when the resident form gives them back
    std::size_t received = 0;         // bytes of a tensor that arrives in pieces
    std::size_t uploads = 0;
};

// ggml sees one range, of which nothing is ever read or written. Where each core has an address space, the device memory is a
// buffer in each of them, and a tensor's slices lie at its offset divided by their number.
struct BufferContext {
    DeviceContext& device;
    std::vector<std::unique_ptr<device::Buffer>> memory;  // one per slice of a tensor
    std::uint32_t first_space = 0;
    std::byte* base = nullptr;
    std::deque<Slot> slots;  // addresses stay valid as it grows
};

BufferContext& context_of(ggml_backend_buffer_t buffer) { return *static_cast<BufferContext*>(buffer->context); }
DeviceContext& context_of(ggml_backend_buffer_type_t type) { return *static_cast<DeviceContext*>(type->context); }
Slot* slot_of(const ggml_tensor* tensor) { return static_cast<Slot*>(tensor->extra); }

bool contains_nan(const std::uint16_t* halves, std::size_t count) {
    return std::any_of(halves, halves + count, [](std::uint16_t half) { return (half & 0x7fffU) > 0x7c00U; });
}

// Converts the slot's bytes into device memory. A failure leaves the slot unconverted, which graph_compute reports.
void make_resident(BufferContext& context, const ggml_tensor* tensor, Slot& slot) {
    const gemm::WeightsShape shape = weights_shape(tensor);
    const std::size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    const auto read = [&](std::uint32_t row, float* destination) {
        read_row(tensor, slot.original.data() + row * row_bytes, destination);
    };
    const auto parts = static_cast<std::uint32_t>(context.memory.size());
    const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(tensor->data) - context.base);
    gemm::DeviceSpan span{
        {}, offset / parts, gemm::resident_bytes(shape, context.device.engine().chip(), parts), context.first_space};
    const std::size_t bytes = span.bytes * parts;
    for (const auto& memory : context.memory) {
        span.buffers.push_back(memory.get());
    }
    gemm::BlockReader read_in_blocks;
    if (const BlockFormat format = block_format(tensor->type)) {
        read_in_blocks = [&, format](std::uint32_t row, gemm::BlockTarget target) {
            format(slot.original.data() + row * row_bytes, static_cast<std::size_t>(tensor->ne[0]), target);
        };
    }
    auto prepared = gemm::prepare_weights(shape, read, std::move(span), context.device.engine().chip(), read_in_blocks);
    if (!prepared) {
        GGML_LOG_ERROR("ggml-npu: weights %s: %s\n", tensor->name, prepared.error().message.c_str());
        return;
    }
    slot.resident = ResidentTensor{std::move(*prepared)};
    context.device.statistics().add_resident(static_cast<std::ptrdiff_t>(bytes));
    if (slot.uploads++ > 0) {
        context.device.statistics().count_late_upload(bytes);
    }
    const bool reversible =
        tensor->type == GGML_TYPE_F16 &&
        !contains_nan(reinterpret_cast<const std::uint16_t*>(slot.original.data()), slot.original.size() / 2);
    if (reversible) {
        std::vector<std::byte>().swap(slot.original);
    }
}

void drop_resident(BufferContext& context, Slot& slot) {
    if (slot.resident) {
        const gemm::DeviceSpan& span = slot.resident->weights.span;
        context.device.statistics().add_resident(-static_cast<std::ptrdiff_t>(span.bytes * span.buffers.size()));
        slot.resident.reset();
    }
}

// Bytes of the tensor as they were set.
std::vector<std::byte> original_bytes(BufferContext& context, const ggml_tensor* tensor, const Slot& slot) {
    if (slot.original.empty() && slot.resident) {
        const auto halves = gemm::read_back_fp16(slot.resident->weights, context.device.engine().chip());
        std::vector<std::byte> bytes(halves.size() * sizeof(halves[0]));
        std::memcpy(bytes.data(), halves.data(), bytes.size());
        return bytes;
    }
    std::vector<std::byte> bytes = slot.original;
    bytes.resize(ggml_nbytes(tensor));  // never set: zeros
    return bytes;
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
    }
    delete &context;
}

void* buffer_get_base(ggml_backend_buffer_t buffer) { return context_of(buffer).base; }

ggml_status buffer_init_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
    if (tensor->view_src == nullptr) {
        tensor->extra = &context_of(buffer).slots.emplace_back();
    }
    return GGML_STATUS_SUCCESS;
}

void buffer_set_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data, size_t offset,
                       size_t size) {
    BufferContext& context = context_of(buffer);
    const auto [owner, start] = owner_of(tensor);
    Slot& slot = *slot_of(owner);
    const std::size_t total = ggml_nbytes(owner);
    if (slot.original.size() != total) {
        slot.original = original_bytes(context, owner, slot);
        slot.received = slot.resident ? total : 0;
    }
    drop_resident(context, slot);
    std::memcpy(slot.original.data() + start + offset, data, size);
    slot.received = std::min(total, slot.received + size);
    if (slot.received == total && is_weight_matrix(owner)) {
        make_resident(context, owner, slot);
    }
}

void buffer_get_tensor(ggml_backend_buffer_t buffer, const ggml_tensor* tensor, void* data, size_t offset,
                       size_t size) {
    const auto [owner, start] = owner_of(tensor);
    const Slot& slot = *slot_of(owner);
    if (!slot.original.empty()) {
        std::memcpy(data, slot.original.data() + start + offset, size);
        return;
    }
    const auto bytes = original_bytes(context_of(buffer), owner, slot);
    std::memcpy(data, bytes.data() + start + offset, size);
}

void buffer_memset_tensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor, uint8_t value, size_t offset,
                          size_t size) {
    const std::vector<std::byte> bytes(size, std::byte{value});
    buffer_set_tensor(buffer, tensor, bytes.data(), offset, size);
}

void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    // Only used on fresh buffers, before tensors are set; the kernel has zeroed the memory. Contents are defined by
    // set_tensor, so the device memory itself need not be touched.
    for (Slot& slot : context_of(buffer).slots) {
        drop_resident(context_of(buffer), slot);
        std::fill(slot.original.begin(), slot.original.end(), std::byte{value});
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

// Device memory for `size` bytes of tensors from an address space on.
Result<std::unique_ptr<BufferContext>> allocate(DeviceContext& device, std::size_t size, std::uint32_t first_space) {
    auto context = std::make_unique<BufferContext>(device);
    context->first_space = first_space;
    const std::uint32_t parts = device.engine().parts();
    for (std::uint32_t part = 0; part < parts; ++part) {
        NPU_ASSIGN(auto memory, device.device().allocate(ceil_div<std::size_t>(size, parts), first_space + part));
        context->memory.push_back(std::move(memory));
    }
    context->base = context->memory.front()->data();
    return context;
}

// In the first address space that has room. ggml asks layer by layer, so a graph visits each space once.
ggml_backend_buffer_t type_alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    DeviceContext& device = context_of(type);
    const std::uint32_t choices = device.device().spaces() - device.engine().parts() + 1;
    for (std::uint32_t space = 0; space < choices; ++space) {
        auto context = allocate(device, size, space);
        if (context) {
            return ggml_backend_buffer_init(type, buffer_interface, context->release(), size);
        }
        if (space + 1 == choices || context.error().code != ErrorCode::out_of_memory) {
            GGML_LOG_ERROR("ggml-npu: %s\n", context.error().message.c_str());
            break;
        }
    }
    return nullptr;
}

size_t type_get_alignment(ggml_backend_buffer_type_t) { return alignment; }

size_t type_get_max_size(ggml_backend_buffer_type_t) {
    return std::size_t{256} << 20;  // several moderate buffers find room in a fragmented address window
}

size_t type_get_alloc_size(ggml_backend_buffer_type_t type, const ggml_tensor* tensor) {
    const gemm::Engine& engine = context_of(type).engine();
    const std::size_t plain = ggml_nbytes(tensor);  // ggml asks for at least this
    const std::size_t resident =
        is_weight_matrix(tensor)
            ? gemm::resident_bytes(weights_shape(tensor), engine.chip(), engine.parts()) * engine.parts()
            : 0;
    // Whole alignments for every slice, so that a tensor's offset is one in each of them, too.
    return align_up(std::max(plain, resident), alignment * engine.parts());
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

const ResidentTensor* resident_tensor(const ggml_tensor* tensor) {
    if (tensor->buffer == nullptr || tensor->buffer->context == nullptr || !is_weight_buffer(tensor->buffer) ||
        tensor->view_src != nullptr || tensor->extra == nullptr) {
        return nullptr;
    }
    const Slot* slot = slot_of(tensor);
    return slot->resident ? &*slot->resident : nullptr;
}

}  // namespace npu::plugin
