#include "device/rocket_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/integers.h"
#include "uapi/rocket.h"

namespace npu::device {

namespace {

namespace rocket = uapi::rocket;

constexpr std::size_t page = 4096;
constexpr std::size_t window = std::size_t{1} << 32;
// The driver gives up a job after half a second, and jobs of other programs may come first.
constexpr std::chrono::milliseconds longest_sync{10 * rocket::job_timeout_ms};

constexpr const char* remedy =
    "Use a smaller or more strongly quantised model, fewer layers on the NPU (-ngl) or a smaller batch (-ub)";

}  // namespace

RocketBuffer::RocketBuffer(std::shared_ptr<RocketSpace> space, std::size_t bytes) : space_(std::move(space)) {
    bytes_ = bytes;
}

Result<std::unique_ptr<RocketBuffer>> RocketBuffer::create(std::shared_ptr<RocketSpace> space, std::size_t bytes,
                                                           std::size_t free_bytes) {
    if (bytes > window - page) {
        return make_error(ErrorCode::out_of_memory,
                          "a buffer of %zu bytes was asked for; an address space of the NPU holds %zu. %s", bytes,
                          window - page, remedy);
    }
    const std::size_t rounded = align_up(std::max<std::size_t>(bytes, 1), page);
    const DrmNode& node = space->node();
    rocket::CreateBo create{};
    create.size = static_cast<std::uint32_t>(rounded);
    if (const int error = node.ioctl(rocket::ioctl_create_bo, &create); error != 0) {
        if (error == ENOSPC) {
            return make_error(ErrorCode::out_of_memory,
                              "address space %u of the NPU has no room for a buffer of %zu bytes: %zu of its %zu bytes "
                              "are in use. %s",
                              space->index(), rounded, space->allocated().load(), window, remedy);
        }
        return make_error(ErrorCode::out_of_memory,
                          "the NPU driver refused a buffer of %zu bytes (%s); about %zu bytes are left for the NPU. %s",
                          rounded, std::strerror(error), free_bytes, remedy);
    }
    auto buffer = std::unique_ptr<RocketBuffer>(new RocketBuffer(std::move(space), rounded));
    buffer->handle_ = create.handle;
    buffer->iova_ = create.dma_address;
    buffer->space_->allocated() += rounded;
    if (create.dma_address > window || rounded > window - create.dma_address) {
        return make_error(
            ErrorCode::out_of_memory,
            "the NPU driver placed a buffer of %zu bytes at address 0x%llx, beyond the 4 GiB that the NPU "
            "can address",
            rounded, static_cast<unsigned long long>(create.dma_address));
    }
    void* address = node.calls().mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, node.fd(),
                                      static_cast<off_t>(create.offset));
    if (address == MAP_FAILED) {
        return make_error(ErrorCode::out_of_memory, "mapping %zu bytes of NPU memory failed: %s", rounded,
                          std::strerror(errno));
    }
    buffer->data_ = static_cast<std::byte*>(address);
    buffer->space_->add(*buffer);
    return buffer;
}

RocketBuffer::~RocketBuffer() {
    if (data_ != nullptr) {
        space_->node().calls().munmap(data_, bytes_);
    }
    space_->remove(*this);
    space_->allocated() -= bytes_;
}

Result<void> RocketBuffer::to_device(std::size_t offset, std::size_t bytes) {
    NPU_TRY(check_range(offset, bytes));
    if (bytes == 0) {
        return {};
    }
    rocket::FiniBo whole{.handle = handle_, .reserved = 0};
    rocket::FiniBoRange range{.handle = handle_, .reserved = 0, .offset = offset, .size = bytes};
    const int error = space_->syncs_ranges() ? space_->node().ioctl(rocket::ioctl_fini_bo_range, &range)
                                             : space_->node().ioctl(rocket::ioctl_fini_bo, &whole);
    if (error != 0) {
        return make_error(ErrorCode::device_failure, "handing %zu bytes at %zu of a %zu byte buffer to the NPU: %s",
                          bytes, offset, bytes_, std::strerror(error));
    }
    return {};
}

Result<void> RocketBuffer::from_device(std::size_t offset, std::size_t bytes) {
    NPU_TRY(check_range(offset, bytes));
    const std::uint64_t settled = space_->settled();
    const bool ranges = space_->syncs_ranges();
    if (bytes == 0 || (!ranges && settled != 0 && fetched_ == settled)) {
        return {};
    }
    const std::int64_t deadline = deadline_after(longest_sync);
    rocket::PrepBo whole{.handle = handle_, .reserved = 0, .timeout_ns = deadline};
    rocket::PrepBoRange range{
        .handle = handle_, .reserved = 0, .timeout_ns = deadline, .offset = offset, .size = bytes};
    const int error = ranges ? space_->node().ioctl(rocket::ioctl_prep_bo_range, &range)
                             : space_->node().ioctl(rocket::ioctl_prep_bo, &whole);
    if (error != 0) {
        const bool late = error == EBUSY || error == ETIMEDOUT;
        return make_error(late ? ErrorCode::timeout : ErrorCode::device_failure,
                          "taking %zu bytes at %zu of a %zu byte buffer back from the NPU: %s", bytes, offset, bytes_,
                          late ? "a job that writes it does not end" : std::strerror(error));
    }
    fetched_ = settled;
    return {};
}

Result<void> RocketBuffer::check_range(std::size_t offset, std::size_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset) {
        return make_error(ErrorCode::invalid_argument,
                          "%zu bytes at %zu were to be synchronised of a buffer of %zu bytes", bytes, offset, bytes_);
    }
    return {};
}

}  // namespace npu::device
