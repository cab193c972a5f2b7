// Finding the vendor's library, or standing in for it. Nothing of ours is linked against AXCL: its functions are looked
// up by name when they are wanted, so one binary works with all versions of the library and without it. A required
// function that is missing is an error that names it; an optional one is a null pointer that the caller tests.
//
// Where it lies: some packages install only "libaxcl_rt.so.1.0", and the usual place, /usr/lib/axcl, is not always in
// the linker's list (../shared/reference/axera.md, 1.1). The library is never unloaded: it has threads of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axera/axcl_abi.h"
#include "base/result.h"

namespace npu::axera::axcl {

// One pointer for each function, named as the function is.
struct Functions {
#define AXCL_FUNCTION(need, result, name, parameters, arguments) result(*name) parameters = nullptr;
#include "axera/axcl_functions.def"
#undef AXCL_FUNCTION
};

struct FunctionInfo {
    const char* name;
    bool required;
};
const std::vector<FunctionInfo>& function_list();

class Library {
  public:
    // The first of these that can be loaded: `path` if it is not the plain name, else the names and places above.
    // Errors: not found (each place with the linker's reason), or a required function missing.
    static Result<std::shared_ptr<const Library>> open(const std::string& path);

    // Functions of this process, as those of the mock runtime. Checks that the required ones are there.
    static Result<std::shared_ptr<const Library>> of(const Functions& functions, std::string name);

    [[nodiscard]] const Functions& functions() const { return functions_; }
    const Functions* operator->() const { return &functions_; }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string version() const;  // "V3.10.2_20251215140224", "3.6.2", or "unknown version"

  private:
    Functions functions_;
    std::string path_;
};

// What a code means, as "0x80300284 (context: the thread has no context)".
std::string error_text(Error code);

// An error of the class that the code belongs to: "axclrtMalloc(4096 bytes): 0x80300507 (memory: out of memory); ...".
// `call` says what was asked.
npu::Error make_axcl_error(Error code, const std::string& call);

}  // namespace npu::axera::axcl
