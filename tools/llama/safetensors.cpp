#include "safetensors.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/integers.h"

namespace npu::tools {

Result<void> write_safetensors(const std::string& path, std::span<const SafeTensor> tensors,
                               const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header{{"__metadata__", metadata}};
    std::uint64_t offset = 0;
    for (const SafeTensor& tensor : tensors) {
        header[tensor.name] = {
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes.size()}}};
        offset += tensor.bytes.size();
    }
    std::string text = header.dump();
    text.resize(align_up<std::size_t>(text.size(), 8), ' ');
    const std::uint64_t length = text.size();

    const std::string temporary = path + ".part";
    std::FILE* file = std::fopen(temporary.c_str(), "wbe");
    if (file == nullptr) {
        return make_error(ErrorCode::not_found, "cannot write %s: %s", temporary.c_str(), std::strerror(errno));
    }
    bool good =
        std::fwrite(&length, sizeof(length), 1, file) == 1 && std::fwrite(text.data(), 1, text.size(), file) == length;
    for (const SafeTensor& tensor : tensors) {
        good = good && std::fwrite(tensor.bytes.data(), 1, tensor.bytes.size(), file) == tensor.bytes.size();
    }
    good = std::fclose(file) == 0 && good;
    if (!good || std::rename(temporary.c_str(), path.c_str()) != 0) {
        const Error error =
            make_error(ErrorCode::device_failure, "cannot write %s: %s", path.c_str(), std::strerror(errno));
        std::remove(temporary.c_str());
        return error;
    }
    return {};
}

}  // namespace npu::tools
