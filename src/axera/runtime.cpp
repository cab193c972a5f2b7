#include "axera/runtime.h"

#include <algorithm>

#include "axera/mock/mock.h"
#include "base/log.h"

namespace npu::axera {

namespace {

constexpr std::uint64_t kib = 1024;

// A library of another version may write more than the struct of ours.
struct RoomyProperties {
    axcl::DeviceProperties known;
    std::uint8_t more[512 - sizeof(axcl::DeviceProperties)] = {};
};

Result<std::shared_ptr<const axcl::Library>> library_of(const AxeraOptions& options) {
    if (!options.mock) {
        return axcl::Library::open(options.library);
    }
    NPU_ASSIGN(const mock::Settings settings, mock::settings_of(options));
    NPU_TRY(mock::ensure(settings));
    return axcl::Library::of(mock::functions(), "the mock of the AXCL runtime");
}

}  // namespace

std::string CardInfo::description() const {
    std::string text = soc + ", PCI " + pci + ", driver " + driver;
    if (total_cmm != 0) {
        text += format(", %llu of %llu MiB CMM free", static_cast<unsigned long long>(free_cmm >> 20),
                       static_cast<unsigned long long>(total_cmm >> 20));
    }
    return text;
}

Result<std::shared_ptr<Runtime>> Runtime::open(const AxeraOptions& options) {
    NPU_ASSIGN(auto library, library_of(options));
    return open(std::move(library));
}

Result<std::shared_ptr<Runtime>> Runtime::open(std::shared_ptr<const axcl::Library> library) {
    if (const axcl::Error error = (*library)->axclInit(nullptr); error != 0) {
        return axcl::make_axcl_error(error, "axclInit of " + library->path());
    }
    return std::shared_ptr<Runtime>(new Runtime(std::move(library)));
}

Result<std::vector<CardInfo>> Runtime::cards() const {
    axcl::DeviceList list;
    if (const axcl::Error error = (*library_)->axclrtGetDeviceList(&list); error != 0) {
        return axcl::make_axcl_error(error, "axclrtGetDeviceList");
    }
    std::vector<CardInfo> cards;
    for (unsigned i = 0; i < std::min(list.count, axcl::most_devices); ++i) {
        NPU_ASSIGN(CardInfo info, card(list.devices[i]));
        cards.push_back(std::move(info));
    }
    return cards;
}

Result<CardInfo> Runtime::card(std::int32_t id) const {
    RoomyProperties properties;
    if (const axcl::Error error = (*library_)->axclrtGetDeviceProperties(id, &properties.known); error != 0) {
        return axcl::make_axcl_error(error, format("axclrtGetDeviceProperties(%d)", id));
    }
    const axcl::DeviceProperties& known = properties.known;
    CardInfo info;
    info.id = id;
    info.software.assign(known.software, std::find(std::begin(known.software), std::end(known.software), '\0'));
    info.driver = library_->version();
    const auto soc = library_->functions().axclrtGetSocName;
    const char* name = soc != nullptr ? soc() : nullptr;
    info.soc = name != nullptr && std::string_view(name) != "UNKNOWN" ? name : "AX650";
    info.uid = known.uid;
    info.pci = format("%04x:%02x:%02x.0", known.pci_domain, known.pci_bus, known.pci_device);
    if (known.total_cmm != 0 && known.free_cmm <= known.total_cmm) {
        info.total_cmm = known.total_cmm * kib;
        info.free_cmm = known.free_cmm * kib;
    }
    return info;
}

void Runtime::shutdown() { (*library_)->axclFinalize(); }

Result<std::shared_ptr<Card>> Card::open(std::shared_ptr<Runtime> runtime, std::int32_t id) {
    const axcl::Functions& axcl = runtime->library().functions();
    if (const axcl::Error error = axcl.axclrtSetDevice(id); error != 0) {
        return axcl::make_axcl_error(error, format("axclrtSetDevice(%d)", id));
    }
    const std::shared_ptr<Card> card(new Card(std::move(runtime), id));  // from here on its destructor cleans up
    if (const axcl::Error error = axcl.axclrtCreateContext(&card->context_, id); error != 0) {
        card->context_ = nullptr;
        return axcl::make_axcl_error(error, format("axclrtCreateContext(card %d)", id));
    }
    NPU_ASSIGN(const auto held, card->hold());
    const axcl::Error error = axcl.axclrtEngineInit(static_cast<int>(axcl::VirtualNpu::disable));
    if (error != 0) {
        // Somebody on this card may have done it before us; what counts is how.
        int kind = 0;
        if (axcl.axclrtEngineGetVNpuKind(&kind) != 0) {
            return axcl::make_axcl_error(error, format("axclrtEngineInit(card %d)", id));
        }
        if (kind != static_cast<int>(axcl::VirtualNpu::disable)) {
            return make_error(ErrorCode::unsupported,
                              "card %d is in use with virtual NPUs (mode %d), and models for the whole NPU cannot run; "
                              "end the other program",
                              id, kind);
        }
    }
    return card;
}

Card::~Card() {
    const axcl::Functions& axcl = functions();
    if (context_ != nullptr) {
        axcl.axclrtSetCurrentContext(context_);
        axcl.axclrtDestroyContext(context_);
    }
    if (const axcl::Error error = axcl.axclrtResetDevice(id_); error != 0) {
        log(LogLevel::warning, "axclrtResetDevice(%d): %s", id_, axcl::error_text(error).c_str());
    }
}

Result<std::unique_lock<std::recursive_mutex>> Card::hold() {
    std::unique_lock lock(mutex_);
    if (const axcl::Error error = functions().axclrtSetCurrentContext(context_); error != 0) {
        return axcl::make_axcl_error(error, format("axclrtSetCurrentContext(card %d)", id_));
    }
    return lock;
}

Result<DeviceMemory> DeviceMemory::allocate(std::shared_ptr<Card> card, std::size_t bytes) {
    NPU_ASSIGN(const auto held, card->hold());
    void* address = nullptr;
    const axcl::Error error =
        card->functions().axclrtMalloc(&address, bytes, static_cast<int>(axcl::MallocPolicy::huge_first));
    if (error != 0 || address == nullptr) {
        return axcl::make_axcl_error(error, format("axclrtMalloc(%zu bytes on card %d)", bytes, card->id()));
    }
    return DeviceMemory(std::move(card), address, bytes);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
    if (this != &other) {
        release();
        card_ = std::move(other.card_);
        address_ = std::exchange(other.address_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

DeviceMemory::~DeviceMemory() { release(); }

void DeviceMemory::release() {
    if (address_ == nullptr) {
        return;
    }
    const auto held = card_->hold();
    const axcl::Error error = held ? card_->functions().axclrtFree(address_) : 0;
    if (error != 0) {
        log(LogLevel::warning, "axclrtFree on card %d: %s", card_->id(), axcl::error_text(error).c_str());
    }
    address_ = nullptr;
}

Result<void> DeviceMemory::check(const char* what, std::size_t offset, std::size_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset) {
        return make_error(ErrorCode::invalid_argument, "%s of %zu bytes at %zu of a buffer of %zu bytes on card %d",
                          what, bytes, offset, bytes_, card_->id());
    }
    return {};
}

Result<void> DeviceMemory::write(Bytes from, std::size_t offset) {
    NPU_TRY(check("a write", offset, from.size()));
    if (from.empty()) {
        return {};
    }
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Error error = card_->functions().axclrtMemcpy(address(offset), from.data(), from.size(),
                                                              static_cast<int>(axcl::CopyKind::host_to_device));
    return error == 0
               ? Result<void>()
               : axcl::make_axcl_error(error, format("axclrtMemcpy(%zu bytes to card %d)", from.size(), card_->id()));
}

Result<void> DeviceMemory::read(std::span<std::uint8_t> to, std::size_t offset) const {
    NPU_TRY(check("a read", offset, to.size()));
    if (to.empty()) {
        return {};
    }
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Error error = card_->functions().axclrtMemcpy(to.data(), address(offset), to.size(),
                                                              static_cast<int>(axcl::CopyKind::device_to_host));
    return error == 0
               ? Result<void>()
               : axcl::make_axcl_error(error, format("axclrtMemcpy(%zu bytes from card %d)", to.size(), card_->id()));
}

Result<void> DeviceMemory::fill(std::uint8_t value) {
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Error error = card_->functions().axclrtMemset(address_, value, bytes_);
    return error == 0 ? Result<void>()
                      : axcl::make_axcl_error(error, format("axclrtMemset(%zu bytes on card %d)", bytes_, card_->id()));
}

Result<void> DeviceMemory::copy_from(const DeviceMemory& from, std::size_t from_offset, std::size_t offset,
                                     std::size_t bytes) {
    NPU_TRY(from.check("a copy", from_offset, bytes));
    NPU_TRY(check("a copy", offset, bytes));
    if (from.card_ != card_) {
        return make_error(ErrorCode::unsupported, "a copy from card %d to card %d; go through the host",
                          from.card_->id(), card_->id());
    }
    if (bytes == 0) {
        return {};
    }
    NPU_ASSIGN(const auto held, card_->hold());
    const axcl::Error error = card_->functions().axclrtMemcpy(address(offset), from.address(from_offset), bytes,
                                                              static_cast<int>(axcl::CopyKind::device_to_device));
    return error == 0 ? Result<void>()
                      : axcl::make_axcl_error(error, format("axclrtMemcpy(%zu bytes on card %d)", bytes, card_->id()));
}

}  // namespace npu::axera
