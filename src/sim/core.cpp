#include "sim/core.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cinttypes>
#include <cstring>

#include "rockchip/command.h"
#include "sim/addressing.h"
#include "sim/output_addressing.h"

namespace npu::sim {

namespace {

namespace target = rockchip::target;
namespace enable_bit = rockchip::enable_bit;
using rockchip::Block;

// S_POINTER of CNA and CORE is written once per kick by the kernel driver; that of the others by every list.
struct StartedBlock {
    std::uint32_t bit;
    Block block;
    bool armed_by_list;
};
constexpr std::array started_blocks{
    StartedBlock{enable_bit::cna, Block::CNA, false}, StartedBlock{enable_bit::core, Block::CORE, false},
    StartedBlock{enable_bit::dpu, Block::DPU, true},  StartedBlock{enable_bit::dpu_rdma, Block::DPU_RDMA, true},
    StartedBlock{enable_bit::ppu, Block::PPU, true},  StartedBlock{enable_bit::ppu_rdma, Block::PPU_RDMA, true},
};

// Whether a register of that offset is in the table, without a search per command word.
bool known_register(std::uint16_t offset) {
    static const std::bitset<0x4000> known = [] {
        std::bitset<0x4000> result;
        for (const rockchip::RegisterInfo& info : rockchip::register_table()) {
            result.set(info.offset / 4U);
        }
        return result;
    }();
    return offset % 4 == 0 && known.test(offset / 4U);
}

bool same_features(const Convolution& a, const Convolution& b) {
    return a.input == b.input && a.width == b.width && a.height == b.height && a.channels == b.channels &&
           a.feature_address == b.feature_address && a.line_atoms == b.line_atoms &&
           a.surface_atoms == b.surface_atoms && a.lines_in_groups_of_four == b.lines_in_groups_of_four &&
           a.data_banks == b.data_banks;
}

bool same_weights(const Convolution& a, const Convolution& b) {
    return a.input == b.input && a.weight_address == b.weight_address && a.weight_bytes == b.weight_bytes &&
           a.channels == b.channels && a.data_banks == b.data_banks && a.weight_banks == b.weight_banks;
}

// Memory as the streams of a task see it when PC.TASK_DMA_BASE_ADDR is not 0.
class RelocatedMemory final : public Memory {
  public:
    RelocatedMemory(const Memory& memory, std::uint32_t base) : memory_(memory), base_(base) {}
    [[nodiscard]] std::span<std::byte> from(std::uint64_t iova) const override { return memory_.from(iova + base_); }

