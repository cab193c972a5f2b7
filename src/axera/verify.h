// What can be said about a model without a card: whether its layers agree with each other and with what all known files
// have in common. A finding does not mean that a card would refuse the file; it means that the file is not like those
// that are known to run.
#pragma once

#include <string>
#include <vector>

#include "axera/model_file.h"

namespace npu::axera {

struct Check {
    std::string name;                   // "every wait has its signal"
    std::vector<std::string> findings;  // empty: it holds
};

// All checks, in a fixed order. Errors of the reader itself (read_model_file) come before any of this.
std::vector<Check> verify_model(const ModelFile& model);

}  // namespace npu::axera
