#include "gemm/pack_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL  // no library at run time
#include <xxhash.h>

#include "base/integers.h"

namespace npu::gemm {

namespace {

static_assert(pack_version < 256, "one byte of the magic");

struct Header {
    std::array<char, 8> magic = {'n', 'p', 'u', 'p', 'a', 'c', 'k', static_cast<char>(pack_version)};
    std::array<std::uint8_t, 16> key = {};
    std::uint64_t scale_bytes = 0;
    std::uint64_t slice_bytes = 0;
    std::uint64_t slices = 0;
    std::uint64_t hash = 0;
};
static_assert(sizeof(Header) == 56 && std::has_unique_object_representations_v<Header>);

constexpr std::uint64_t alignment = 64;

class Hasher {
  public:
    Hasher() { XXH3_64bits_reset(&state_); }
    void add(std::span<const std::byte> bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
    [[nodiscard]] std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

  private:
    XXH3_state_t state_;
};

std::span<const std::byte> scales_of(const ResidentWeights& weights) {
    return std::as_bytes(std::span(weights.scales));
}

// The memory of each slice, in order.
std::vector<std::span<std::byte>> memory_of(const ResidentWeights& weights) {
    std::vector<std::span<std::byte>> memory;
    for (const Slice& slice : slices(weights.shape, static_cast<std::uint32_t>(weights.span.buffers.size()))) {
        memory.emplace_back(weights.span.buffers[slice.index]->data() + weights.span.offset, weights.span.bytes);
    }
    return memory;
}

Header header_of(const PackKey& key, const ResidentWeights& weights, std::size_t slices) {
    Header header;
    header.key = key.bytes;
    header.scale_bytes = scales_of(weights).size();
    header.slice_bytes = weights.span.bytes;
    header.slices = slices;
    return header;
}

// Where slice `index` lies in the file; that of one past the last is the file's size.
std::uint64_t offset_of(const Header& header, std::uint64_t index) {
    return align_up<std::uint64_t>(sizeof(Header) + header.scale_bytes, alignment) +
           index * align_up(header.slice_bytes, alignment);
}

// A file mapped to be read once.
class MappedFile {
  public:
    static std::optional<MappedFile> open(const std::string& path) {
        const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) {
            return std::nullopt;
        }
        struct stat state = {};
        void* data = MAP_FAILED;
        if (fstat(descriptor, &state) == 0 && state.st_size > 0) {
            data = mmap(nullptr, static_cast<std::size_t>(state.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
        }
        close(descriptor);
        if (data == MAP_FAILED) {
            return MappedFile(nullptr, 0);
        }
        (void)madvise(data, static_cast<std::size_t>(state.st_size), MADV_SEQUENTIAL);
        return MappedFile(static_cast<const std::byte*>(data), static_cast<std::size_t>(state.st_size));
    }
    MappedFile(MappedFile&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile() {
        if (data_ != nullptr) {
            munmap(const_cast<std::byte*>(data_), size_);
        }
    }

    [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

  private:
    MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
    const std::byte* data_;
    std::size_t size_;
};

// Why these bytes are not the weights; nullptr when they are.
const char* defect(std::span<const std::byte> file, const Header& expected) {
    Header found;
    if (file.size() < sizeof(found)) {
        return "it is shorter than a header";
    }
    std::memcpy(&found, file.data(), sizeof(found));
    if (found.magic != expected.magic) {
        return "it is of another kind or version";
    }
    if (found.key != expected.key || found.scale_bytes != expected.scale_bytes ||
        found.slice_bytes != expected.slice_bytes || found.slices != expected.slices) {
        return "it is about other weights";
    }
    if (file.size() != offset_of(expected, expected.slices)) {
        return "it has another length than its header says";
    }
    Hasher hasher;
    hasher.add(file.subspan(sizeof(Header)));
    return hasher.value() == found.hash ? nullptr : "its bytes are not those that were written (checksum)";
}

bool write(std::FILE* file, std::span<const std::byte> bytes) {
    return std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
}

// Everything after the header, in pieces: hashed first, then written.
template <typename Use>
bool for_each_piece(const Header& header, const ResidentWeights& weights, const Use& use) {
    static constexpr std::array<std::byte, alignment> zeros = {};
    const auto padding = [](std::uint64_t end) {
        return std::span(zeros).first(static_cast<std::size_t>(align_up(end, alignment) - end));
    };
    bool good = use(scales_of(weights)) && use(padding(sizeof(Header) + header.scale_bytes));
    for (const std::span<const std::byte> slice : memory_of(weights)) {
        good = good && use(slice) && use(padding(slice.size()));
    }
    return good;
}

}  // namespace

std::string PackKey::text() const {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text += format("%02x", byte);
    }
    return text;
}

PackKey pack_key(const WeightsShape& shape, std::string_view type, std::span<const std::byte> source,
                 const rockchip::ChipProfile& chip, std::uint32_t parts) {
    const XXH128_hash_t content = XXH3_128bits(source.data(), source.size());
    const std::string identity =
        format("%u %.*s %u %u %s %d %.*s %u %u %016llx%016llx", pack_version, static_cast<int>(type.size()),
               type.data(), shape.n, shape.k, pipeline_name(shape.pipeline), shape.rotated ? 1 : 0,
               static_cast<int>(chip.name.size()), chip.name.data(), longest_k_tile(shape, chip), parts,
               static_cast<unsigned long long>(content.high64), static_cast<unsigned long long>(content.low64));
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(identity.data(), identity.size()));
    PackKey key;
    std::memcpy(key.bytes.data(), canonical.digest, key.bytes.size());
    return key;
}

std::string PackCache::path_of(const PackKey& key) const { return folder_ + "/" + key.text() + ".npupack"; }

Result<bool> PackCache::load(const PackKey& key, ResidentWeights& weights) const {
    const std::string path = path_of(key);
    const auto file = MappedFile::open(path);
    if (!file) {
        return false;
    }
    const auto memory = memory_of(weights);
    const Header header = header_of(key, weights, memory.size());
    if (const char* reason = defect(file->bytes(), header)) {
        report_(format("%s is ignored: %s; it will be written anew", path.c_str(), reason));
        return false;
    }
    std::memcpy(weights.scales.data(), file->bytes().data() + sizeof(Header), header.scale_bytes);
    for (std::size_t i = 0; i < memory.size(); ++i) {
        std::memcpy(memory[i].data(), file->bytes().data() + offset_of(header, i), memory[i].size());
    }
    for (device::Buffer* buffer : weights.span.buffers) {
        NPU_TRY(buffer->to_device(weights.span.offset, weights.span.bytes));
    }
    return true;
}

void PackCache::store(const PackKey& key, const ResidentWeights& weights) const {
    const std::string path = path_of(key);
    static std::atomic<unsigned> stores = 0;
    // A name that nobody else writes to.
    const std::string temporary = path + format(".%d.%u.part", static_cast<int>(getpid()), stores++);
    std::error_code ignored;
    std::filesystem::create_directories(folder_, ignored);  // if it cannot be made, it cannot be opened, either
    Header header = header_of(key, weights, memory_of(weights).size());
    Hasher hasher;
    (void)for_each_piece(header, weights, [&](std::span<const std::byte> bytes) {
        hasher.add(bytes);
        return true;
    });
    header.hash = hasher.value();

    std::FILE* file = std::fopen(temporary.c_str(), "wbe");
    bool written = file != nullptr;
    if (written) {
        written = write(file, std::as_bytes(std::span(&header, 1))) &&
                  for_each_piece(header, weights, [&](std::span<const std::byte> bytes) { return write(file, bytes); });
        const int error = errno;
        written = std::fclose(file) == 0 && written;
        errno = error;
    }
    if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
        const int error = errno;
        std::remove(temporary.c_str());
        std::call_once(told_, [&] {
            report_(
                format("converted weights cannot be kept in %s: %s; loading goes on without (GGML_NPU_CACHE names "
                       "a folder that can be written and has room)",
                       folder_.c_str(), std::strerror(error)));
        });
    }
}

}  // namespace npu::gemm
