// The calls of axcl-without-card.txt: what the vendor's library was asked when no card was there, row by row. Each row
// is a function and a short name for its arguments; the answer is printed as in the table.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "axera/axcl_library.h"

namespace npu::axera::test {

using Row = std::pair<std::string, std::string>;  // function, arguments
using RowCalls = std::map<Row, std::function<std::string()>>;

// `model` is the path of a real model. The functions must outlive the calls.
RowCalls oracle_calls(const axcl::Functions& functions, const std::string& model);

}  // namespace npu::axera::test
