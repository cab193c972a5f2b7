// Sequences of system calls against the simulated vendor kernel: several files, buffers, mappings, exports, fences and
// jobs, with handles and tokens that earlier calls returned, changed now and then. Jobs run programs from recipes, so that
// all of the machine is behind them. When everything is closed, nothing may be left.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/clients.h"
#include "fuzz/programs.h"
#include "uapi/drm.h"
#include "uapi/rknpu.h"

namespace npu::fuzz {
namespace {

namespace rknpu = uapi::rknpu;
namespace drm = uapi::drm;

constexpr std::uint32_t most_calls = 48;
constexpr std::size_t list_stride = 0x3000;
constexpr std::uint32_t most_lists = 3;

struct Buffer {
    int fd = -1;
    std::uint32_t handle = 0;
    std::uint64_t token = 0;
    std::uint64_t iova = 0;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
    std::uint8_t* memory = nullptr;  // of a job's buffer while it is mapped
};

class Session {
  public:
    Session(Input& input, sim::SimulatedKernel& kernel) : input_(input), kernel_(kernel), client_(kernel) {}

    void run() {
        client_.open(input_, "/dev/dri/card1");
        for (std::uint32_t calls = 0; calls < most_calls && !input_.empty(); ++calls) {
            step();
        }
        for (const int fence : fences_) {
            ::close(fence);
        }
        client_.finish();
    }

  private:
    void step() {
        switch (input_.index(20)) {
            case 0: client_.open(input_, "/dev/dri/card1"); break;
            case 1: client_.close(client_.draw_fd(input_)); break;
            case 2:
            case 3: create(); break;
            case 4: map(); break;
            case 5: client_.unmap(input_); break;
            case 6: destroy(); break;
            case 7: sync(); break;
            case 8: action(); break;
            case 9: version(); break;
            case 10: gem_close(); break;
            case 11: client_.draw_raw_ioctl(input_, 8); break;
            case 12: client_.write(input_); break;
            case 13: share(); break;
            case 14: submit_again(); break;
            case 15: wait(); break;
            case 16: lookup(); break;
            default: job(); break;
        }
    }

    Buffer draw_buffer() { return buffers_.empty() ? Buffer{} : buffers_[input_.index(buffers_.size())]; }
    // A value as it was, or something else.
    template <typename T>
    T maybe(T value) {
        return input_.one_in(8) ? static_cast<T>(input_.edge()) : value;
    }

