#include "axera/mock/calls.h"
#include "axera/mock/mock.h"

namespace npu::axera::mock {

const axcl::Functions& functions() {
    static const axcl::Functions table = [] {
        axcl::Functions all;
#define AXCL_FUNCTION(need, result, name, parameters, arguments) all.name = calls::name;
#include "axera/axcl_functions.def"
#undef AXCL_FUNCTION
        return all;
    }();
    return table;
}

}  // namespace npu::axera::mock
