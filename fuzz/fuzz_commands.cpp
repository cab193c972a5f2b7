// Command streams against one core. The input is either a memory image with words as they are, or up to four linked lists
// made from recipes (programs.h), run in strict or lenient mode over five small buffers that a sanitizer watches.
//
// Beyond not crashing: a kick that ran no task has written nothing, and the portable and the fast arithmetic kernels
// leave the same bytes.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "fuzz/input.h"
#include "fuzz/programs.h"
#include "sim/core.h"

namespace npu::fuzz {
namespace {

constexpr std::uint32_t list_stride = 0x3000;
constexpr std::uint32_t most_lists = 4;
static_assert(most_words * 8 <= list_stride);
constexpr std::uint64_t most_operations = std::uint64_t{1} << 20;

constexpr Places places{.features = 0x00100000, .weights = 0x00200000, .outputs = 0x00300000, .operands = 0x00400000};

// Buffers of their own on the heap, so that a step beyond one of them is seen.
class Arena {
  public:
    Arena() {
        add(0, list_stride * most_lists);
        for (const std::uint32_t iova : {places.features, places.weights, places.outputs, places.operands}) {
            add(iova, place_bytes);
        }
    }
    [[nodiscard]] std::uint8_t* buffer(std::size_t index) { return buffers_[index].bytes.get(); }
    [[nodiscard]] const sim::Memory& memory() const { return memory_; }
    void copy_from(const Arena& other) {
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            std::memcpy(buffers_[i].bytes.get(), other.buffers_[i].bytes.get(), buffers_[i].size);
        }
    }
    [[nodiscard]] bool same_as(const Arena& other) const {
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            if (std::memcmp(buffers_[i].bytes.get(), other.buffers_[i].bytes.get(), buffers_[i].size) != 0) {
                return false;
            }
        }
        return true;
    }

  private:
    struct Buffer {
        std::unique_ptr<std::uint8_t[]> bytes;
        std::size_t size;
    };
    void add(std::uint32_t iova, std::size_t size) {
        buffers_.push_back({std::make_unique<std::uint8_t[]>(size), size});
        (void)memory_.map(iova, std::as_writable_bytes(std::span(buffers_.back().bytes.get(), size)));
    }

    std::vector<Buffer> buffers_;
    sim::MappedMemory memory_;
};

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
}

struct Plan {
    sim::CoreOptions options;
    std::vector<sim::Kick> kicks;
    bool compare_kernels = false;
};

// Lists from recipes; returns the kick that runs them.
sim::Kick draw_chain(Input& input, Arena& arena) {
    const std::uint32_t count = 1 + input.index(most_lists);
    std::uint32_t next = 0;
    std::uint32_t next_words = 0;
    for (std::uint32_t i = count; i-- > 0;) {
        const List list = draw_list(input, places, next, next_words);
        next = i * list_stride;
        next_words = static_cast<std::uint32_t>(list.words.size());
        std::memcpy(arena.buffer(0) + next, list.words.data(), list.words.size() * 8);
    }
    sim::Kick kick{.base = 0, .amount = rockchip::fetch_amount(next_words), .task_number = count};
    if (input.one_in(16)) {
        kick.task_number = input.index(8);
    }
    if (input.one_in(32)) {
        kick.amount = input.draw<std::uint32_t>();
    }
    if (input.one_in(32)) {
        kick.base = input.draw<std::uint32_t>();
    }
    if (input.one_in(32)) {
        kick.dma_base = input.draw<std::uint32_t>();
    }
    return kick;
}

Plan draw_plan(Input& input, Arena& arena) {
    Plan plan;
    const std::uint32_t how = input.draw<std::uint8_t>();
    plan.options.mode = (how & 1U) != 0 ? sim::Mode::lenient : sim::Mode::strict;
    plan.options.index = how >> 1 & 1U;
    plan.options.poison_before_each_kick = (how & 4U) != 0;
    plan.options.most_operations = most_operations;
    plan.compare_kernels = (how & 8U) != 0;
    for (std::size_t i = 1; i <= 4; ++i) {
        fill_data(input, std::span(arena.buffer(i), place_bytes));
    }
    if ((how & 0x70U) == 0x70) {  // words as they are
        sim::Kick kick{.base = 0, .amount = input.draw<std::uint16_t>(), .task_number = 1 + input.index(most_lists)};
        const auto image = input.take_rest();
        std::copy_n(image.begin(), std::min<std::size_t>(image.size(), list_stride * most_lists), arena.buffer(0));
        plan.kicks.push_back(kick);
        return plan;
    }
    const std::uint32_t kicks = 1 + input.index(2);
    plan.kicks.push_back(draw_chain(input, arena));
    for (std::uint32_t i = 1; i < kicks; ++i) {  // the same lists again, on registers that now hold something
        sim::Kick again = plan.kicks.front();
        again.continues_job = input.index(2) == 1;
        plan.kicks.push_back(again);
    }
    return plan;
}

void run(const Plan& plan, Arena& arena, const sim::MacKernels& kernels) {
    sim::CoreOptions options = plan.options;
    options.kernels = &kernels;
    sim::Core core(options);
    static Arena before;
    for (const sim::Kick& kick : plan.kicks) {
        before.copy_from(arena);
        const sim::KickResult result = core.run(kick, arena.memory());
        if (result.finished != (result.tasks_finished == kick.task_number && kick.task_number != 0)) {
            fail("a kick is finished when all its tasks are");
        }
        if (!result.finished && result.findings.empty()) {
            fail("a kick that does not finish says why");
        }
        if (result.tasks_finished == 0 && !arena.same_as(before)) {
            fail("a kick that ran no task has written nothing");
        }
        if (!result.finished) {
            core.soft_reset();
        }
    }
}

}  // namespace
}  // namespace npu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace npu;
    static fuzz::Arena arena;
    static fuzz::Arena other;
    static const fuzz::Arena zeros;
    arena.copy_from(zeros);
    fuzz::Input input(data, size);
    const fuzz::Plan plan = fuzz::draw_plan(input, arena);
    if (plan.compare_kernels) {
        other.copy_from(arena);
        fuzz::run(plan, other, sim::portable_kernels());
    }
    fuzz::run(plan, arena, sim::best_kernels());
    if (plan.compare_kernels && !arena.same_as(other)) {
        fuzz::fail("portable and fast kernels compute the same");
    }
    return 0;
}
