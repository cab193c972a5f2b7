// A file with everything that later questions start from: its functions, how control moves between them, and who branches
// where. Built once, then only read.
#pragma once

#include <set>

#include "elf/decode.h"
#include "elf/functions.h"
#include "elf/strings.h"

namespace npu::elf {

// A direct branch or call.
struct Branch {
    std::uint64_t site = 0;
    std::uint64_t target = 0;
    Op op = Op::other;  // call, jump, branch_if, compare_branch, test_branch
};

class Program {
  public:
    // Errors: those of read_dynamic().
    static Result<Program> analyse(Image image);

    [[nodiscard]] const Image& image() const { return image_; }
    [[nodiscard]] const Dynamic& dynamic() const { return dynamic_; }
    [[nodiscard]] const Strings& strings() const { return strings_; }
    [[nodiscard]] const std::vector<Function>& functions() const { return functions_; }
    [[nodiscard]] const std::map<std::uint64_t, std::string>& stubs() const { return stubs_; }
    // All direct branches and calls, by target.
    [[nodiscard]] const std::vector<Branch>& branches() const { return branches_; }
    [[nodiscard]] std::span<const Branch> branches_to(std::uint64_t target) const;

    [[nodiscard]] const Function* function_at(std::uint64_t address) const;
    // The name of what begins at an address: symbol, import, or fn_<address>.
    [[nodiscard]] std::string name_of(std::uint64_t address) const;
    // Address of a function by symbol, by import (its stub) or by fn_<address>.
    [[nodiscard]] std::optional<std::uint64_t> address_of(std::string_view name) const;
    // Whether a call to an address never comes back.
    [[nodiscard]] bool ends_program(std::uint64_t target) const;
    [[nodiscard]] Instruction instruction(std::uint64_t address) const;

    // The parts of one function: compilers move cold code elsewhere, and conditional branches lead there. Each group holds
    // indices into functions(), by address; every function is in one.
    [[nodiscard]] const std::vector<std::vector<std::size_t>>& groups() const { return groups_; }

  private:
    explicit Program(Image image) : image_(std::move(image)) {}
    void collect_branches();
    void find_ends();
    void group();

    Image image_;
    Dynamic dynamic_;
    Strings strings_;
    std::map<std::uint64_t, std::string> stubs_;
    std::vector<Function> functions_;
    std::vector<Branch> branches_;
    std::set<std::uint64_t> endless_;  // functions and stubs that never return
    std::vector<std::vector<std::size_t>> groups_;
};

}  // namespace npu::elf
