#include "rockchip/checker.h"

#include <algorithm>
#include <optional>

#include "base/result.h"
#include "rockchip/checker_memory.h"
#include "rockchip/checker_task.h"
#include "rockchip/checker_words.h"
#include "rockchip/disassembler.h"

namespace npu::rockchip {

namespace {

constexpr std::uint16_t offset_task_con = reg::PC::TASK_CON::offset;
constexpr std::uint16_t offset_interrupt_mask = reg::PC::INTERRUPT_MASK::offset;

// Walks a chain as the PC does.
class ChainReader {
  public:
    ChainReader(const CheckInput& input, const ChipProfile& chip) : input_(input), chip_(chip) {}

    std::vector<Violation> read() {
        if (check_submission()) {
            std::uint64_t address = input_.words_iova + 8ULL * input_.first_word;
            std::uint32_t amount = fetch_amount(input_.body_words + tail_words);
            for (std::size_t position = 0; position < input_.task_number; ++position) {
                findings_.set_task(position);
                if (!read_task(position, position + 1 == input_.task_number, address, amount)) {
                    break;
                }
            }
            std::size_t position = input_.task_number;
            for (const CheckTask& task : input_.more_tasks) {
                findings_.set_task(position);
                file_ = check::RegisterFile();
                address = input_.words_iova + 8ULL * task.first_word;
                amount = fetch_amount(task.body_words + tail_words);
                read_task(position++, true, address, amount);
            }
            outputs_.check(findings_);
        }
        std::vector<Violation> violations = findings_.take();
        std::stable_sort(violations.begin(), violations.end(),
                         [](const Violation& a, const Violation& b) { return a.task < b.task; });
        return violations;
    }

  private:
    bool check_submission();
    void check_interrupt_pairs();
    void check_completion(std::uint32_t enable);
    bool read_task(std::size_t position, bool last, std::uint64_t& address, std::uint32_t& amount);
    std::span<const std::uint64_t> fetch(std::uint64_t address, std::uint32_t amount);
    void check_leftover(std::span<const std::uint64_t> leftover);
    void check_operation(std::size_t position, std::uint32_t enable);
    bool follow(std::size_t position, bool last, const check::Tail& tail);

