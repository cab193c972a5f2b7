// Where the bytes of weights stay once they are converted: reading a tensor gives back what was written.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "support.h"

namespace {

using namespace plugin_test;

TEST_F(PluginTest, WeightsThatLieInAMappedFileAreNotKeptInHostMemory) {
    const auto kept = [] { return statistics()["weight_bytes_kept_in_host_memory"].get<std::size_t>(); };
    const auto close_device = [&] { Owned<ggml_backend>(ggml_backend_dev_init(device_, nullptr)).reset(); };
    constexpr std::int64_t k = 4096;
    constexpr std::int64_t n = 4096;  // larger than all that earlier tests kept at once: the statistics report the most
    std::vector<std::uint8_t> bytes;
    ggml_tensor* weights = make_weights(GGML_TYPE_Q4_0, k, n, bytes);
    const std::string path = testing::TempDir() + "/npu-weights-" + std::to_string(getpid());
    constexpr std::size_t header = 320;  // in GGUF files tensors begin on multiples of 32, not of pages
    {
        std::ofstream file(path, std::ios::binary);
        file.write(std::string(header, 'x').data(), header);
        file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    close_device();
    const std::size_t before = kept();
    ASSERT_LT(before, bytes.size());
    const int descriptor = open(path.c_str(), O_RDONLY);
    void* mapping = mmap(nullptr, header + bytes.size(), PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    ASSERT_NE(mapping, MAP_FAILED);
    ggml_backend_tensor_set(weights, static_cast<const std::uint8_t*>(mapping) + header, 0, bytes.size());
    munmap(mapping, header + bytes.size());
    std::remove(path.c_str());
    close_device();
    EXPECT_EQ(kept(), before);

    std::vector<std::uint8_t> back(bytes.size());
    ggml_backend_tensor_get(weights, back.data(), 0, back.size());
    EXPECT_EQ(back, bytes);
    // Written over in part, they are no longer those of the file.
    std::fill(bytes.begin() + 1000, bytes.begin() + 1100, 0x11);
    ggml_backend_tensor_set(weights, bytes.data() + 1000, 1000, 100);
    ggml_backend_tensor_get(weights, back.data(), 0, back.size());
    EXPECT_EQ(back, bytes);
    close_device();
    EXPECT_GE(kept(), bytes.size());  // the counter counts
}

TEST_F(PluginTest, BytesThatWereNeverSetReadAsTheBufferWasCleared) {
    ggml_tensor* weights = place(GGML_TYPE_Q8_0, 512, 37);
    std::vector<std::uint8_t> back(ggml_nbytes(weights));
    for (const std::uint8_t value : {0, 0x5a}) {
        ggml_backend_buffer_clear(weights->buffer, value);
        ggml_backend_tensor_get(weights, back.data(), 0, back.size());
        EXPECT_EQ(back, std::vector<std::uint8_t>(back.size(), value));
    }
}

}  // namespace
