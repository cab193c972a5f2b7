// libaxcl_rt.so of our own: the mock runtime under the names of the vendor's, for programs that find the library by
// name and for tests of how it is found. The environment says what it simulates (docs/axera.md).
#include "axera/mock/calls.h"

using namespace npu::axera::axcl;  // NOLINT(google-build-using-namespace): the types that the list of functions names

#define AXCL_FUNCTION(need, result, name, parameters, arguments)      \
    extern "C" [[gnu::visibility("default")]] result name parameters; \
    extern "C" result name parameters { return npu::axera::mock::calls::name arguments; }
#include "axera/axcl_functions.def"
#undef AXCL_FUNCTION