    Buffer create_on(int fd, std::uint64_t bytes, std::uint32_t flags, std::int32_t domain) {
        rknpu::MemCreate create{};
        create.flags = flags;
        create.size = bytes;
        create.iommu_domain_id = domain;
        create.sram_size = input_.one_in(8) ? input_.edge() : 0;
        const bool old = input_.one_in(8);
        if (client_.ioctl(fd, old ? rknpu::ioctl_old_mem_create : rknpu::ioctl_mem_create, &create) != 0) {
            return {};
        }
        Buffer buffer{fd, create.handle, create.obj_addr, create.dma_addr, create.size, 0, nullptr};
        rknpu::MemMap map{.handle = create.handle, .reserved = 0, .offset = 0};
        if (client_.ioctl(fd, rknpu::ioctl_mem_map, &map) == 0) {
            buffer.offset = map.offset;
        }
        buffers_.push_back(buffer);
        return buffer;
    }
    void create() {
        const std::uint64_t bytes = input_.one_in(4) ? input_.edge() : 4096U * (1U + input_.index(8));
        const auto flags = input_.one_in(4) ? static_cast<std::uint32_t>(input_.edge())
                                            : rknpu::mem_non_contiguous | rknpu::mem_cacheable;
        const auto domain = input_.one_in(4) ? static_cast<std::int32_t>(input_.edge()) : 0;
        create_on(client_.draw_fd(input_), bytes, flags, domain);
    }
    void lookup() {  // MEM_CREATE with a handle gives the object again
        const Buffer buffer = draw_buffer();
        rknpu::MemCreate create{};
        create.handle = maybe(buffer.handle);
        create.size = buffer.bytes;
        (void)client_.ioctl(input_.one_in(4) ? client_.draw_fd(input_) : buffer.fd, rknpu::ioctl_mem_create, &create);
    }
    void map() {
        const Buffer buffer = draw_buffer();
        constexpr std::array protections{PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
        constexpr std::array kinds{MAP_SHARED, MAP_PRIVATE, MAP_SHARED | MAP_NORESERVE};
        const std::size_t bytes = input_.one_in(4) ? input_.edge() % (1U << 20) : buffer.bytes;
        client_.map(input_.one_in(8) ? client_.draw_fd(input_) : buffer.fd, maybe(buffer.offset), bytes,
                    protections[input_.one_in(8) ? 1 + input_.index(2) : 0], kinds[input_.one_in(8) ? 1 : 0]);
    }
    void destroy() {
        const Buffer buffer = draw_buffer();
        rknpu::MemDestroy destroy{.handle = maybe(buffer.handle), .reserved = 0, .obj_addr = maybe(buffer.token)};
        (void)client_.ioctl(input_.one_in(8) ? client_.draw_fd(input_) : buffer.fd, rknpu::ioctl_mem_destroy, &destroy);
    }
    void sync() {
        const Buffer buffer = draw_buffer();
        rknpu::MemSync sync{.flags = 1U + input_.index(3),
                            .reserved = 0,
                            .obj_addr = maybe(buffer.token),
                            .offset = input_.one_in(4) ? input_.edge() : 0,
                            .size = maybe(buffer.bytes)};
        sync.flags = maybe(sync.flags);
        (void)client_.ioctl(buffer.fd, rknpu::ioctl_mem_sync, &sync);
    }
    void action() {
        rknpu::Action action{.flags = input_.index(30), .value = input_.one_in(4) ? input_.draw<std::uint32_t>() : 0};
        (void)client_.ioctl(client_.draw_fd(input_), rknpu::ioctl_action, &action);
    }
    void version() {
        std::array<char, 32> name{};
        drm::Version version{};
        version.name_length = input_.index(name.size() + 1);
        version.name = input_.one_in(8) ? nullptr : name.data();
        version.date = name.data();
        version.date_length = input_.index(name.size() + 1);
        (void)client_.ioctl(client_.draw_fd(input_), drm::ioctl_version, &version);
    }
    void gem_close() {
        const Buffer buffer = draw_buffer();
        drm::GemClose close{.handle = maybe(buffer.handle), .padding = 0};
        (void)client_.ioctl(buffer.fd, drm::ioctl_gem_close, &close);
    }
    void share() {
        const Buffer buffer = draw_buffer();
        drm::PrimeHandle prime{
            .handle = maybe(buffer.handle), .flags = drm::prime_close_on_exec | drm::prime_read_write, .fd = -1};
        if (client_.ioctl(buffer.fd, drm::ioctl_prime_handle_to_fd, &prime) != 0) {
            return;
        }
        const int exported = prime.fd;
        client_.keep(exported);
        const int importer = client_.draw_fd(input_);
        prime = {.handle = 0, .flags = 0, .fd = input_.one_in(8) ? client_.draw_fd(input_) : exported};
        if (client_.ioctl(importer, drm::ioctl_prime_fd_to_handle, &prime) == 0) {
            rknpu::MemCreate create{};
            create.handle = prime.handle;
            if (client_.ioctl(importer, rknpu::ioctl_mem_create, &create) == 0) {
                buffers_.push_back(
                    {importer, create.handle, create.obj_addr, create.dma_addr, create.size, 0, nullptr});
            }
        }
        if (input_.index(2) == 1) {
            drm::DmaBufSync sync{.flags = input_.index(8)};
            (void)client_.ioctl(exported, drm::ioctl_dma_buf_sync, &sync);
            client_.map(exported, 0, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED);
        }
        if (input_.index(2) == 1) {
            client_.close(exported);
        }
    }
    void wait() {
        kernel_.drain();
        for (const int fence : fences_) {
            pollfd poll{.fd = fence, .events = POLLIN, .revents = 0};
            (void)::poll(&poll, 1, 0);
        }
    }

    // A buffer of a job, mapped and filled; `memory` is null when the kernel refused.
    Buffer job_buffer(int fd, std::uint64_t bytes, std::uint32_t flags, std::int32_t domain) {
        Buffer buffer = create_on(fd, bytes, flags, domain);
        if (buffer.handle != 0) {
            buffer.memory = client_.map(fd, buffer.offset, buffer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED).memory;
        }
        return buffer;
    }
    void job() {
        const int fd = client_.draw_fd(input_);
        const std::uint32_t plain = rknpu::mem_non_contiguous | rknpu::mem_cacheable | rknpu::mem_zeroing;
        const std::int32_t domain = input_.one_in(8) ? static_cast<std::int32_t>(input_.index(17)) - 1 : 0;
        const Buffer lists = job_buffer(fd, list_stride * most_lists, plain, domain);
        const Buffer data = job_buffer(fd, place_bytes * 4, plain, domain);
        const Buffer tasks = job_buffer(fd, 4096, plain | rknpu::mem_kernel_mapping, domain);
        if (lists.memory == nullptr || data.memory == nullptr || tasks.memory == nullptr) {
            return;
        }
        const auto base = static_cast<std::uint32_t>(data.iova);
        const Places places{base, base + place_bytes, base + 2 * place_bytes, base + 3 * place_bytes};
        fill_data(input_, std::span(data.memory, place_bytes));
        fill_data(input_, std::span(data.memory + place_bytes, place_bytes));
        const std::uint32_t count = 1 + input_.index(most_lists);
        std::uint32_t next = 0;
        std::uint32_t next_words = 0;
        for (std::uint32_t i = count; i-- > 0;) {
            const List list = draw_list(input_, places, next, next_words);
            next = static_cast<std::uint32_t>(lists.iova + list_stride * i);
            next_words = static_cast<std::uint32_t>(list.words.size());
            std::memcpy(lists.memory + list_stride * i, list.words.data(), list.words.size() * 8);
            rknpu::Task task{};
            task.enable_mask = list.enable;
            task.int_mask = list.enable == rockchip::enable_pooling ? rockchip::interrupt_ppu : rockchip::interrupt_dpu;
            task.int_mask = maybe(task.int_mask);
            task.int_clear = rockchip::interrupt_clear_all;
            task.regcfg_amount = maybe(list.body_words);
            task.regcmd_addr = input_.one_in(16) ? input_.edge() : next;
            std::memcpy(tasks.memory + sizeof task * i, &task, sizeof task);
        }
        submit_ = {};
        submit_.flags = rknpu::job_pc | rknpu::job_pingpong;
        submit_.timeout = 100;
        submit_.task_number = count;
        submit_.task_obj_addr = tasks.token;
        submit_.iommu_domain_id = static_cast<std::uint32_t>(domain);
        constexpr std::array<std::uint32_t, 7> masks{1, 0, 2, 4, 3, 7, 5};
        submit_.core_mask = masks[input_.index(masks.size())];
        submit_.fence_fd = -1;
        for (auto& range : submit_.subcore_task) {
            range = {0, count};
        }
        submit_fd_ = fd;
        for (const Buffer* buffer : {&lists, &data, &tasks}) {
            rknpu::MemSync sync{rknpu::sync_to_device, 0, buffer->token, 0, buffer->bytes};
            (void)client_.ioctl(fd, rknpu::ioctl_mem_sync, &sync);
        }
        submit_again();
    }
    void submit_again() {
        if (submit_fd_ < 0) {
            return;
        }
        rknpu::Submit submit = submit_;
        const std::uint32_t extras = input_.draw<std::uint8_t>();
        if ((extras & 3U) == 3) {
            submit.flags |= rknpu::job_nonblock;
        }
        if ((extras & 12U) == 12) {
            submit.flags |= rknpu::job_fence_out;
        }
        if ((extras & 48U) == 48 && !fences_.empty()) {
            submit.flags |= rknpu::job_fence_in;
            submit.fence_fd = fences_[input_.index(fences_.size())];
        }
        if ((extras & 192U) == 192) {
            change(submit);
        }
        const bool wants_fence = (submit.flags & rknpu::job_fence_out) != 0;
        if (client_.ioctl(submit_fd_, rknpu::ioctl_submit, &submit) == 0 && wants_fence && submit.fence_fd > 2 &&
            !kernel_.owns(submit.fence_fd)) {
            fences_.push_back(submit.fence_fd);
        }
    }
    // One argument is something else. Task numbers stay small: each task may be as large as the machine allows.
    void change(rknpu::Submit& submit) {
        const std::uint64_t value = input_.edge();
        switch (input_.index(10)) {
            case 0: submit.flags = static_cast<std::uint32_t>(value); break;
            case 1: submit.timeout = static_cast<std::uint32_t>(value); break;
            case 2: submit.task_start = static_cast<std::uint32_t>(value); break;
            case 3: submit.task_number = static_cast<std::uint32_t>(value % 16); break;
            case 4: submit.task_obj_addr = input_.index(2) == 0 ? draw_buffer().token : value; break;
            case 5: submit.iommu_domain_id = static_cast<std::uint32_t>(value); break;
            case 6: submit.task_base_addr = value; break;
            case 7: submit.core_mask = static_cast<std::uint32_t>(value % 9); break;
            case 8: submit.fence_fd = -static_cast<std::int32_t>(value % 4); break;
            default:
                submit.subcore_task[input_.index(5)] = {static_cast<std::uint32_t>(value),
                                                        static_cast<std::uint32_t>(value >> 8) % 16};
                break;
        }
    }

    Input& input_;
    sim::SimulatedKernel& kernel_;
    Client client_;
    std::vector<Buffer> buffers_;
    std::vector<int> fences_;
    rknpu::Submit submit_{};
    int submit_fd_ = -1;
};

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace npu;
    fuzz::Input input(data, size);
    const auto kernel = sim::make_simulated_kernel(fuzz::draw_options(input, sim::Driver::rknpu));
    fuzz::Session(input, *kernel).run();
    fuzz::check_nothing_left(*kernel);
    return 0;
}