  private:
    const Memory& memory_;
    std::uint32_t base_;
};

// Whether a stream lies in one mapped object; a refusal when it does not.
bool check_mapped(const Memory& memory, const MemoryAccess& access, Judge& judge) {
    const Extent& extent = access.extent;
    const auto bytes = static_cast<std::uint64_t>(extent.end - extent.begin);
    if (extent.begin >= 0 && !memory.range(static_cast<std::uint64_t>(extent.begin), bytes).empty()) {
        return true;
    }
    const rockchip::RegisterInfo* info = rockchip::find_register(access.address_register);
    judge.stop(Severity::hang,
               "DMA error: %s at 0x%" PRIx64 "..0x%" PRIx64
               " (%s.%s and strides) do not lie in one mapped buffer of "
               "the job",
               access.what, extent.begin, extent.end, rockchip::block_name(info->block), info->name);
    return false;
}

// Everything that a task reads and writes.
struct Streams {
    std::vector<MemoryAccess> reads;
    std::vector<MemoryAccess> writes;
};

Streams streams_of(const Task& task) {
    using namespace rockchip::reg;
    Streams streams;
    if (task.convolution) {
        streams.reads.push_back({feature_extent(*task.convolution), "features", CNA::FEATURE_DATA_ADDR::offset});
        streams.reads.push_back({weight_extent(*task.convolution), "weights", CNA::DCOMP_ADDR0::offset});
    }
    if (task.dpu) {
        std::ranges::move(dpu_reads(*task.dpu), std::back_inserter(streams.reads));
        std::ranges::move(dpu_writes(*task.dpu), std::back_inserter(streams.writes));
    }
    if (task.pooling) {
        streams.reads.push_back(pooling_reads(*task.pooling));
        streams.writes.push_back(pooling_writes(*task.pooling));
    }
    return streams;
}

TaskWork work_of(const Task& task) {
    TaskWork work;
    if (task.convolution) {
        const Convolution& convolution = *task.convolution;
        work.macs = convolution.macs();
        work.feature_bytes = convolution.data_reuse ? 0 : convolution.feature_bytes();
        work.weight_bytes = convolution.weight_reuse ? 0 : convolution.weight_memory_bytes;
        work.precision = convolution.input;
    }
    if (task.dpu) {
        work.output_bytes = task.dpu->bytes_written;
        work.operand_bytes = task.dpu->bytes_read;
    }
    if (task.pooling) {
        work.feature_bytes = task.pooling->bytes_read();
        work.output_bytes = task.pooling->bytes_written();
    }
    return work;
}

}  // namespace

Core::Core(const CoreOptions& options)
    : options_(options),
      registers_(options.poison_seed + options.index),
      convolver_(*options.kernels, options.array),
      dpu_(options.poison_seed + options.index) {}

void Core::soft_reset() {
    ++resets_;
    dpu_.reset(options_.poison_seed + options_.index + resets_);
    registers_.poison(options_.poison_seed + options_.index + resets_ * 0x9e3779b9U);
    resident_.reset();
}

// Applies one register write of a command list.
void Core::apply(std::uint16_t target, std::uint16_t offset, std::uint32_t value, Segment& next, Judge& judge) {
    if (target == target::pc) {
        if (offset == rockchip::offset_pc_base_address) {
            next.base = value;
            next.linked = true;
        } else if (offset == rockchip::offset_pc_register_amounts) {
            next.amount = value;
        } else {
            judge.refuse_register(Severity::hang, offset, value,
                                  "a command list may write only the address and the amount of the next one");
        }
        return;
    }
    if (options_.chip->registers == rockchip::RegisterMap::rv1106) {
        rv1106_.apply({target, offset, value}, judge);
        return;
    }
    const Block block = block_of(offset);
    if (block == Block::PC || rockchip::block_target(block) != target || !known_register(offset)) {
        judge.refuse(Severity::hang, "command for target 0x%04x, register 0x%04x, value 0x%08x: no such register",
                     target, offset, value);
        return;
    }
    if (offset == rockchip::reg::CNA::S_POINTER::offset || offset == rockchip::reg::CORE::S_POINTER::offset) {
        judge.refuse_register(Severity::hang, offset, value,
                              "the kernel driver owns this register; measured never to complete when a list writes it");
        return;
    }
    if (offset == rockchip::reg::DPU::LUT_ACCESS_CFG::offset || offset == rockchip::reg::DPU::LUT_ACCESS_DATA::offset) {
        dpu_.lut_write(offset, value);  // a command, not a setting: the tables are loaded while the list is read
    }
    registers_.block(block).write(offset, value);
}

std::optional<Core::Segment> Core::fetch(const Segment& from, const Memory& memory, Judge& judge) {
    const std::uint32_t words = rockchip::words_fetched(from.amount & 0xffff);
    if (from.amount > 0xffff) {
        judge.stop(Severity::hang,
                   "fetch amount 0x%x: the high half is used by vendor programs for work shared "
                   "between cores, which is not modelled",
                   from.amount);
        return std::nullopt;
    }
    if (from.base % 16 != 0) {
        judge.stop(Severity::hang, "command list at 0x%08x is not aligned to 16 bytes", from.base);
        return std::nullopt;
    }
    const std::span<std::byte> list = memory.range(from.base, std::uint64_t{words} * 8);
    if (list.empty()) {
        judge.stop(Severity::hang,
                   "DMA error: command list at 0x%08x, %u words, does not lie in one mapped buffer "
                   "of the job",
                   from.base, words);
        return std::nullopt;
    }
    Segment next;
    bool separated = false;
    bool enabled = false;
    for (std::uint32_t i = 0; i < words; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, list.data() + std::size_t{i} * 8, sizeof word);
        const rockchip::Command command = rockchip::decode(word);
        if (enabled) {  // fetched beyond the end: harmless unless it starts something
            if (command.target == target::enable) {
                judge.stop(Severity::hang, "fetch amount 0x%x of the list at 0x%08x runs into a second enable word",
                           from.amount, from.base);
                return std::nullopt;
            }
            continue;
        }
        if (command.target == target::enable) {
            if (!separated || command.offset != rockchip::offset_enable) {
                judge.stop(Severity::hang,
                           "word %u (0x%016" PRIx64
                           "): an enable word is for register 0x0008 and "
                           "comes right after the separator",
                           i, word);
                return std::nullopt;
            }
            next.enable = command.value;
            enabled = true;
        } else if (command.target == target::separator) {
            separated = command.offset == 0 && command.value == 0;
        } else {
            separated = false;
            if (word != 0) {
                apply(command.target, command.offset, command.value, next, judge);
            }
        }
    }
    if (!enabled) {
        judge.stop(Severity::hang,
                   "no enable word in the %u words fetched at 0x%08x (amount 0x%x): configured but "
                   "never started",
                   words, from.base, from.amount);
    }
    return judge.refused() ? std::nullopt : std::optional(next);
}

