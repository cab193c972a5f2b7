#include "fuzz/clients.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/programs.h"
#include "uapi/drm.h"

namespace npu::fuzz {

namespace {

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
}

constexpr std::array fault_specifications{
    "",
    "job-never-starts@every=2",
    "time-out@every=2",
    "lost-interrupt@rate=0.5",
    "dma-error@every=3",
    "no-memory@every=4",
    "iova-full@every=4",
    "bad-address@every=3",
    "stale-output@every=2",
    "core-gone@at=2",
    "time-out@every=2,reset-fails@every=2",
};

}  // namespace

sim::SimOptions draw_options(Input& input, sim::Driver driver) {
    const std::uint32_t how = input.draw<std::uint8_t>();
    sim::SimOptions options;
    options.driver = driver;
    options.mode = (how & 1U) != 0 ? sim::Mode::lenient : sim::Mode::strict;
    options.strict_sync = (how & 2U) != 0;
    options.poison_before_each_kick = (how & 4U) != 0;
    options.rocket = (how & 8U) != 0 ? sim::RocketInterface{1, (how >> 4) % 6} : sim::RocketInterface{0, 0};
    options.memory_bytes = 4U << 20;
    options.most_operations = std::uint64_t{1} << 20;
    options.host_threads = 1;
    options.log_findings = false;
    if (auto faults =
            sim::Faults::parse(input.one_in(4) ? fault_specifications[input.index(fault_specifications.size())]
                                               : fault_specifications[0])) {
        options.faults = *faults;
    } else {
        fail(faults.error().message.c_str());
    }
    return options;
}

void Client::open(Input& input, const char* usual_path) {
    const char* path = usual_path;
    if (input.one_in(8)) {
        constexpr std::array<const char*, 5> others{"", "/dev/null", "/dev/dri/renderD128", "/dev/accel/accel0",
                                                    "/dev/dri/card1"};
        path = others[input.index(others.size())];
    }
    const int fd = kernel_.open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        fds_.push_back(fd);
    }
}

int Client::draw_fd(Input& input) {
    const std::uint32_t which = input.draw<std::uint8_t>();
    if (fds_.empty() || which == 255) {
        return -1;
    }
    return which == 254 ? 1 << 20 : fds_[which % fds_.size()];
}

int Client::close(int fd) {
    const int result = kernel_.close(fd);  // refuses what is not its own, so that no other descriptor can be hit
    std::erase(fds_, fd);
    return result;
}

void Client::draw_raw_ioctl(Input& input, std::uint32_t known_numbers) {
    static std::array<std::uint8_t, 1U << 14> buffer;  // the size in a request has 14 bits
    const int fd = draw_fd(input);
    std::uint32_t request = input.draw<std::uint32_t>();
    if (input.index(4) != 0) {
        request = (request & 0xffff0000U) | 'd' << 8 | (0x40U + input.index(known_numbers));
    }
    if ((request & 0xffffU) == (uapi::drm::ioctl_version & 0xffffU)) {
        return;  // it writes through pointers, which noise must not name
    }
    const std::uint32_t count = input.index(64);
    buffer.fill(0);
    for (std::uint32_t i = 0; i < count; ++i) {
        buffer[i] = input.draw<std::uint8_t>();
    }
    (void)kernel_.ioctl(fd, request, input.one_in(8) ? nullptr : buffer.data());
}

Client::Mapping Client::map(int fd, std::uint64_t offset, std::size_t bytes, int protection, int flags) {
    void* memory = kernel_.mmap(nullptr, bytes, protection, flags, fd, static_cast<off_t>(offset));
    if (memory == MAP_FAILED) {
        return {};
    }
    mappings_.push_back({static_cast<std::uint8_t*>(memory), bytes, (protection & PROT_WRITE) != 0});
    return mappings_.back();
}

void Client::unmap(Input& input) {
    if (mappings_.empty()) {
        return;
    }
    const std::size_t which = input.index(mappings_.size());
    Mapping& mapping = mappings_[which];
    constexpr std::size_t page = 4096;
    const std::size_t pages = (mapping.bytes + page - 1) / page;
    const std::size_t part = input.index(4) == 3 ? input.index(pages) * page : 0;  // the front stays mapped
    if (kernel_.munmap(mapping.memory + part, mapping.bytes - part) == 0) {
        mapping.bytes = part;
    }
    if (mapping.bytes == 0) {
        mappings_.erase(mappings_.begin() + static_cast<std::ptrdiff_t>(which));
    }
}

void Client::write(Input& input) {
    if (mappings_.empty()) {
        return;
    }
    const Mapping& mapping = mappings_[input.index(mappings_.size())];
    if (!mapping.writable) {
        return;
    }
    if (input.index(2) == 0) {
        fill_data(input, std::span(mapping.memory, mapping.bytes));
        return;
    }
    const std::size_t at = input.draw<std::uint16_t>() % mapping.bytes;
    const std::uint64_t word = input.draw<std::uint64_t>();
    std::memcpy(mapping.memory + at, &word, std::min(sizeof word, mapping.bytes - at));
}

void Client::finish() {
    for (const Mapping& mapping : mappings_) {
        (void)kernel_.munmap(mapping.memory, mapping.bytes);
    }
    mappings_.clear();
    while (!fds_.empty()) {
        (void)close(fds_.back());
    }
}

void check_nothing_left(sim::SimulatedKernel& kernel) {
    kernel.drain();
    if (kernel.memory_in_use() != 0) {
        fail("no memory is in use when all files are closed and nothing is mapped");
    }
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd > 512) {
        fail("descriptors are given back");
    }
    ::close(fd);
}

std::uint64_t draw_pointer(Input& input, const void* good) {
    switch (input.index(16)) {
        case 13: return 0;
        case 14: return 0x10;
        case 15: return 0xffffff8000000000U;  // the kernel's half
        default: return reinterpret_cast<std::uintptr_t>(good);
    }
}

}  // namespace npu::fuzz
