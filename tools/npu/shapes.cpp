#include "shapes.h"

#include <fstream>
#include <sstream>

namespace npu::tools {

Result<std::vector<MatmulGroup>> read_shapes(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        return make_error(ErrorCode::not_found, "%s cannot be read", path.c_str());
    }
    std::vector<MatmulGroup> groups;
    std::string line;
    std::string previous;
    for (std::uint32_t number = 1; std::getline(file, line); ++number) {
        std::istringstream words(line.substr(0, line.find('#')));
        ModelMatmul matmul;
        std::string group;
        if (!(words >> matmul.name)) {
            continue;
        }
        std::string rest;
        if (!(words >> matmul.n >> matmul.k >> matmul.count >> group) || matmul.n == 0 || matmul.k == 0) {
            return make_error(ErrorCode::invalid_argument, "%s:%u: '%s' is not NAME N K COUNT GROUP [M]", path.c_str(),
                              number, line.c_str());
        }
        if ((words >> rest) && (std::istringstream(rest) >> matmul.m).fail()) {
            return make_error(ErrorCode::invalid_argument, "%s:%u: '%s' is no number of rows", path.c_str(), number,
                              rest.c_str());
        }
        if (groups.empty() || group != previous) {
            groups.emplace_back();
        } else if (const ModelMatmul& first = groups.back().front();
                   first.k != matmul.k || first.count != matmul.count || first.m != matmul.m) {
            return make_error(ErrorCode::invalid_argument,
                              "%s:%u: '%s' differs from the others of group %s in K, COUNT or M", path.c_str(), number,
                              matmul.name.c_str(), group.c_str());
        }
        groups.back().push_back(matmul);
        previous = group;
    }
    if (groups.empty()) {
        return make_error(ErrorCode::invalid_argument, "%s has no matmul", path.c_str());
    }
    return groups;
}

}  // namespace npu::tools