void Core::check_started_blocks(std::uint32_t enable, Judge& judge) const {
    if (enable != rockchip::enable_convolution && enable != rockchip::enable_convolution_rdma &&
        enable != rockchip::enable_element_wise && enable != rockchip::enable_pooling) {
        judge.stop(Severity::hang, "enable 0x%x starts a set of blocks that no known program starts", enable);
        return;
    }
    for (const StartedBlock& started : started_blocks) {
        const BlockRegisters& block = registers_.block(started.block);
        if ((enable & started.bit) != 0 && started.armed_by_list && !block.armed()) {
            judge.refuse(Severity::corrupt,
                         "%s.S_POINTER (last value 0x%x) does not make the block run what this task wrote (0xe in each "
                         "task does): it would run the previous group again",
                         rockchip::block_name(started.block), block.last_s_pointer());
        }
    }
}

void Core::check_reuse(const Convolution& convolution, Judge& judge) const {
    using rockchip::reg::CNA::CBUF_CON0::offset;
    const std::uint32_t value = registers_.block(Block::CNA).value(offset);
    if (convolution.weight_reuse && (!resident_ || !same_weights(convolution, *resident_))) {
        judge.refuse_register(Severity::corrupt, offset, value,
                              "WEIGHT_REUSE, but the previous task of this kick on this core %s",
                              resident_ ? "had other weights or another bank split" : "does not exist");
    }
    if (convolution.data_reuse && (!resident_ || !same_features(convolution, *resident_))) {
        judge.refuse_register(Severity::corrupt, offset, value,
                              "DATA_REUSE, but the previous task of this kick on this core %s",
                              resident_ ? "had other features or other data banks" : "does not exist");
    }
}

std::optional<Task> Core::check(std::uint32_t enable, const Memory& memory, Judge& judge, bool& dma_error) const {
    check_started_blocks(enable, judge);
    if (judge.refused()) {
        return std::nullopt;
    }
    auto task = read_task(registers_, enable, *options_.chip, judge);
    if (!task) {
        return std::nullopt;
    }
    if (task->convolution) {
        check_reuse(*task->convolution, judge);
    }
    if (task->dpu) {
        dpu_.check(*task->dpu, judge);
    }
    const TaskWork work = work_of(*task);
    if (work.macs > options_.most_operations || work.output_bytes > options_.most_operations) {
        judge.stop(Severity::unmodelled, "a task of %" PRIu64 " multiply-accumulates and %" PRIu64 " output bytes",
                   work.macs, work.output_bytes);
    }
    const Streams streams = streams_of(*task);
    const bool sound = !judge.refused();
    for (const auto* list : {&streams.reads, &streams.writes}) {
        for (const MemoryAccess& access : *list) {
            dma_error = !check_mapped(memory, access, judge) || dma_error;
        }
    }
    dma_error = dma_error && sound;
    if (!judge.refused() && task->dpu && outputs_overlap(*task->dpu)) {
        judge.refuse_register(Severity::corrupt, rockchip::reg::DPU::DST_SURF_STRIDE::offset,
                              static_cast<std::uint32_t>(task->dpu->output_surface_bytes),
                              "outputs of the task are written over each other (SURFACE_ADD 0x%" PRIx64
                              ", notch %" PRIu64 ")",
                              task->dpu->output_group_bytes, task->dpu->output_notch_atoms);
    }
    for (const MemoryAccess& write : streams.writes) {
        for (const MemoryAccess& read : streams.reads) {
            if (write.extent.overlaps(read.extent)) {
                judge.warn("the address ranges of %s and %s overlap: silicon reads inputs while it writes", write.what,
                           read.what);
            }
        }
    }
    return judge.refused() ? std::nullopt : task;
}

