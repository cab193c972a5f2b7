// Which command programs must not be submitted? The NPU trusts what it fetches: a wrong tail hangs a core until
// reset, a stride that is too small destroys results without a word, an address outside the job's buffers is a
// DMA error or somebody else's memory. `check_program` reads a program as the hardware would, before it is
// submitted, and refuses what is known to hang or to corrupt, and also what no source explains.
//
// It walks the chain as the PC does: fetch `amount` beats at an address, apply each write to the shadow register
// group that the block's pointer selects, fire at the enable word, follow the tail to the next task. Both groups
// are kept, so a task may inherit registers from the task two positions earlier, which is what the silicon does;
// a register that nobody wrote in this chain holds whatever the previous client left there, and is refused.
//
// Three kinds of task are understood: convolutions and matmuls (CNA, CORE and DPU fire, with or without DPU_RDMA),
// flying element-wise tasks (DPU and DPU_RDMA) and pooling (PPU and PPU_RDMA). Every register value and every address
// extent is derived here from the registers alone: this is a reading of the hardware independent of the generator and
// of the simulator. One file holds one idea:
//   checker_words        tails, targets, register groups        checker_stages       BS, BN and weight zero point
//   checker_values       which registers must be written        checker_elementwise  EW stage and lookup tables
//   checker_convolution  plane, channels, kernels               checker_operands     DPU_RDMA
//   checker_cbuf         on-chip buffer, reuse                  checker_pooling      PPU and PPU_RDMA
//   checker_output       formats, output converter, writer      checker_memory       addresses and overlaps
// Sources: register manual chapter 36, both kernel drivers, captured programs, published measurements; each violation
// names the one behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rockchip/chip.h"
#include "rockchip/command.h"

namespace npu::rockchip {

enum class Severity {
    warn,    // published hazard that this program may meet; may be submitted
    refuse,  // must not be submitted
};

// What would happen; `Violation::consequence` points to one of these, so that addresses may be compared.
namespace consequence {
inline constexpr char hangs[] = "hangs";
inline constexpr char corrupts[] = "silent corruption";
inline constexpr char dma_error[] = "DMA error";
inline constexpr char not_understood[] = "refused as not understood";
}  // namespace consequence

// What a rule rests on; `Violation::source` points to one of these.
namespace source {
inline constexpr char manual[] = "register manual";
inline constexpr char kernel[] = "kernel driver source";
inline constexpr char programs[] = "captured and hardware-tested programs";
inline constexpr char measured[] = "published measurement";
inline constexpr char layout[] = "address model that fits every captured program";
inline constexpr char inferred[] = "inferred from published facts";
inline constexpr char submission[] = "the submission itself";
inline constexpr char none[] = "no source explains it";
}  // namespace source

// A device buffer that the job may touch.
struct CheckBuffer {
    std::uint64_t iova = 0;
    std::uint64_t bytes = 0;
    bool writable = false;  // by the device
};

// A task that the mainline driver starts by itself, after the one before it.
struct CheckTask {
    std::size_t first_word = 0;
    std::uint32_t body_words = 0;  // without its tail
};

// One submission to one core. Nothing is owned; everything must live until the check returns.
struct CheckInput {
    std::span<const std::uint64_t> words;  // command words, as the device will fetch them
    std::uint64_t words_iova = 0;          // address of words[0]
    std::size_t first_word = 0;            // where the first task begins
    std::uint32_t body_words = 0;          // of the first task, without its four-word tail (kernel: regcfg_amount)
    std::uint32_t task_number = 1;         // tasks in the chain
    std::uint32_t interrupt_mask = interrupt_dpu;  // of the last task
    std::span<const CheckBuffer> buffers;          // all of the job's, commands included; empty: not known, not checked
    bool mainline_driver = false;                  // one task per submission, and DPU_RDMA must always be programmed
    bool batched = false;          // mainline driver with the patch that submits chains (interface 1.1 and later)
    bool words_iova_known = true;  // false: words_iova was made up, so nothing can be said about what lies there
    // Mainline driver: further tasks of the same job. Each is started on its own, inherits no registers (measured), and
    // finds the on-chip buffer as the one before left it.
    std::span<const CheckTask> more_tasks = {};
};

struct Violation {
    Severity severity = Severity::refuse;
    std::size_t task = 0;      // position in the chain
    std::uint16_t offset = 0;  // register; chain faults name the PC register they concern
    std::uint32_t value = 0;
    std::string message;  // names task, register, value, bound, consequence and source
    const char* consequence = "";
    const char* source = "";
};

// All violations, in order of task. Reading stops at a task whose successor cannot be found, and keeps at most
// `violation_limit` entries (never losing the first refusal). Pure; thread-safe.
inline constexpr std::size_t violation_limit = 256;
std::vector<Violation> check_program(const CheckInput& input, const ChipProfile& chip);

// The first violation that forbids submission, or nullptr.
const Violation* first_refusal(std::span<const Violation> violations);

}  // namespace npu::rockchip
