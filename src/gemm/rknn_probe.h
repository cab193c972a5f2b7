// Which products a librknnrt really computes. What it lists, what it creates and what it computes differ: some types are
// refused on a chip, some give zeros (an old driver under a new library did so even for halves), and the library says
// success all the same (users' reports). So each type is tried once with small integers, whose products are exact in every
// format here, over two kernel groups, two channel blocks and three rows, and compared with integer sums.
//
// Types are left out that one chip is known to answer by ending the process (int8 to fp32, 9), or that this engine could
// not feed. The cores of a chip are found the same way: those that a context may be tied to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/layout.h"
#include "gemm/rknn_library.h"

namespace npu::gemm::rknn {

// The number formats of a type.
struct TypeInfo {
    MatmulType type;
    const char* name;
    rockchip::Precision input;   // of A and B
    rockchip::Precision output;  // of C
    bool since_1_6;              // otherwise since 2.0
};

// nullptr for a type that the engine does not know how to feed.
const TypeInfo* find_type(MatmulType type);

struct ProbedType {
    const TypeInfo* type = nullptr;
    bool runs = false;
    std::string reason;  // why it does not
};

// Whether the library's idea of where elements lie is ours: bytes and block of B, and no smaller A or C. Error
// `unsupported` names the difference; it is the error that other chips than RK3588 and RK3576 give.
Result<void> check_layouts(const Context& context, const TypeInfo& type);

// Tries one type. Error: `unsupported` with what went wrong.
Result<void> probe_type(const Session& session, const TypeInfo& type);

// Tries every type that the release has.
std::vector<ProbedType> probe_types(const Session& session);

// Cores that a context may be tied to, up to `most`; 0 when the library chooses.
std::uint32_t probe_cores(const Session& session, std::uint32_t most);

}  // namespace npu::gemm::rknn