void Core::execute(const Task& task, const Memory& memory) {
    if (task.pooling) {
        run_pooling(*task.pooling, memory);
        return;
    }
    dpu_.begin(*task.dpu, memory);
    if (!task.convolution) {
        dpu_.run_flying();
        dpu_.finish();
        return;
    }
    convolver_.run(*task.convolution,
                   {memory.from(static_cast<std::uint64_t>(feature_extent(*task.convolution).begin)).data(),
                    memory.from(task.convolution->weight_address).data()},
                   dpu_);
    dpu_.finish();
}

// Moves the pointers of the started blocks on. Returns the interrupt bit that ends the task.
std::uint32_t Core::start(std::uint32_t enable) {
    const std::uint32_t interrupt = enable == rockchip::enable_pooling
                                        ? 0x400U << registers_.block(Block::PPU).pointer()
                                        : 0x100U << registers_.block(Block::DPU).pointer();
    for (const StartedBlock& started : started_blocks) {
        if ((enable & started.bit) != 0) {
            registers_.block(started.block).started();
        }
    }
    return interrupt;
}

// Runs what the enable word of a list starts; empty when it must not run.
std::optional<TaskWork> Core::run_task(std::uint32_t enable, const Memory& memory, Judge& judge, KickResult& result) {
    if (options_.chip->registers == rockchip::RegisterMap::rv1106) {
        const auto work = run_rv1106_task(rv1106_, enable, memory, judge);
        result.interrupts = 0x100;
        rv1106_.poison(options_.poison_seed + result.tasks_finished);
        return work;
    }
    const std::optional<Task> task = check(enable, memory, judge, result.dma_error);
    if (!task) {
        return std::nullopt;
    }
    execute(*task, memory);
    result.interrupts = start(enable);
    if (task->convolution) {
        resident_ = task->convolution;
    }
    return work_of(*task);
}

KickResult Core::run(const Kick& kick, const Memory& physical) {
    KickResult result;
    if (options_.poison_before_each_kick) {
        soft_reset();
    }
    if (!kick.continues_job) {
        resident_.reset();
    }
    registers_.armed_by_kernel(options_.index);
    const RelocatedMemory memory(physical, kick.dma_base);
    Segment at{.base = kick.base, .amount = kick.amount, .linked = true, .enable = 0};
    for (std::uint32_t number = 0; number < kick.task_number; ++number) {
        Judge judge(options_.index, number, options_.mode);
        std::optional<TaskWork> work;
        std::optional<Segment> next;
        if (!at.linked || (at.base == 0 && at.amount == 0)) {
            judge.stop(Severity::hang,
                       "TASK_NUMBER is %u, but the chain ends after %u tasks: the last tail does not "
                       "lead anywhere",
                       kick.task_number, number);
        } else {
            // Of the RV1106 it is published that all addresses are relative to the base, those of lists included.
            const bool relative_lists = options_.chip->registers == rockchip::RegisterMap::rv1106;
            next = fetch(at, relative_lists ? static_cast<const Memory&>(memory) : physical, judge);
            if (next) {
                work = run_task(next->enable, memory, judge, result);
            }
        }
        std::ranges::move(judge.findings(), std::back_inserter(result.findings));
        if (!work) {
            return result;
        }
        work->command_words = rockchip::words_fetched(at.amount);
        result.work.push_back(*work);
        at = *next;
        ++result.tasks_finished;
    }
    result.finished = kick.task_number > 0;
    if (!result.finished) {
        result.findings.push_back({Severity::hang, options_.index, 0, "a kick with TASK_NUMBER = 0 runs nothing"});
    }
    return result;
}

}  // namespace npu::sim
