// Sequences of system calls against the simulated mainline kernel, interface 0.0 and 1.0 to 1.5: several files with
// address spaces of their own, buffers, jobs of several tasks, chained and not, waits with any deadline, structs of any
// size, pointers that lead nowhere. When everything is closed, nothing may be left.
#include <sys/mman.h>

#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "fuzz/clients.h"
#include "fuzz/programs.h"
#include "uapi/drm.h"
#include "uapi/rocket.h"

namespace npu::fuzz {
namespace {

namespace rocket = uapi::rocket;
namespace drm = uapi::drm;

constexpr std::uint32_t most_calls = 48;
constexpr std::size_t list_stride = 0x3000;
constexpr std::uint32_t most_lists = 3;
constexpr const char* node = "/dev/accel/accel0";

struct Buffer {
    int fd = -1;
    std::uint32_t handle = 0;
    std::uint64_t iova = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
};

class Session {
  public:
    Session(Input& input, sim::SimulatedKernel& kernel) : input_(input), kernel_(kernel), client_(kernel) {}

    void run() {
        client_.open(input_, node);
        for (std::uint32_t calls = 0; calls < most_calls && !input_.empty(); ++calls) {
            step();
        }
        client_.finish();
    }

  private:
    void step() {
        switch (input_.index(18)) {
            case 0: client_.open(input_, node); break;
            case 1: client_.close(client_.draw_fd(input_)); break;
            case 2:
            case 3: create(input_.one_in(4) ? input_.edge() : 4096U * (1U + input_.index(8))); break;
            case 4: map(); break;
            case 5: client_.unmap(input_); break;
            case 6: gem_close(); break;
            case 7: prep(); break;
            case 8: fini(); break;
            case 9: version(); break;
            case 10: client_.draw_raw_ioctl(input_, 7); break;
            case 11: client_.write(input_); break;
            case 12: kernel_.drain(); break;
            case 13: submit_again(); break;
            default: job(); break;
        }
    }

    Buffer draw_buffer() { return buffers_.empty() ? Buffer{} : buffers_[input_.index(buffers_.size())]; }
    template <typename T>
    T maybe(T value) {
        return input_.one_in(8) ? static_cast<T>(input_.edge()) : value;
    }
    int draw_file(const Buffer& buffer) { return input_.one_in(8) ? client_.draw_fd(input_) : buffer.fd; }

