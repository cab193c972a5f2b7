#include "device/rocket_job.h"

#include <cstring>
#include <string>

#include "device/rocket_buffer.h"
#include "rockchip/command.h"

namespace npu::device {

namespace {

namespace rocket = uapi::rocket;
using rockchip::Command;

constexpr std::uint64_t list_alignment = 16;      // the PC fetches beats of 128 bits
constexpr std::uint32_t largest_amount = 0xffff;  // field of the PC's amount register
constexpr std::uint32_t largest_list = rockchip::words_fetched(largest_amount);

// One task of one core, with what its errors begin with.
class TaskCheck {
  public:
    TaskCheck(const TaskChain& chain, std::size_t task, std::size_t core)
        : entry_(chain.tasks[task]),
          next_(task + 1 < chain.tasks.size() ? &chain.tasks[task + 1] : nullptr),
          task_(task),
          core_(core) {}

    // What the entry says, and that its list lies in a buffer of the space.
    Result<void> check_entry(const RocketSpace& space, RocketVersion version) {
        NPU_TRY(check_numbers());
        NPU_TRY(check_blocks(version));
        const std::uint64_t bytes = std::uint64_t{rockchip::words_fetched(rockchip::fetch_amount(words()))} * 8;
        const RocketBuffer* buffer = space.find(entry_.iova, bytes);
        if (buffer == nullptr) {
            return error(
                ErrorCode::invalid_argument,
                format("its %u words at 0x%llx are in no buffer of address space %u; a chain of core i and all "
                       "that it addresses lie in space i",
                       words(), static_cast<unsigned long long>(entry_.iova), space.index()));
        }
        list_ = buffer->data() + (entry_.iova - buffer->iova());
        return {};
    }

    // The tail as it lies in memory: next address, next amount, separator, enable. After check_entry().
    Result<void> check_tail(RocketVersion version) const {
        const auto word = [&](std::uint32_t index) {
            std::uint64_t value = 0;
            std::memcpy(&value, list_ + std::size_t{entry_.body_words + index} * sizeof value, sizeof value);
            return rockchip::decode(value);
        };
        if (word(3) != Command{rockchip::target::enable, rockchip::offset_enable, entry_.enable}) {
            return error(
                ErrorCode::invalid_argument,
                format("word %u of its list does not fire blocks 0x%x, as the entry says", words() - 1, entry_.enable));
        }
        if (next_ == nullptr || !version.chains()) {
            return {};
        }
        const std::uint32_t amount = rockchip::fetch_amount(next_->body_words + rockchip::tail_words);
        if (word(0) != Command{rockchip::target::pc, rockchip::offset_pc_base_address,
                               static_cast<std::uint32_t>(next_->iova)} ||
            word(1) != Command{rockchip::target::pc, rockchip::offset_pc_register_amounts, amount}) {
            return error(
                ErrorCode::invalid_argument,
                format("its tail does not lead to the next task, %u words at 0x%llx",
                       next_->body_words + rockchip::tail_words, static_cast<unsigned long long>(next_->iova)));
        }
        return {};
    }

    [[nodiscard]] std::uint32_t words() const { return entry_.body_words + rockchip::tail_words; }

  private:
    Result<void> check_numbers() const {
        if (entry_.iova % list_alignment != 0) {
            return error(
                ErrorCode::invalid_argument,
                format("it begins at 0x%llx, and a command list begins at a multiple of %llu bytes",
                       static_cast<unsigned long long>(entry_.iova), static_cast<unsigned long long>(list_alignment)));
        }
        if (entry_.body_words == 0 || entry_.body_words > largest_list - rockchip::tail_words) {
            return error(ErrorCode::invalid_argument, format("it has %u body words; 1 to %u are possible",
                                                             entry_.body_words, largest_list - rockchip::tail_words));
        }
        return {};
    }

    Result<void> check_blocks(RocketVersion version) const {
        using namespace rockchip;  // NOLINT(google-build-using-namespace)
        if (entry_.enable == 0 ||
            ((entry_.enable & enable_bit::dpu) != 0 && (entry_.enable & enable_bit::dpu_rdma) == 0)) {
            return error(
                ErrorCode::invalid_argument,
                format("it fires blocks 0x%x without DPU_RDMA (0x10), and on this driver would never complete; "
                       "write the program with DPU_RDMA in it, as DeviceInfo::needs_rdma asks",
                       entry_.enable));
        }
        if (entry_.interrupts == interrupt_ppu && !version.waits_for_ppu()) {
            return error(ErrorCode::unsupported,
                         format("it ends with the PPU's interrupt, which the driver takes for an end since interface "
                                "1.3; this one has %u.%u",
                                version.major, version.minor));
        }
        if (entry_.interrupts != interrupt_dpu && entry_.interrupts != interrupt_ppu) {
            return error(ErrorCode::invalid_argument,
                         format("it ends with interrupts 0x%x; the driver waits for 0x%x (DPU) or 0x%x (PPU)",
                                entry_.interrupts, interrupt_dpu, interrupt_ppu));
        }
        return {};
    }

    [[nodiscard]] Error error(ErrorCode code, const std::string& text) const {
        return make_error(code, "task %zu of core %zu: %s", task_, core_, text.c_str());
    }

    const TaskChain::Entry& entry_;
    const TaskChain::Entry* next_;
    std::size_t task_;
    std::size_t core_;
    const std::byte* list_ = nullptr;
};

}  // namespace

Result<RocketJob> make_rocket_job(const TaskChain& chain, std::size_t core, const RocketSpace& space,
                                  RocketVersion version) {
    if (chain.tasks.size() > rocket::max_batched_tasks) {
        return make_error(ErrorCode::invalid_argument,
                          "a chain of %zu tasks was asked for on core %zu; %u are possible", chain.tasks.size(), core,
                          rocket::max_batched_tasks);
    }
    for (const Canary& canary : chain.canaries) {
        if (space.find(canary.buffer->iova(), 1) != canary.buffer) {
            return make_error(ErrorCode::invalid_argument,
                              "a canary of core %zu is in a buffer that is none of address space %u", core,
                              space.index());
        }
    }
    RocketJob job;
    std::vector<TaskCheck> checks;
    for (std::size_t i = 0; i < chain.tasks.size(); ++i) {
        TaskCheck& check = checks.emplace_back(chain, i, core);
        NPU_TRY(check.check_entry(space, version));
        job.tasks.push_back({.regcmd = static_cast<std::uint32_t>(chain.tasks[i].iova), .regcmd_count = check.words()});
    }
    for (const TaskCheck& check : checks) {
        NPU_TRY(check.check_tail(version));
    }
    if (!chain.tasks.empty() && version.chains()) {
        job.flags |= rocket::job_batched;
    }
    if (!chain.tasks.empty() && chain.tasks.back().interrupts == rockchip::interrupt_ppu) {
        job.flags |= rocket::job_no_dpu_done | rocket::job_ppu_done;
    }
    return job;
}

}  // namespace npu::device
