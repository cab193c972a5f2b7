#include "compile/program.h"

#include <cassert>

#include "compile/reduce.h"
#include "rockchip/registers.h"

namespace npu::compile {

namespace reg = rockchip::reg;
using rockchip::atom_bytes;
using rockchip::encode;
using rockchip::tail_words;

namespace {

constexpr std::uint32_t segment_words = segment_bytes / sizeof(std::uint64_t);
constexpr std::uint64_t address_limit = std::uint64_t{1} << 32;

const char* buffer_name(Buffer buffer) {
    switch (buffer) {
        case Buffer::features: return "features";
        case Buffer::weights: return "weights";
        case Buffer::output: return "output";
        case Buffer::program: return "program";
    }
    return "unknown";
}

std::uint64_t base_of(const Addresses& bases, Buffer buffer) {
    switch (buffer) {
        case Buffer::features: return bases.features;
        case Buffer::weights: return bases.weights;
        case Buffer::output: return bases.output;
        case Buffer::program: return bases.program;
    }
    return 0;
}

// A buffer of `bytes` at its base is aligned and ends within the address space.
Result<void> check_base(const Addresses& bases, Buffer buffer, std::uint64_t bytes) {
    const std::uint64_t base = base_of(bases, buffer);
    const std::uint32_t alignment = buffer == Buffer::program ? segment_bytes : atom_bytes;
    if (base % alignment != 0) {
        return make_error(ErrorCode::invalid_argument, "%s at 0x%llx: must be aligned to %u bytes", buffer_name(buffer),
                          static_cast<unsigned long long>(base), alignment);
    }
    if (base > address_limit || bytes > address_limit - base) {
        return make_error(ErrorCode::invalid_argument,
                          "%s of %llu bytes at 0x%llx: ends beyond the 32-bit addresses of the NPU; allocate it lower "
                          "or in another address space",
                          buffer_name(buffer), static_cast<unsigned long long>(bytes),
                          static_cast<unsigned long long>(base));
    }
    return {};
}

// A task to be written, without its tail.
struct Segment {
    std::vector<Command> body;
    std::uint32_t enable = 0;
    bool reads_output = false;  // through DPU_RDMA, whose addresses are zero else
};

// The buffer that a register points into, if it holds an address.
bool holds_address(const rockchip::Command& command, bool reads_output, Buffer& buffer) {
    switch (command.offset) {
        case reg::DPU_RDMA::SRC_BASE_ADDR::offset:
        case reg::DPU_RDMA::EW_BASE_ADDR::offset: buffer = Buffer::output; return reads_output;
        case reg::CNA::FEATURE_DATA_ADDR::offset: buffer = Buffer::features; return true;
        case reg::CNA::DCOMP_ADDR0::offset: buffer = Buffer::weights; return true;
        case reg::DPU::DST_BASE_ADDR::offset: buffer = Buffer::output; return true;
        default: return false;
    }
}

// Appends a segment whose tail does not lead anywhere yet.
Result<void> append(Program& program, const Segment& segment, const Addresses& bases) {
    const auto& [body, enable, reads_output] = segment;
    program.words.resize(align_up<std::size_t>(program.words.size(), segment_words));
    const auto start = narrow<std::uint32_t>(program.words.size());
    program.tasks.push_back({start, narrow<std::uint32_t>(body.size()), enable});
    for (const Command& command : body) {
        if (Buffer buffer{}; holds_address(command, reads_output, buffer)) {
            const std::uint64_t base = base_of(bases, buffer);
            if (command.value < base) {
                return make_error(ErrorCode::invalid_argument, "task address 0x%x lies below its %s buffer at 0x%llx",
                                  command.value, buffer_name(buffer), static_cast<unsigned long long>(base));
            }
            program.relocations.push_back({narrow<std::uint32_t>(program.words.size()), buffer, command.value - base});
        }
        program.words.push_back(encode(command));
    }
    program.words.push_back(0);  // last of a chain: no next task
    program.words.push_back(encode({rockchip::target::pc, rockchip::offset_pc_register_amounts, 0}));
    program.words.push_back(encode({rockchip::target::separator, 0, 0}));
    program.words.push_back(encode({rockchip::target::enable, rockchip::offset_enable, enable}));
    return {};
}

// Makes the tail of a task lead to another one. Returns the word that holds the address.
std::uint32_t lead(Program& program, const TaskEntry& task, const NextTask& next) {
    const std::uint32_t tail = task.word_offset + task.body_words;
    program.words[tail] =
        encode({rockchip::target::pc, rockchip::offset_pc_base_address, static_cast<std::uint32_t>(next.address)});
    program.words[tail + 1] = encode({rockchip::target::pc, rockchip::offset_pc_register_amounts,
                                      rockchip::fetch_amount(next.body_words + tail_words)});
    return tail;
}

// Makes the tail of task `index` lead to task `index + 1`.
void chain(Program& program, std::size_t index, std::uint64_t program_base) {
    const TaskEntry& next = program.tasks[index + 1];
    const std::uint64_t addend = std::uint64_t{next.word_offset} * sizeof(std::uint64_t);
    const std::uint32_t word = lead(program, program.tasks[index], {program_base + addend, next.body_words});
    program.relocations.push_back({word, Buffer::program, addend});
}

Mapping mapping_of(const PlanOptions& options, bool all_rows) {
    if (options.feature == Arrangement::row_major) {
        return Mapping::row_major;
    }
    if (one_pixel_wide(options)) {
        return Mapping::native_tall;
    }
    return all_rows ? Mapping::native_wide : Mapping::native_tile;
}

}  // namespace

std::vector<std::vector<TaskSpec>> task_specs(const Plan& plan, const Addresses& bases) {
    const FeatureLayout features = plan.feature_layout();
    const OutputLayout output = plan.output_layout();
    const bool accumulates = plan.reduces() && plan.options.reduction == Reduction::accumulate;
    std::vector<std::vector<TaskSpec>> cores;
    for (const std::vector<TaskTile>& tiles : plan.cores) {
        std::vector<TaskSpec>& specs = cores.emplace_back();
        specs.reserve(tiles.size());
        for (const TaskTile& tile : tiles) {
            const KTile& k_tile = plan.k_tiles[tile.k_tile];
            const WeightLayout weights = plan.weight_layout(tile.k_tile);
            const Addresses addresses{
                .features = bases.features + features.offset(tile.m0, k_tile.k0),
                .weights = bases.weights + plan.weight_offset(tile.k_tile) + weights.offset(tile.n0, 0),
                .output = bases.output + plan.output_offset(tile.k_tile) + output.offset(tile.m0, tile.n0),
                .program = 0,
            };
            specs.push_back({.mapping = mapping_of(plan.options, tile.m == plan.padded_m),
                             .output_arrangement = plan.options.output,
                             .input = plan.shape.input,
                             .output = plan.shape.output,
                             .m = tile.m,
                             .n = tile.n,
                             .k = k_tile.k,
                             .full_m = plan.padded_m,
                             .full_n = plan.padded_n,
                             .full_k = plan.padded_k,
                             .data_banks = tile.data_banks,
                             .weight_banks = tile.weight_banks,
                             .weight_reuse = tile.weight_reuse,
                             .data_reuse = tile.data_reuse,
                             .vendor_preamble = plan.options.vendor_preamble,
                             .emit_rdma = plan.options.emit_rdma || accumulates,
                             .qd_en = plan.options.qd_en,
                             .result_shift = plan.result_shift(),
                             .addresses = addresses});
            if (accumulates && tile.k_tile != 0) {
                specs.back().partial_sums =
                    bases.output + plan.output_offset(tile.k_tile - 1) + output.offset(tile.m0, tile.n0);
            }
        }
    }
    return cores;
}

namespace {

Result<std::vector<Segment>> segments_of(const std::vector<TaskSpec>& specs, const ChipProfile& chip) {
    std::vector<Segment> segments;
    for (const TaskSpec& spec : specs) {
        NPU_ASSIGN(std::vector<Command> body, emit_task(spec, chip));
        segments.push_back({std::move(body), enable_bits(spec), spec.partial_sums.has_value()});
    }
    return segments;
}

Result<Program> link_segments(std::span<const std::vector<Segment>> cores, const Addresses& bases,
                              const ChipProfile& chip) {
    Program program;
    for (const std::vector<Segment>& segments : cores) {
        if (segments.size() > chip.max_tasks_per_submit) {
            return make_error(ErrorCode::unsupported, "chain of %zu tasks: a submission holds %u; submit in parts",
                              segments.size(), chip.max_tasks_per_submit);
        }
        const auto first = narrow<std::uint32_t>(program.tasks.size());
        program.cores.push_back({first, narrow<std::uint32_t>(segments.size())});
        for (const Segment& segment : segments) {
            NPU_TRY(append(program, segment, bases));
        }
        for (std::size_t index = first; index + 1 < program.tasks.size(); ++index) {
            chain(program, index, bases.program);
        }
    }
    NPU_TRY(check_base(bases, Buffer::program, program.words.size() * sizeof(std::uint64_t)));
    return program;
}

}  // namespace

Result<Program> link_program(std::span<const std::vector<TaskSpec>> cores, const Addresses& bases,
                             const ChipProfile& chip) {
    std::vector<std::vector<Segment>> segments;
    for (const std::vector<TaskSpec>& specs : cores) {
        NPU_ASSIGN(std::vector<Segment> core, segments_of(specs, chip));
        segments.push_back(std::move(core));
    }
    return link_segments(segments, bases, chip);
}

Result<Program> build_program(const Plan& plan, const Addresses& bases, const ChipProfile& chip) {
    NPU_TRY(check_base(bases, Buffer::features, plan.feature_bytes()));
    NPU_TRY(check_base(bases, Buffer::weights, plan.weight_bytes()));
    NPU_TRY(check_base(bases, Buffer::output, plan.output_bytes()));
    std::vector<std::vector<Segment>> segments;
    for (const std::vector<TaskSpec>& specs : task_specs(plan, bases)) {
        NPU_ASSIGN(std::vector<Segment> core, segments_of(specs, chip));
        for (AddTask add : add_tasks(plan, plan.cores[segments.size()])) {
            add.augend += bases.output;
            add.addend += bases.output;
            add.sum += bases.output;
            NPU_ASSIGN(std::vector<Command> body, emit_add(add));
            core.push_back({std::move(body), rockchip::enable_element_wise, true});
        }
        segments.push_back(std::move(core));
    }
    return link_segments(segments, bases, chip);
}

void lead_on(Program& program, std::size_t core, const NextTask& next) {
    const CoreRange& range = program.cores[core];
    lead(program, program.tasks[range.first_task + range.task_count - 1], next);
}

Result<void> relocate(std::span<std::uint64_t> words, std::span<const Relocation> relocations, const Addresses& bases) {
    for (const Buffer buffer : {Buffer::features, Buffer::weights, Buffer::output, Buffer::program}) {
        NPU_TRY(check_base(bases, buffer, 0));
    }
    for (const Relocation& relocation : relocations) {
        NPU_TRY(check_base(bases, relocation.buffer, relocation.addend + 1));
        if (relocation.word >= words.size()) {
            return make_error(ErrorCode::invalid_argument, "relocation of word %u in a program of %zu", relocation.word,
                              words.size());
        }
    }
    for (const Relocation& relocation : relocations) {
        rockchip::Command command = rockchip::decode(words[relocation.word]);
        command.value = static_cast<std::uint32_t>(base_of(bases, relocation.buffer) + relocation.addend);
        words[relocation.word] = encode(command);
    }
    return {};
}

}  // namespace npu::compile
