// What a started PPU + PPU_RDMA is asked to do, read from the registers, and doing it: the maximum, minimum or average
// over a window of each channel of a feature cube. Cubes are NC1HWC2: atoms of 16 bytes hold 8 fp16 channels of one
// pixel.
//
// Sources: register manual for the fields; measured by others: fp16 is the only format (bytes of an int8 cube are taken
// as fp16), methods are 0 average, 1 maximum, 2 minimum, padding counts in an average, and the two reciprocals are the
// fp16 bit patterns of 65536 / kernel extent. The register manual says 65536 / kernel extent as an integer instead; see
// `ReciprocalFormat`. How an average is rounded on the way is unknown: here the sum is exact, and the result is rounded to
// fp32 and then to fp16. An extent of 1 has no reciprocal in fp16 (65536 is too large) and divides by one whatever its register holds.
#pragma once

#include <array>
#include <cstdint>

#include "sim/extent.h"
#include "sim/memory.h"
#include "sim/register_check.h"

namespace npu::sim {

enum class ReciprocalFormat {
    fp16,     // measured in programs of the vendor's compiler
    integer,  // register manual
};

enum class PoolingMethod : std::uint8_t { average = 0, maximum = 1, minimum = 2 };

struct PoolingCube {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::uint64_t address = 0;
    std::uint64_t line_bytes = 0;
    std::uint64_t surface_bytes = 0;
};

struct Pooling {
    PoolingMethod method = PoolingMethod::maximum;
    PoolingCube input;
    PoolingCube output;
    std::uint32_t surfaces = 0;  // of 8 channels
    std::uint32_t kernel_width = 1;
    std::uint32_t kernel_height = 1;
    std::uint32_t stride_x = 1;
    std::uint32_t stride_y = 1;
    std::uint32_t pad_left = 0;
    std::uint32_t pad_top = 0;
    std::uint16_t pad_value = 0;  // fp16
    double reciprocal = 1;        // of both kernel extents, for averages

    [[nodiscard]] std::uint64_t bytes_read() const;
    [[nodiscard]] std::uint64_t bytes_written() const;
};

Pooling read_pooling(RegisterCheck& check, ReciprocalFormat format = ReciprocalFormat::fp16);

MemoryAccess pooling_reads(const Pooling& pooling);
MemoryAccess pooling_writes(const Pooling& pooling);

// Both extents must be mapped.
void run_pooling(const Pooling& pooling, const Memory& memory);

}  // namespace npu::sim
