// Running a compiled model. The executor loads it, asks what its shape groups take and give, makes a buffer for every
// tensor of a group and binds all of them, since the card wants each input and output bound with exactly the size that
// this group has (../shared/reference/axera.md, 1.12). Buffers are zeroed before the first run: what was never written
// is NaN to a float model.
//
// A tensor is found by its name; the suffix that a shape group adds (mask_1) may be left out. Types that the card does
// not report (older versions say NONE for bf16) are derived from the size of an element.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "axera/runtime.h"

namespace npu::axera {

struct TensorInfo {
    std::string name;
    std::vector<std::int32_t> dims;
    std::uint64_t bytes = 0;
    axcl::DataType type = axcl::DataType::none;
    bool type_derived = false;  // not reported, but from the size of an element
};

const char* data_type_name(axcl::DataType type);  // "bf16"
unsigned data_type_bits(axcl::DataType type);     // 0 for none

// Numbers for a run that has no data: floats in [-1, 1), integers over their whole range, the same for one seed.
Buffer make_pattern(axcl::DataType type, std::size_t bytes, std::uint64_t seed);

class Executor {
  public:
    // Loads. Errors: no such file, a file that is larger than the free memory, the card refuses it (the code and what it means), a description without meaning.
    static Result<std::unique_ptr<Executor>> load(std::shared_ptr<Card> card, const std::string& path);
    ~Executor();  // frees buffers, unloads
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    [[nodiscard]] std::size_t groups() const { return groups_.size(); }
    [[nodiscard]] const std::vector<TensorInfo>& inputs(std::size_t group) const { return groups_[group].inputs; }
    [[nodiscard]] const std::vector<TensorInfo>& outputs(std::size_t group) const { return groups_[group].outputs; }
    [[nodiscard]] const std::string& compiler() const { return compiler_; }

    // Makes, zeroes and binds the buffers of a group; again does nothing. The others want it done.
    Result<void> prepare(std::size_t group);
    // All bytes of a tensor. Errors: no such tensor (with the names there are), another size.
    Result<void> write(std::size_t group, const std::string& input, Bytes from);
    Result<void> read(std::size_t group, const std::string& output, std::span<std::uint8_t> to) const;
    // Runs and waits.
    Result<void> run(std::size_t group);
    // Starts; `wait` ends it. One at a time. Errors: a library without streams.
    Result<void> start(std::size_t group);
    Result<void> wait();

  private:
    struct Group {
        std::vector<TensorInfo> inputs, outputs;
        std::vector<DeviceMemory> input_buffers, output_buffers;
        axcl::Io io = nullptr;
    };

    Executor(std::shared_ptr<Card> card, std::string path) : card_(std::move(card)), path_(std::move(path)) {}
    Result<void> describe();
    Result<TensorInfo> describe_tensor(bool input, std::uint32_t group, std::uint32_t index) const;
    [[nodiscard]] Result<const Group*> prepared(std::size_t group) const;
    [[nodiscard]] Result<std::size_t> find(const std::vector<TensorInfo>& tensors, const std::string& name,
                                           std::size_t group) const;
    [[nodiscard]] Error failed(axcl::Error error, const std::string& call) const;

    std::shared_ptr<Card> card_;
    std::string path_, compiler_;
    std::uint64_t model_ = 0, context_ = 0;
    axcl::IoInfo info_ = nullptr;
    axcl::Stream stream_ = nullptr;
    std::vector<Group> groups_;
};

}  // namespace npu::axera