    const CheckInput& input_;
    const ChipProfile& chip_;
    check::Findings findings_;
    check::RegisterFile file_;
    check::OutputMap outputs_;
    std::optional<check::Convolution> previous_;
    bool interrupt_pairs_ = true;  // the mask consists of whole pairs
};

bool ChainReader::check_submission() {
    const std::uint32_t number = input_.task_number;
    const auto refuse = [&](std::uint16_t offset, std::uint32_t value, const char* source, const std::string& why) {
        findings_.refuse(offset, value, consequence::hangs, source, why);
        return false;
    };
    check_interrupt_pairs();
    if (number == 0) {
        return refuse(offset_task_con, 0, source::kernel, "TASK_NUMBER is 0: nothing runs and nothing completes");
    }
    if (number > chip_.max_tasks_per_submit) {
        return refuse(
            offset_task_con, number, source::kernel,
            format("TASK_NUMBER %u exceeds %u, where the task counter wraps", number, chip_.max_tasks_per_submit));
    }
    if (input_.mainline_driver && !input_.batched && number != 1) {
        return refuse(offset_task_con, number, source::kernel,
                      "the mainline driver starts every task by itself; it follows no chain unless it is patched");
    }
    if (input_.body_words == 0 || input_.first_word >= input_.words.size()) {
        return refuse(offset_pc_register_amounts, input_.body_words, source::submission,
                      format("no commands: first word %zu of %zu, %u words in the body", input_.first_word,
                             input_.words.size(), input_.body_words));
    }
    return true;
}

// The vendor driver widens the status to whole pairs and wants it equal to the mask; anything else is logged as invalid
// and the job times out.
void ChainReader::check_interrupt_pairs() {
    const std::uint32_t mask = input_.interrupt_mask;
    if (((mask ^ (mask >> 1)) & 0x5555U) != 0 || mask == 0 || mask >= 0x1000) {
        findings_.refuse(offset_interrupt_mask, mask, consequence::hangs, source::kernel,
                         "not whole pairs of block interrupts: the driver never sees its equal");
        interrupt_pairs_ = false;
    }
}

// The last task raises the interrupt that the driver waits for.
void ChainReader::check_completion(std::uint32_t enable) {
    const bool pooling = enable == enable_pooling;
    const std::uint32_t expected = pooling ? interrupt_ppu : interrupt_dpu;
    if (interrupt_pairs_ && input_.interrupt_mask != expected) {
        findings_.refuse(offset_interrupt_mask, input_.interrupt_mask, consequence::hangs, source::kernel,
                         format("a chain that ends in %s completes with the %s pair 0x%x",
                                pooling ? "pooling" : "a matmul", pooling ? "PPU" : "DPU", expected));
    }
}

std::span<const std::uint64_t> ChainReader::fetch(std::uint64_t address, std::uint32_t amount) {
    const auto refuse = [&](const char* consequence, const char* source, const std::string& why) {
        findings_.refuse(offset_pc_base_address, static_cast<std::uint32_t>(address), consequence, source, why);
        return std::span<const std::uint64_t>{};
    };
    const std::uint64_t begin = input_.words_iova;
    const std::uint64_t end = begin + input_.words.size_bytes();
    if (address % 16 != 0) {
        return refuse(consequence::hangs, source::manual, "command address is no multiple of 16 bytes");
    }
    if (address < begin || address >= end) {
        return refuse(consequence::dma_error, source::submission,
                      format("command address lies outside the command words, 0x%llx to 0x%llx",
                             static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end)));
    }
    const std::uint64_t count = words_fetched(amount);
    const std::uint64_t present = (end - address) / 8;
    if (count > present + 1) {  // an odd task is fetched with one word more than it has
        return refuse(consequence::dma_error, source::submission,
                      format("amount 0x%x fetches %llu words, %llu are there", amount,
                             static_cast<unsigned long long>(count), static_cast<unsigned long long>(present)));
    }
    const auto first = static_cast<std::int64_t>(address);
    if (input_.words_iova_known) {
        check::check_inside({first, first + 8 * static_cast<std::int64_t>(std::min(count, present))}, false,
                            offset_pc_base_address, static_cast<std::uint32_t>(address), "command words",
                            input_.buffers, findings_);
    }
    return input_.words.subspan(static_cast<std::size_t>((address - begin) / 8),
                                static_cast<std::size_t>(std::min(count, present)));
}

// The PC goes on applying what it fetched after the enable word; harmless only when that is padding.
void ChainReader::check_leftover(std::span<const std::uint64_t> leftover) {
    for (const std::uint64_t word : leftover) {
        const Command command = decode(word);
        if (command.target == target::enable) {
            findings_.refuse(command.offset, command.value, consequence::not_understood, source::none,
                             "a second enable word inside one fetch: the amount reaches into another task");
            return;
        }
    }
    const auto found =
        std::find_if(leftover.begin(), leftover.end(), [](std::uint64_t word) { return !is_padding(word); });
    if (found != leftover.end()) {
        findings_.warn(decode(*found).offset, decode(*found).value, consequence::corrupts, source::inferred,
                       "fetched after the enable word: it lands in the next task's register group");
    }
}

void ChainReader::check_operation(std::size_t position, std::uint32_t enable) {
    const std::optional<check::Task> task = check::read_task(file_, enable, chip_, findings_);
    if (task && check::check_memory(*task, input_, findings_)) {
        outputs_.add(position, *task);
    }
    const std::optional<check::Convolution> convolution = task ? task->convolution : std::nullopt;
    if (convolution) {
        check::check_cbuf(*convolution, previous_ ? &*previous_ : nullptr, chip_, findings_);
        if (previous_ && previous_->input != convolution->input) {
            // Entering int8 or int4 from another mode needed a reset on some boards.
            const std::uint16_t offset = reg::CNA::CONV_CON1::offset;
            findings_.warn(offset, file_.value(offset), consequence::hangs, source::measured,
                           format("the chain changes from %s to %s; some transitions needed a reset between them",
                                  info(previous_->input).name, info(convolution->input).name));
        }
    }
    previous_ = convolution;  // whatever fires in between, reuse is known between neighbours only
}

// The next task's address and amount, for the PC. False when the chain ends here.
bool ChainReader::follow(std::size_t position, bool last, const check::Tail& tail) {
    if (last && tail.names_next && tail.next_amount != 0 && (!input_.mainline_driver || input_.batched)) {
        findings_.warn(
            offset_task_con, input_.task_number, consequence::corrupts, source::manual,
            format("TASK_NUMBER %u ends the chain here, but the tail names another task at 0x%08x, which does "
                   "not run",
                   input_.task_number, tail.next_address));
    }
    if (!last && !tail.names_next) {
        findings_.refuse(offset_task_con, input_.task_number, consequence::hangs, source::manual,
                         format("TASK_NUMBER is %u, but the chain ends after %zu: its tail names no next task",
                                input_.task_number, position + 1));
        return false;
    }
    return !last;
}

bool ChainReader::read_task(std::size_t position, bool last, std::uint64_t& address, std::uint32_t& amount) {
    const std::span<const std::uint64_t> window = fetch(address, amount);
    const auto enable = std::find_if(window.begin(), window.end(),
                                     [](std::uint64_t word) { return decode(word).target == target::enable; });
    const auto length = static_cast<std::size_t>(enable - window.begin());
    if (window.empty()) {
        return false;
    }
    if (enable == window.end() || length + 1 < tail_words) {
        findings_.refuse(
            offset_pc_register_amounts, amount, consequence::hangs, source::measured,
            format("no tail with an enable word within the %zu words fetched: the amount is too small, or the "
                   "tail is missing",
                   window.size()));
        return false;
    }
    const std::span<const std::uint64_t> body = window.first(length + 1 - tail_words);
    check::apply_body(body, file_, findings_);
    check_leftover(window.subspan(length + 1));
    const check::Tail tail = check::read_tail(window.subspan(body.size(), tail_words), findings_);
    if (!tail.valid) {
        return false;
    }
    if (check::check_enable(tail.enable, input_, findings_)) {
        check::check_pointers(body, tail.enable, findings_);
        check_operation(position, tail.enable);
    } else {
        previous_.reset();
    }
    if (last) {
        check_completion(tail.enable);
    }
    file_.fire(tail.enable);
    address = tail.next_address;
    amount = tail.next_amount;
    return follow(position, last, tail);
}

}  // namespace

std::vector<Violation> check_program(const CheckInput& input, const ChipProfile& chip) {
    return ChainReader(input, chip).read();
}

const Violation* first_refusal(std::span<const Violation> violations) {
    const auto found = std::find_if(violations.begin(), violations.end(),
                                    [](const Violation& violation) { return violation.severity == Severity::refuse; });
    return found != violations.end() ? &*found : nullptr;
}

}  // namespace npu::rockchip
