#include "gemm/rknn_probe.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/float_bits.h"

namespace npu::gemm::rknn {

namespace {

using rockchip::Precision;

constexpr std::array types{
    TypeInfo{MatmulType::fp16_fp16_fp32, "fp16 to fp32", Precision::fp16, Precision::fp32, true},
    TypeInfo{MatmulType::int8_int8_int32, "int8 to int32", Precision::int8, Precision::int32, true},
    TypeInfo{MatmulType::int4_int4_int16, "int4 to int16", Precision::int4, Precision::int16, true},
    TypeInfo{MatmulType::fp16_fp16_fp16, "fp16 to fp16", Precision::fp16, Precision::fp16, false},
};

void store(Precision precision, int value, std::uint32_t channel, std::byte* to) {
    if (precision == Precision::fp16) {
        const std::uint16_t half = float_to_half(static_cast<float>(value));
        std::memcpy(to, &half, sizeof half);
    } else if (precision == Precision::int4) {
        const auto nibble = static_cast<std::byte>(value & 0xf);
        *to |= channel % 2 == 0 ? nibble : nibble << 4;
    } else {
        *to = static_cast<std::byte>(value);
    }
}

double load(Precision precision, const std::byte* from) {
    const auto as = [&](auto value) {
        std::memcpy(&value, from, sizeof value);
        return value;
    };
    switch (precision) {
        case Precision::fp32: return as(float{});
        case Precision::fp16: return half_to_float(as(std::uint16_t{}));
        case Precision::int16: return as(std::int16_t{});
        default: return as(std::int32_t{});
    }
}

// -3 to 3, without a period that blocks share. Sums of 64 products stay below 2048, exact in a half.
int sample(std::uint32_t row, std::uint32_t channel, std::uint32_t seed) {
    std::uint32_t bits = (row * 0x9e3779b1U) ^ (channel * 0x85ebca6bU) ^ seed;
    bits = (bits ^ (bits >> 15)) * 0x2c1b3c6dU;
    return static_cast<int>((bits >> 13) % 7) - 3;
}
constexpr std::uint32_t seed_a = 11;
constexpr std::uint32_t seed_b = 77;

template <typename Layout>
void fill(const Layout& layout, std::uint32_t rows, std::uint32_t channels, std::uint32_t seed, std::byte* to) {
    std::fill_n(to, layout.bytes(), std::byte{0});
    for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t channel = 0; channel < channels; ++channel) {
            store(layout.precision, sample(row, channel, seed), channel, to + layout.offset(row, channel));
        }
    }
}

struct Layouts {
    compile::FeatureLayout a;
    compile::WeightLayout b;
    compile::OutputLayout c;
};

Layouts layouts_of(const MatmulShape& shape, const TypeInfo& type) {
    return {{type.input, compile::Arrangement::native, shape.m, shape.k},
            {type.input, shape.n, shape.k},
            {type.output, compile::Arrangement::native, shape.m, shape.n}};
}

}  // namespace

const TypeInfo* find_type(MatmulType type) {
    const auto found = std::ranges::find(types, type, &TypeInfo::type);
    return found == types.end() ? nullptr : &*found;
}

Result<void> check_layouts(const Context& context, const TypeInfo& type) {
    const Layouts layouts = layouts_of(context.shape(), type);
    const MatmulAttributes& attributes = context.attributes();
    const rockchip::PrecisionInfo& input = rockchip::info(type.input);
    const TensorAttribute& b = attributes.b;
    if (b.size != layouts.b.bytes() || b.dimension_count != 4 || b.dimensions[2] != input.kernels_per_group ||
        b.dimensions[3] != input.channels_per_block) {
        return make_error(ErrorCode::unsupported,
                          "librknnrt wants %s weights in blocks of %u x %u and %u bytes (%u dimensions); this engine "
                          "writes blocks of %u x %u and %zu bytes, those of RK3588 and RK3576. Use the native engine",
                          type.name, b.dimensions[2], b.dimensions[3], b.size, b.dimension_count,
                          input.kernels_per_group, input.channels_per_block, layouts.b.bytes());
    }
    if (attributes.a.size < layouts.a.bytes() || attributes.c.size < layouts.c.bytes()) {
        return make_error(
            ErrorCode::unsupported,
            "librknnrt says that the matrices of a %s product are %u and %u bytes long; they have %zu and "
            "%zu bytes of elements. Use the native engine",
            type.name, attributes.a.size, attributes.c.size, layouts.a.bytes(), layouts.c.bytes());
    }
    return {};
}

Result<void> probe_type(const Session& session, const TypeInfo& type) {
    const rockchip::PrecisionInfo& input = rockchip::info(type.input);
    const MatmulShape shape{3, 2U * input.kernels_per_group, 2U * input.channels_per_block, type.type};
    NPU_ASSIGN(Context context, session.create_context(shape));
    NPU_TRY(check_layouts(context, type));
    NPU_ASSIGN(const Memory a, session.allocate(context.attributes().a.size));
    NPU_ASSIGN(const Memory b, session.allocate(context.attributes().b.size));
    NPU_ASSIGN(const Memory c, session.allocate(context.attributes().c.size));
    const Layouts layouts = layouts_of(shape, type);
    fill(layouts.a, shape.m, shape.k, seed_a, a.data());
    fill(layouts.b, shape.n, shape.k, seed_b, b.data());
    NPU_TRY(a.synchronise(Sync::to_device));
    NPU_TRY(b.synchronise(Sync::to_device));
    NPU_TRY(context.bind(a.handle(), b.handle(), c.handle()));
    NPU_TRY(context.run());
    NPU_TRY(c.synchronise(Sync::from_device));
    for (std::uint32_t m = 0; m < shape.m; ++m) {
        for (std::uint32_t n = 0; n < shape.n; ++n) {
            int expected = 0;
            for (std::uint32_t k = 0; k < shape.k; ++k) {
                expected += sample(m, k, seed_a) * sample(n, k, seed_b);
            }
            const double computed = load(type.output, c.data() + layouts.c.offset(m, n));
            if (computed != expected) {
                return make_error(
                    ErrorCode::unsupported,
                    "librknnrt computes %s products wrongly here: %g instead of %d at row %u, channel %u. "
                    "Library and driver may not belong together (best: 2.3.2 with driver 0.9.8)",
                    type.name, computed, expected, m, n);
            }
        }
    }
    return {};
}

std::vector<ProbedType> probe_types(const Session& session) {
    std::vector<ProbedType> probed;
    for (const TypeInfo& type : types) {
        if (session.version().major < 2 && !type.since_1_6) {
            probed.push_back({&type, false, "this release of librknnrt does not have it"});
            continue;
        }
        const Result<void> result = probe_type(session, type);
        probed.push_back({&type, result.ok(), result ? "" : result.error().message});
    }
    return probed;
}

std::uint32_t probe_cores(const Session& session, std::uint32_t most) {
    for (std::uint32_t core = 0; core < most; ++core) {
        Result<Context> context = session.create_context({32, 32, 32, MatmulType::fp16_fp16_fp32});
        if (!context || !context->set_core(core)) {
            return core;
        }
    }
    return most;
}

}  // namespace npu::gemm::rknn
