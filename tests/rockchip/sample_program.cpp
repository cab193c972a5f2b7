#include "rockchip/sample_program.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace npu::rockchip::test {

namespace {

struct Geometry {
    std::uint32_t width, height, line, surface;  // feature side; surface in 28-bit two's complement
    std::uint32_t group_line_off;
    std::uint32_t notch, surface_stride, group_stride;
};

// Table of published layouts (feature and output): row-major, and the two ways to state the native one.
Geometry geometry_of(const SampleShape& s, std::uint32_t surfaces) {
    const std::uint32_t row_atoms = s.k * info(s.input).bits / 128;
    const std::uint32_t out_atoms = s.n * info(s.output).bits / 128;
    constexpr std::uint32_t mask28 = 0x0fffffff;
    switch (s.layout) {
        case SampleLayout::row_major: return {1, s.m, row_atoms, 0, 1, out_atoms - 1, 16, 16 * surfaces};
        case SampleLayout::wide: return {s.m, 1, 4 * s.m, (0U - 3 * s.m) & mask28, 0, 0, 16 * s.m, 16 * s.m * surfaces};
        case SampleLayout::tall: return {1, s.m, 4, (s.m - 4) & mask28, 0, 0, 16 * s.m, 16 * s.m * surfaces};
    }
    return {};
}

std::uint32_t surfaces_of(const SampleShape& s) {  // published per pair of formats
    switch (s.input) {
        case Precision::int8: return info(s.output).bits / 4;
        case Precision::int4: return 8;
        default: return info(s.output).bits / 8;
    }
}

}  // namespace

std::vector<Command> sample_body(const SampleShape& s) {
    std::vector<Command> body;
    const auto write = [&](std::uint16_t offset, std::uint32_t value) {
        static constexpr std::uint16_t targets[] = {target::pc,  target::cna,      target::none, target::core,
                                                    target::dpu, target::dpu_rdma, target::ppu,  target::ppu_rdma};
        body.push_back({targets[offset >> 12], offset, value});
    };
    const std::uint32_t bits = info(s.input).bits;
    const std::uint32_t surfaces = surfaces_of(s);
    const Geometry g = geometry_of(s, surfaces);
    const auto in = static_cast<std::uint32_t>(s.input);
    const std::uint32_t dpu_in = info(s.input).dpu_code;
    const std::uint32_t kernel_bytes = s.k * bits / 8;
    const std::uint32_t data_banks = std::max(1U, (s.m * kernel_bytes + 32767) / 32768);
    const std::uint32_t size_e = surfaces - 1;

    const std::uint32_t con0 = (12 - data_banks) << 4 | data_banks;
    const std::uint32_t con1 = g.group_line_off << 29 | in << 7 | in << 4;
    write(0x1040, con0);
    write(0x1104, 0);
    write(0x1100, 0);
    write(0x100c, con1);
    write(0x4004, 0xe);
    if (s.rdma) {
        write(0x5004, 0xe);
    }
    write(0x100c, con1);
    write(0x1010, (g.width == 1 ? std::min(s.m + 1, 1023U) : 2) << 4);
    write(0x1014, 9);
    write(0x1020, g.width << 16 | g.height);
    write(0x1024, (s.k - 1) << 16 | s.k);
    write(0x1028, g.width);
    write(0x102c, g.width * g.height);
    write(0x1030, s.n * kernel_bytes);
    write(0x1034, kernel_bytes);
    write(0x1038, 0x01010000 | s.n);
    write(0x1040, con0);
    write(0x1044, (g.width * kernel_bytes + 63) / 64);
    write(0x104c, 0xb);
    for (std::uint16_t offset = 0x1050; offset <= 0x105c; offset += 4) {
        write(offset, 0x10000);
    }
    for (const std::uint16_t offset : {0x1060, 0x1064, 0x1068}) {
        write(offset, 0);
    }
    write(0x1070, s.feature_address);
    write(0x1074, 0);
    write(0x1078, 0x000f000f);
    write(0x107c, g.line);
    write(0x1080, g.surface);
    write(0x1084, g.width << 16 | g.height);
    write(0x1088, s.k);
    write(0x1100, 0);
    write(0x1104, 0);
    write(0x1110, s.weight_address);
    for (std::uint16_t offset = 0x1140; offset <= 0x117c; offset += 4) {
        write(offset, 0);
    }
    write(0x1180, 0);
    write(0x1184, 0);
    write(0x3010, in << 8 | (s.input == Precision::int8 || s.input == Precision::int4 ? 0 : 1));
    write(0x3014, (g.height - 1) << 16 | (g.width - 1));
    write(0x3018, s.n - 1);
    write(0x301c, 0);
    write(0x3030, 0);
    write(0x400c, 0x1e4);
    write(0x4010, std::uint32_t{info(s.output).dpu_code} << 29 | dpu_in << 26 | dpu_in);
    write(0x4014, 0);
    write(0x4020, s.output_address);
    write(0x4024, g.surface_stride);
    write(0x4030, g.width - 1);
    write(0x4034, g.height - 1);
    write(0x4038, g.notch << 16 | g.notch);
    write(0x403c, (s.n - 1) << 16 | (s.n - 1));
    write(0x4040, 0x53);
    for (const std::uint16_t offset : {0x4044, 0x4048, 0x404c}) {
        write(offset, 0);
    }
    write(0x4050, size_e << 8 | size_e << 5 | size_e << 2 | 2);
    write(0x4054, 0);
    write(0x4058, s.n - 1);
    write(0x405c, (g.height - 1) << 16 | (g.width - 1));
    write(0x4060, 0x53);
    for (const std::uint16_t offset : {0x4064, 0x4068, 0x406c}) {
        write(offset, 0);
    }
    write(0x4070, 0x383);
    write(0x4074, 0);
    write(0x4078, 1);
    write(0x407c, 0);
    write(0x4080, 0);
    write(0x4084, s.output == Precision::fp16 ? 0x10001 : 1);
    write(0x4088, 0);
    for (std::uint16_t offset = 0x4090; offset <= 0x40ac; offset += 4) {
        write(offset, 0);
    }
    write(0x40c0, g.group_stride);
    write(0x40c4, 0);
    for (std::uint16_t offset = 0x4100; offset <= 0x412c; offset += 4) {
        write(offset, 0);
    }
    if (s.rdma) {
        write(0x500c, g.width - 1);
        write(0x5010, g.height - 1);
        write(0x5014, s.n - 1);
        for (const std::uint16_t offset : {0x5018, 0x501c, 0x5020, 0x5028, 0x502c}) {
            write(offset, 0);
        }
        write(0x5034, 1);
        write(0x5038, 0);
        write(0x5040, 0);
        write(0x5044, s.output == Precision::fp16 ? 0x7818 : 0x7810);
        for (const std::uint16_t offset : {0x5048, 0x504c, 0x5064}) {
            write(offset, 0);
        }
        write(0x5068, 0x01010101);
        write(0x506c, 0);
    }
    return body;
}

