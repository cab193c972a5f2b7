// The functions of the mock runtime, with the names and parameters of the vendor's, in a namespace of their own so that
// both can be in one process. calls_*.cpp say what each does; "code" numbers are explained in axcl_abi.h.
#pragma once

#include "axera/axcl_abi.h"

namespace npu::axera::mock::calls {

using namespace axcl;  // NOLINT(google-build-using-namespace): the types that the list of functions names

#define AXCL_FUNCTION(need, result, name, parameters, arguments) result name parameters;
#include "axera/axcl_functions.def"
#undef AXCL_FUNCTION

}  // namespace npu::axera::mock::calls
