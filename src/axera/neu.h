// What is a NEU blob? The compiled program of one subgraph for the NPU: a FlatBuffer with the tensors it reads and
// writes, the command segments of its engines in one image of 8-byte words, and the symbols that its addresses are
// relative to. The driver puts the image into CMM (the card's contiguous memory) as it is; descriptors say which part
// belongs to which engine and whether it is packed (segment_codec.h).
//
// The AX650 has 6 convolution engines, 3 for vectors (CV), 3 for tensors (TENG) and 3 SDMA; a program for all of them
// (NPU3) has 15 descriptors, one for a third of them (NPU1) has 5. Which fields exist and what they hold was found from
// outside on 157 files (../shared/reference/axera.md, 3.3); the meaning of `mark`, `version` and `unit` is unknown.
//
// Structs hold views: the blob must outlive them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axera/bytes.h"
#include "base/result.h"

namespace npu::axera {

enum class EngineKind : std::uint8_t { convolution = 0, vector = 1, tensor = 2, matrix = 3, sdma = 4 };
const char* engine_name(EngineKind kind);  // "conv", "cv", "teng", "mau", "sdma" as the vendor's traces, or "unknown"

struct NeuTensor {
    std::string name;
    std::uint64_t bytes = 0;
    bool operator==(const NeuTensor&) const = default;
};

// One engine's part of the image.
struct Descriptor {
    std::uint8_t mark = 1;  // field 0: 1 in all known files
    EngineKind kind = EngineKind::convolution;
    std::uint32_t words = 0;         // 8 bytes each; a multiple of 4
    std::uint32_t first_word = 0;    // in the image; a multiple of 4
    std::uint8_t packed = 0;         // 1: `packed_bytes` of segment_codec, then zeros up to the last word
    std::uint32_t packed_bytes = 0;  // 0 when not packed
    bool operator==(const Descriptor&) const = default;
};

struct Symbol {
    std::string name;
    std::uint32_t index = 0;  // what the relocated records of a segment name (records.h)
    bool operator==(const Symbol&) const = default;
};

struct Neu {
    std::uint8_t mark = 1;     // field 0: 1 in all known files
    std::uint8_t version = 2;  // field 1: 2 in all known files
    std::vector<NeuTensor> inputs, outputs, scratch;
    std::uint8_t npu_mode = 0;            // 0: NPU1, 2: NPU3
    std::optional<Bytes> params;          // constants inside the blob, as Pulsar2 1.x files have them
    std::vector<Descriptor> descriptors;  // in the order of the file, which is not that of the image
    Bytes image;                          // 8-byte words
    std::uint32_t ocm_bytes = 0;          // on-chip memory that the program takes
    std::uint32_t unit = 0;               // memory table, field 1: 0x1000 or 32 in known files
    std::vector<Symbol> symbols;
    std::string name, options;  // fields 8 and 9: "subgraph_npu_0_b1" and "{}"
    unsigned root_fields = 0;   // 9 or 10

    // Fields that are present and not described above, as "root.7": a program with such fields can be read and kept,
    // but not written anew.
    std::vector<std::string> unknown;
};

// Reads a blob. Also checks what the driver would rely on: descriptors partition the image with no gap and no overlap,
// each packed part unpacks to whole records
// and is followed by zeros.
Result<Neu> read_neu(Bytes blob);

// A blob with the values of `neu`; its layout is ours. An error when it has unknown fields.
Result<Buffer> write_neu(const Neu& neu);

// The records of one segment, unpacked if need be.
Result<Buffer> segment_of(const Neu& neu, const Descriptor& descriptor);

// Packs the segments anew into `image` and sets image, sizes and places; the order of descriptors and which of them are
// packed stay. `segments[i]` belongs to descriptors[i]; its size must be a multiple of 8. Keep `image`.
Result<void> set_segments(Neu& neu, const std::vector<Buffer>& segments, Buffer& image);

}  // namespace npu::axera
