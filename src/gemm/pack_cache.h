// Converted weights on disk. Converting a model takes a second per gigabyte and core, every time that it is loaded; a cache of
// the result takes as long as reading it. Whether that is faster depends on the board: a file of 4-bit weights is half as large
// as its weights in 8 bits, so a slow card is better off without. It is optional, and a folder that the user names.
//
// One file per matrix, named after all that shapes its content: the bytes it is made from and their type, its pipeline, the
// chip, how K is cut, in how many slices it lies, and the version of the conversion. A different model, precision or version is
// a different name, never a wrong answer. What is read is checked as a whole before it is used; a file that is not what its
// name says is reported, ignored, and written anew. Files are complete or not there: they get their name when they are.
//
//   file   := header, scales (float, one per output channel or per channel and K tile), then each slice from a multiple
//             of 64 bytes on
//   header := magic and version (8 bytes), key (16), bytes of the scales (8), bytes of the slices together (8), number of
//             slices (8), hash of all that follows (8); little-endian
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gemm/weights.h"
#include "rockchip/chip.h"

namespace npu::gemm {

// Must grow whenever the same bytes would be converted to others.
constexpr std::uint32_t pack_version = 1;

struct PackKey {
    std::array<std::uint8_t, 16> bytes = {};
    // Lower-case hexadecimal; the name of the file before ".npupack".
    [[nodiscard]] std::string text() const;
};

// `source` are the bytes that `type` (a name) says how to read.
PackKey pack_key(const WeightsShape& shape, std::string_view type, std::span<const std::byte> source,
                 const rockchip::ChipProfile& chip, std::uint32_t parts);

// Thread-safe, and safe for several processes at once.
class PackCache {
  public:
    // Receives what a user should know: each file that is ignored and why, and once that the folder cannot be written.
    using Report = std::function<void(const std::string&)>;

    PackCache(std::string folder, Report report) : folder_(std::move(folder)), report_(std::move(report)) {}

    // The weights, written into `span` as prepare_weights would. False: they are not there, or not usable. Error: the device
    // refused them.
    Result<bool> load(const PackKey& key, ResidentWeights& weights) const;

    void store(const PackKey& key, const ResidentWeights& weights) const;

  private:
    [[nodiscard]] std::string path_of(const PackKey& key) const;

    std::string folder_;
    Report report_;
    mutable std::once_flag told_;
};

}  // namespace npu::gemm