    Buffer create_on(int fd, std::uint64_t bytes) {
        rocket::CreateBo create{};
        create.size = static_cast<std::uint32_t>(bytes);
        if (client_.ioctl(fd, rocket::ioctl_create_bo, &create) != 0) {
            return {};
        }
        buffers_.push_back(
            {fd, create.handle, create.dma_address, (std::uint64_t{create.size} + 4095) / 4096 * 4096, create.offset});
        return buffers_.back();
    }
    void create(std::uint64_t bytes) { create_on(client_.draw_fd(input_), bytes); }
    void map() {
        const Buffer buffer = draw_buffer();
        constexpr std::array protections{PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
        const std::size_t bytes = input_.one_in(4) ? input_.edge() % (1U << 20) : buffer.bytes;
        client_.map(draw_file(buffer), maybe(buffer.offset), bytes,
                    protections[input_.one_in(8) ? 1 + input_.index(2) : 0],
                    input_.one_in(8) ? MAP_PRIVATE : MAP_SHARED);
    }
    void gem_close() {
        const Buffer buffer = draw_buffer();
        drm::GemClose close{.handle = maybe(buffer.handle), .padding = 0};
        (void)client_.ioctl(draw_file(buffer), drm::ioctl_gem_close, &close);
    }
    // Absolute, in nanoseconds of the monotonic clock. A job ends at once here, whatever its end, so waiting is safe.
    std::int64_t draw_deadline() {
        const std::int64_t now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
        switch (input_.index(6)) {
            case 0: return 0;
            case 1: return std::numeric_limits<std::int64_t>::max();
            case 2: return std::numeric_limits<std::int64_t>::min();
            case 3: return now - 1;
            case 4: return now + 1000 * input_.index(256);
            default: return static_cast<std::int64_t>(input_.edge());
        }
    }
    void prep() {
        const Buffer buffer = draw_buffer();
        if (input_.index(4) == 3) {
            rocket::PrepBoRange prep{maybe(buffer.handle), 0, draw_deadline(), input_.one_in(4) ? input_.edge() : 0,
                                     maybe(buffer.bytes)};
            (void)client_.ioctl(draw_file(buffer), rocket::ioctl_prep_bo_range, &prep);
            return;
        }
        rocket::PrepBo prep{maybe(buffer.handle), input_.one_in(16) ? 1U : 0U, draw_deadline()};
        (void)client_.ioctl(draw_file(buffer), rocket::ioctl_prep_bo, &prep);
    }
    void fini() {
        const Buffer buffer = draw_buffer();
        if (input_.index(4) == 3) {
            rocket::FiniBoRange fini{maybe(buffer.handle), 0, input_.one_in(4) ? input_.edge() : 0,
                                     maybe(buffer.bytes)};
            (void)client_.ioctl(draw_file(buffer), rocket::ioctl_fini_bo_range, &fini);
            return;
        }
        rocket::FiniBo fini{maybe(buffer.handle), input_.one_in(16) ? 1U : 0U};
        (void)client_.ioctl(draw_file(buffer), rocket::ioctl_fini_bo, &fini);
    }
    void version() {
        std::array<char, 32> name{};
        drm::Version version{};
        version.name_length = input_.index(name.size() + 1);
        version.name = input_.one_in(8) ? nullptr : name.data();
        (void)client_.ioctl(client_.draw_fd(input_), drm::ioctl_version, &version);
    }

    void job() {
        const int fd = client_.draw_fd(input_);
        const Buffer lists = create_on(fd, list_stride * most_lists);
        const Buffer data = create_on(fd, place_bytes * 4);
        if (lists.bytes == 0 || data.bytes == 0) {
            return;
        }
        const auto list_memory = client_.map(fd, lists.offset, lists.bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
        const auto data_memory = client_.map(fd, data.offset, data.bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
        if (list_memory.memory == nullptr || data_memory.memory == nullptr) {
            return;
        }
        const auto base = static_cast<std::uint32_t>(data.iova);
        const Places places{base, base + place_bytes, base + 2 * place_bytes, base + 3 * place_bytes};
        fill_data(input_, std::span(data_memory.memory, place_bytes));
        fill_data(input_, std::span(data_memory.memory + place_bytes, place_bytes));
        const std::uint32_t count = 1 + input_.index(most_lists);
        tasks_.assign(count, {});
        std::uint32_t next = 0;
        std::uint32_t next_words = 0;
        for (std::uint32_t i = count; i-- > 0;) {
            const List list = draw_list(input_, places, next, next_words);
            next = static_cast<std::uint32_t>(lists.iova + list_stride * i);
            next_words = static_cast<std::uint32_t>(list.words.size());
            std::memcpy(list_memory.memory + list_stride * i, list.words.data(), list.words.size() * 8);
            tasks_[i] = {maybe(next), maybe(next_words)};
        }
        inputs_ = {lists.handle};
        outputs_ = {data.handle};
        submit_fd_ = fd;
        for (const Buffer* buffer : {&lists, &data}) {
            rocket::FiniBo fini{buffer->handle, 0};
            (void)client_.ioctl(fd, rocket::ioctl_fini_bo, &fini);
        }
        submit_again();
    }
    // One or more jobs over the tasks that were made last.
    void submit_again() {
        if (submit_fd_ < 0) {
            return;
        }
        std::vector<std::uint32_t> inputs = inputs_;
        std::vector<std::uint32_t> outputs = outputs_;
        if (input_.one_in(4)) {
            (input_.index(2) == 0 ? inputs : outputs).push_back(maybe(draw_buffer().handle));
        }
        constexpr std::array<std::uint32_t, 5> sizes{sizeof(rocket::Job), sizeof(rocket::JobWithFlags), 56, 0, 4097};
        const std::uint32_t stride = sizes[input_.one_in(4) ? input_.index(sizes.size()) : input_.index(3)];
        const std::uint32_t count = input_.one_in(4) ? input_.index(4) : 1;
        std::vector<std::uint8_t> jobs(std::size_t{stride} * count + sizeof(rocket::JobWithFlags));
        for (std::uint32_t i = 0; i < count; ++i) {
            rocket::JobWithFlags job{};
            job.job.tasks = draw_pointer(input_, tasks_.data());
            job.job.in_bo_handles = draw_pointer(input_, inputs.data());
            job.job.out_bo_handles = draw_pointer(input_, outputs.data());
            job.job.task_count = input_.one_in(16) ? static_cast<std::uint32_t>(input_.edge() % (tasks_.size() + 1))
                                                   : static_cast<std::uint32_t>(tasks_.size());
            job.job.task_struct_size = input_.one_in(8) ? input_.index(sizeof(rocket::Task) + 1) : sizeof(rocket::Task);
            job.job.in_bo_handle_count = static_cast<std::uint32_t>(inputs.size());
            job.job.out_bo_handle_count = static_cast<std::uint32_t>(outputs.size());
            job.flags = input_.index(4) == 3 ? input_.index(16) : 0;
            job.reserved = input_.one_in(16) ? 1 : 0;
            std::memcpy(jobs.data() + std::size_t{stride} * i, &job, sizeof job);
        }
        rocket::Submit submit{draw_pointer(input_, jobs.data()), count, stride, input_.one_in(16) ? 1U : 0U};
        if (input_.one_in(32)) {
            submit.jobs = 0x10;  // a count that noise may make large needs a pointer that stops it
            submit.job_count = static_cast<std::uint32_t>(input_.edge());
        }
        (void)client_.ioctl(submit_fd_, rocket::ioctl_submit, &submit);
    }

    Input& input_;
    sim::SimulatedKernel& kernel_;
    Client client_;
    std::vector<Buffer> buffers_;
    std::vector<rocket::Task> tasks_;
    std::vector<std::uint32_t> inputs_;
    std::vector<std::uint32_t> outputs_;
    int submit_fd_ = -1;
};

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace npu;
    fuzz::Input input(data, size);
    const auto kernel = sim::make_simulated_kernel(fuzz::draw_options(input, sim::Driver::rocket));
    fuzz::Session(input, *kernel).run();
    fuzz::check_nothing_left(*kernel);
    return 0;
}
