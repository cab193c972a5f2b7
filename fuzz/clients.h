// What the fuzzers of both kernels share: a client that opens, maps, writes, closes and forgets in any order, and always
// knows what is really mapped, so that it never touches memory that a kernel took away by right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/input.h"
#include "sim/sim.h"

namespace npu::fuzz {

// Options of a kernel that finishes quickly whatever it is asked: no waiting, little memory, one worker. The input
// decides mode, coherency checking, poison and faults.
sim::SimOptions draw_options(Input& input, sim::Driver driver);

class Client {
  public:
    explicit Client(sim::SimulatedKernel& kernel) : kernel_(kernel) {}
    // Unmaps and closes everything.
    ~Client() { finish(); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    struct Mapping {
        std::uint8_t* memory = nullptr;
        std::size_t bytes = 0;
        bool writable = false;
    };

    void open(Input& input, const char* usual_path);
    // Any descriptor that was ever handed out, or one that never was.
    int draw_fd(Input& input);
    int close(int fd);
    void keep(int fd) { fds_.push_back(fd); }  // an exported descriptor

    int ioctl(int fd, std::uint32_t request, void* argument) { return kernel_.ioctl(fd, request, argument); }
    // A request that may be unknown, of any size, over a buffer that is large enough.
    void draw_raw_ioctl(Input& input, std::uint32_t known_numbers);

    // Empty when the kernel refuses.
    Mapping map(int fd, std::uint64_t offset, std::size_t bytes, int protection, int flags);
    void unmap(Input& input);
    // Fills a part of a mapping.
    void write(Input& input);
    [[nodiscard]] std::vector<Mapping>& mappings() { return mappings_; }

    void finish();

  private:
    sim::SimulatedKernel& kernel_;
    std::vector<int> fds_;
    std::vector<Mapping> mappings_;
};

// Stops when a promise of the kernels is broken: everything is closed and no job runs, so no memory is in use and no
// descriptor is left.
void check_nothing_left(sim::SimulatedKernel& kernel);

// A pointer as a client may pass it: good, null, or one that leads nowhere.
std::uint64_t draw_pointer(Input& input, const void* good);

}  // namespace npu::fuzz
