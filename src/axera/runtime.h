// Cards, memory and models through AXCL, each handle with an owner: what was opened is closed in the reverse order,
// once, and never by a pointer that the library did not give (it would crash). What the library asks of its callers
// (../shared/reference/axera.md, 1.10) is kept here and nowhere else:
//
//   a call needs a context that is current in its thread, so every member function makes it current first;
//   loading and running do not mix, and handles are not for two threads, so each card has one mutex;
//   axclFinalize is called when the owner says so, never from a destructor at the end of the program.
//
// All classes may be used from several threads; calls to one card take turns. Errors are those of axcl_library.h with
// what was asked.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "axera/axcl_library.h"
#include "axera/bytes.h"
#include "base/options.h"
#include "base/result.h"

namespace npu::axera {

struct CardInfo {
    std::int32_t id = 0;
    std::string software, soc, driver;  // versions of the card's software and of the library
    std::uint64_t uid = 0;
    std::string pci;                            // "0000:03:00.0"
    std::uint64_t total_cmm = 0, free_cmm = 0;  // bytes; both 0 when what the card says has no meaning
    [[nodiscard]] std::string description()
        const;  // "AX650N, PCI 0000:03:00.0, driver V3.10.2, 7022 of 7040 MiB CMM free"
};

class Runtime {
  public:
    // The library of the options, or the mock in this process. Calls axclInit. Errors: no library, no driver, no card.
    static Result<std::shared_ptr<Runtime>> open(const AxeraOptions& options);
    // The same with a library that was opened before.
    static Result<std::shared_ptr<Runtime>> open(std::shared_ptr<const axcl::Library> library);

    [[nodiscard]] const axcl::Library& library() const { return *library_; }
    [[nodiscard]] Result<std::vector<CardInfo>> cards() const;
    [[nodiscard]] Result<CardInfo> card(std::int32_t id) const;

    // Ends the library's work in this process. Close all cards first; nothing may be called afterwards.
    void shutdown();

  private:
    explicit Runtime(std::shared_ptr<const axcl::Library> library) : library_(std::move(library)) {}
    std::shared_ptr<const axcl::Library> library_;
};

// One card with a context of its own and its engine ready for models that take the whole NPU.
class Card {
  public:
    static Result<std::shared_ptr<Card>> open(std::shared_ptr<Runtime> runtime, std::int32_t id);
    ~Card();
    Card(const Card&) = delete;
    Card& operator=(const Card&) = delete;

    [[nodiscard]] std::int32_t id() const { return id_; }
    [[nodiscard]] Result<CardInfo> info() const { return runtime_->card(id_); }
    [[nodiscard]] const axcl::Functions& functions() const { return runtime_->library().functions(); }

    // Holds the card for the calling thread with its context current.
    Result<std::unique_lock<std::recursive_mutex>> hold();

  private:
    Card(std::shared_ptr<Runtime> runtime, std::int32_t id) : runtime_(std::move(runtime)), id_(id) {}
    std::shared_ptr<Runtime> runtime_;
    std::int32_t id_;
    axcl::Context context_ = nullptr;
    std::recursive_mutex mutex_;
};

// Memory of a card. Offsets and sizes are checked here, with the name of what is copied in the error.
class DeviceMemory {
  public:
    static Result<DeviceMemory> allocate(std::shared_ptr<Card> card, std::size_t bytes);
    DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
    DeviceMemory& operator=(DeviceMemory&& other) noexcept;
    ~DeviceMemory();

    [[nodiscard]] std::size_t size() const { return bytes_; }
    // The card's address as the library wants it; not to be followed.
    [[nodiscard]] void* address(std::size_t offset = 0) const { return static_cast<std::uint8_t*>(address_) + offset; }

    Result<void> write(Bytes from, std::size_t offset = 0);
    Result<void> read(std::span<std::uint8_t> to, std::size_t offset = 0) const;
    Result<void> fill(std::uint8_t value);
    // Within one card.
    Result<void> copy_from(const DeviceMemory& from, std::size_t from_offset, std::size_t offset, std::size_t bytes);

  private:
    DeviceMemory(std::shared_ptr<Card> card, void* address, std::size_t bytes)
        : card_(std::move(card)), address_(address), bytes_(bytes) {}
    [[nodiscard]] Result<void> check(const char* what, std::size_t offset, std::size_t bytes) const;
    void release();

    std::shared_ptr<Card> card_;
    void* address_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace npu::axera
