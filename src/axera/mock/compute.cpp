#include "axera/mock/compute.h"

#include <cstring>

namespace npu::axera::mock {

namespace {

using onnx::ElementType;

// r[m, n] = sum over k of x[m, k] * y[n, k]; exact in 64 bits for every K below 2^33.
template <typename T>
void multiply(const Run& run) {
    const ShapeGroup& group = run.model.groups[run.group];
    const std::uint64_t rows = group.inputs[0].dims[0];
    const std::uint64_t columns = group.inputs[1].dims[0];
    const std::uint64_t depth = group.inputs[0].dims[1];
    // Copied, because device memory is bytes and need not be aligned.
    std::vector<T> x(rows * depth);
    std::vector<T> y(columns * depth);
    std::memcpy(x.data(), run.inputs[0].data(), x.size() * sizeof(T));
    std::memcpy(y.data(), run.inputs[1].data(), y.size() * sizeof(T));
    for (std::uint64_t m = 0; m < rows; ++m) {
        for (std::uint64_t n = 0; n < columns; ++n) {
            std::int64_t sum = 0;
            for (std::uint64_t k = 0; k < depth; ++k) {
                sum += std::int32_t{x[m * depth + k]} * std::int32_t{y[n * depth + k]};
            }
            const auto rounded = static_cast<float>(sum);
            std::memcpy(run.outputs[0].data() + (m * columns + n) * sizeof(float), &rounded, sizeof(float));
        }
    }
}

std::uint64_t mix(std::uint64_t value) {
    value ^= value >> 30;
    value *= 0xBF58476D1CE4E5B9U;
    value ^= value >> 27;
    value *= 0x94D049BB133111EBU;
    return value ^ value >> 31;
}

// One number of the type, from random bits. Floats lie in (-1, 1).
void put(std::uint8_t* to, ElementType type, std::uint64_t bits, unsigned bytes) {
    const float small = static_cast<float>(static_cast<std::int64_t>(bits >> 40) - (1 << 23)) / (1 << 23);
    std::uint32_t word = 0;
    std::memcpy(&word, &small, sizeof(word));
    switch (type) {
        case ElementType::float32: std::memcpy(to, &word, 4); return;
        case ElementType::bfloat16: {
            const auto half = static_cast<std::uint16_t>(word >> 16);
            std::memcpy(to, &half, 2);
            return;
        }
        case ElementType::float16: {
            const auto half = static_cast<std::uint16_t>((bits & 0x8000) | (bits >> 16 & 0x3BFF));  // below 1
            std::memcpy(to, &half, 2);
            return;
        }
        case ElementType::float64: {
            const double wide = small;
            std::memcpy(to, &wide, 8);
            return;
        }
        default: std::memcpy(to, &bits, bytes);
    }
}

void make_numbers(const Run& run) {
    std::uint64_t seed = mix(run.group + 1);
    for (const Bytes& input : run.inputs) {
        for (const std::uint8_t byte : input) {
            seed = (seed ^ byte) * 0x100000001B3U;
        }
        seed = mix(seed + input.size());
    }
    for (std::size_t i = 0; i < run.outputs.size(); ++i) {
        const ElementType type = run.model.groups[run.group].outputs[i].type;
        const unsigned bytes = std::max(1U, onnx::element_bytes(type));
        std::uint64_t state = mix(seed + i);
        for (std::size_t at = 0; at + bytes <= run.outputs[i].size(); at += bytes) {
            state += 0x9E3779B97F4A7C15U;
            put(run.outputs[i].data() + at, type, mix(state), bytes);
        }
    }
}

}  // namespace

bool is_matmul(const ShapeGroup& group) {
    if (group.inputs.size() != 2 || group.outputs.size() != 1) {
        return false;
    }
    const ModelTensor& x = group.inputs[0];
    const ModelTensor& y = group.inputs[1];
    const ModelTensor& r = group.outputs[0];
    const bool types = x.type == y.type && (x.type == ElementType::int8 || x.type == ElementType::int16) &&
                       r.type == ElementType::float32;
    const bool shapes = x.dims.size() == 2 && y.dims.size() == 2 && r.dims.size() == 2 && x.dims[1] == y.dims[1] &&
                        r.dims[0] == x.dims[0] && r.dims[1] == y.dims[0];
    if (!types || !shapes) {
        return false;
    }
    const std::uint64_t row = onnx::element_bytes(x.type) * x.dims[1];
    return row != 0 && x.dims[0] != 0 && y.dims[0] != 0 && x.bytes / row == x.dims[0] && y.bytes / row == y.dims[0] &&
           r.bytes / 4 / r.dims[1] == r.dims[0];
}

void compute(const Run& run) {
    const ShapeGroup& group = run.model.groups[run.group];
    if (!is_matmul(group)) {
        make_numbers(run);
    } else if (group.inputs[0].type == ElementType::int8) {
        multiply<std::int8_t>(run);
    } else {
        multiply<std::int16_t>(run);
    }
}

}  // namespace npu::axera::mock