namespace {

std::vector<SampleTask> matmuls(const std::vector<SampleShape>& shapes) {
    std::vector<SampleTask> tasks;
    for (const SampleShape& shape : shapes) {
        tasks.push_back({sample_body(shape), shape.rdma ? enable_convolution_rdma : enable_convolution, {}});
    }
    return tasks;
}

}  // namespace

SampleProgram::SampleProgram(const std::vector<SampleShape>& shapes) : SampleProgram(matmuls(shapes)) {}

SampleProgram::SampleProgram(std::vector<SampleTask> tasks) : tasks_(std::move(tasks)) {
    input.task_number = static_cast<std::uint32_t>(tasks_.size());
    input.words_iova = sample_iova;
    buffers = {{0x00100000, 0x00700000, false},    // features
               {0x00800000, 0x01000000, false},    // weights
               {0x01800000, 0x00800000, true},     // results
               {sample_iova, 0x00400000, false}};  // commands
    assemble();
}

SampleProgram& SampleProgram::set(std::uint16_t offset, std::uint32_t value, std::size_t position) {
    bool found = false;
    for (Command& command : tasks_[position].body) {
        if (command.offset == offset) {
            command.value = value;
            found = true;
        }
    }
    EXPECT_TRUE(found) << "the sample writes no register " << offset;
    return assemble();
}

SampleProgram& SampleProgram::erase(std::uint16_t offset, std::size_t position) {
    EXPECT_NE(std::erase_if(tasks_[position].body, [&](const Command& command) { return command.offset == offset; }),
              0U);
    return assemble();
}

std::uint32_t SampleProgram::value(std::uint16_t offset, std::size_t position) const {
    std::uint32_t result = 0;
    for (const Command& command : tasks_[position].body) {
        if (command.offset == offset) {
            result = command.value;
        }
    }
    return result;
}

SampleProgram& SampleProgram::assemble() {
    words.clear();
    starts.clear();
    for (const SampleTask& task : tasks_) {  // where everything lies, before tails can say so
        words.resize((words.size() + 7) / 8 * 8);
        starts.push_back(words.size());
        words.resize(words.size() + task.body.size() + tail_words);
        words.insert(words.end(), task.after.begin(), task.after.end());
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
        std::size_t next = starts[i];
        for (const Command& command : tasks_[i].body) {
            words[next++] = encode(command);
        }
        const bool last = i + 1 == tasks_.size();
        const auto address = last ? 0 : static_cast<std::uint32_t>(sample_iova + 8 * starts[i + 1]);
        const auto length = last ? 0 : static_cast<std::uint32_t>(tasks_[i + 1].body.size());
        words[next++] = last ? 0 : encode({target::pc, 0x0010, address});
        words[next++] = encode({target::pc, 0x0014, last ? 0 : (length + 1) / 2 + 1});
        words[next++] = encode({target::separator, 0, 0});
        words[next++] = encode({target::enable, 0x0008, tasks_[i].enable});
    }
    words.resize((words.size() + 1) / 2 * 2);
    input.body_words = static_cast<std::uint32_t>(tasks_.front().body.size());
    return *this;
}

std::vector<Violation> SampleProgram::check() {
    input.words = words;
    input.buffers = buffers;
    return check_program(input, rk3588());
}

std::string messages(std::span<const Violation> violations) {
    std::string text;
    for (const Violation& violation : violations) {
        text += violation.severity == Severity::refuse ? "refuse " : "warn ";
        text += violation.message;
        text += '\n';
    }
    return text;
}

}  // namespace npu::rockchip::test
