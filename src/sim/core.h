// One NPU core: program counter, register groups and the convolution pipeline. A kick is what the kernel driver
// writes into the core: where the first command list is, how much of it to fetch, how many tasks to run. From there
// the core follows the chain by itself. It stops at the task count, or hangs: a task that is refused does not run,
// writes nothing and raises no interrupt, which is how silicon shows every such mistake.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rockchip/chip.h"
#include "rockchip/timing.h"
#include "sim/convolver.h"
#include "sim/dpu.h"
#include "sim/finding.h"
#include "sim/memory.h"
#include "sim/register_state.h"
#include "sim/rv1106.h"
#include "sim/task.h"

namespace npu::sim {

using rockchip::TaskWork;  // of an executed task: 0 bytes for what was reused, all words that were fetched

struct Kick {
    std::uint32_t base = 0;         // PC.BASE_ADDRESS: first command list
    std::uint32_t amount = 0;       // PC.REGISTER_AMOUNTS: its 128-bit beats minus one
    std::uint32_t task_number = 0;  // PC.TASK_CON.TASK_NUMBER: the true stop
    std::uint32_t dma_base = 0;     // PC.TASK_DMA_BASE_ADDR: added to the address of every stream of a task
    // A further kick of the job that ran here last, with nothing in between: what the CBUF holds may be reused.
    bool continues_job = false;
};

struct KickResult {
    bool finished = false;   // all tasks ran; else the core hangs until it is reset
    bool dma_error = false;  // an address led nowhere: DMA error interrupts, no completion
    std::uint32_t tasks_finished = 0;
    std::uint32_t interrupts = 0;  // raised by the last task: one bit of a pair, by register group
    std::vector<TaskWork> work;    // of the finished tasks
    std::vector<Finding> findings;
};

struct CoreOptions {
    unsigned index = 0;
    Mode mode = Mode::strict;
    std::uint64_t poison_seed = 1;  // noise in registers that nobody wrote
    // Silicon keeps registers across jobs. True hands each kick fresh noise instead, which catches programs that
    // live on what an earlier job left.
    bool poison_before_each_kick = false;
    // A task of more operations than this is refused. No program comes near; noise read as a program may.
    std::uint64_t most_operations = std::uint64_t{1} << 50;
    const rockchip::ChipProfile* chip = &rockchip::rk3588();
    const MacKernels* kernels = &best_kernels();
    Convolver::Options array{};  // what silicon does where sources leave a choice
};

class Core {
  public:
    explicit Core(const CoreOptions& options);

    // Runs a chain to its end or to the first refused task. Not thread-safe; different cores may run at once.
    KickResult run(const Kick& kick, const Memory& memory);

    // After a hang: registers hold noise, nothing is resident.
    void soft_reset();

    [[nodiscard]] const RegisterState& registers() const { return registers_; }

  private:
    struct Segment {
        std::uint32_t base = 0;
        std::uint32_t amount = 0;
        bool linked = false;  // the list wrote where the next one is
        std::uint32_t enable = 0;
    };

    std::optional<TaskWork> run_task(std::uint32_t enable, const Memory& memory, Judge& judge, KickResult& result);
    std::optional<Segment> fetch(const Segment& from, const Memory& memory, Judge& judge);
    void apply(std::uint16_t target, std::uint16_t offset, std::uint32_t value, Segment& next, Judge& judge);
    std::optional<Task> check(std::uint32_t enable, const Memory& memory, Judge& judge, bool& dma_error) const;
    void check_started_blocks(std::uint32_t enable, Judge& judge) const;
    void check_reuse(const Convolution& convolution, Judge& judge) const;
    void execute(const Task& task, const Memory& memory);
    std::uint32_t start(std::uint32_t enable);

    CoreOptions options_;
    std::uint64_t resets_ = 0;
    RegisterState registers_;
    Rv1106Registers rv1106_;  // of a chip with that map; the others are not used then
    Convolver convolver_;
    Dpu dpu_;
    std::optional<Convolution> resident_;  // the previous task of this kick: what the CBUF holds
};

}  // namespace npu::sim
