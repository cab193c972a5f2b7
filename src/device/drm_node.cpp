#include "device/drm_node.h"

#include <fcntl.h>

#include <cerrno>

#include "uapi/drm.h"

namespace npu::device {

namespace {

constexpr int nodes_tried = 16;

}  // namespace

int DrmNode::ioctl(unsigned long request, void* argument) const {
    int answer = 0;
    do {
        answer = calls_.ioctl(fd_, request, argument);
    } while (answer != 0 && errno == EINTR);
    return answer == 0 ? 0 : errno;
}

DrmDriver drm_driver(const DrmNode& node) {
    char name[32] = {};
    uapi::drm::Version version{};
    version.name = name;
    version.name_length = sizeof name - 1;
    if (node.ioctl(uapi::drm::ioctl_version, &version) != 0) {
        return {};
    }
    return {name, static_cast<std::uint32_t>(version.major), static_cast<std::uint32_t>(version.minor)};
}

std::optional<std::string> find_drm_node(uapi::Syscalls& calls, const std::string& pattern, int first,
                                         const std::string& driver) {
    const std::size_t number = pattern.find("%d");
    for (int index = first; index < first + nodes_tried; ++index) {
        std::string path = pattern;
        path.replace(number, 2, std::to_string(index));
        const int fd = calls.open(path.c_str(), O_RDWR);
        if (fd >= 0 && drm_driver(DrmNode(calls, fd)).name == driver) {
            return path;
        }
    }
    return std::nullopt;
}

}  // namespace npu::device
