// A stand-in for libaxcl_rt.so and the card behind it, in software. Code for the card runs unchanged on it: in process,
// through functions(), or as a library of its own that is found and loaded as the vendor's is (libaxcl_rt.so in the
// build's mock folder; src/axera/mock/exports.cpp). It answers as the vendor's library was seen to answer without a
// card (all calls of ../shared/data/axcl-without-card.txt), and with a card as the public headers say; where they are
// silent it is strict, so that what runs here does not depend on luck:
//
//   device addresses lead nowhere in the host, belong to one card and one allocation, and are never used twice;
//   work in a stream happens when the stream is synchronised, not before;
//   a run refuses buffers of the wrong size, unbound tensors and an output that overlaps an input;
//   memory that was not written holds ones, which is NaN in all float formats, and a run that reads it is noted.
//
// Products of the matmul models are exact; what other models compute is not known, and the mock makes numbers of their
// inputs (compute.h). Time is counted, not spent (cost.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axera/axcl_library.h"
#include "base/options.h"
#include "base/result.h"

namespace npu::axera::mock {

struct Settings {
    bool driver = true;  // false: there is no /dev/axcl_host
    std::vector<std::int32_t> cards{3};
    std::uint64_t cmm_bytes = std::uint64_t{7040} << 20;
    std::string faults;  // faults.h
    bool log = false;    // notes go to the log, too

    bool operator==(const Settings&) const = default;
};

// From the options of the user. Errors: a list of cards or faults that cannot be understood.
Result<Settings> settings_of(const AxeraOptions& options);

// Starts anew with these settings: all handles, memory, counts and notes are gone. Not to be called while another
// thread is in a call. Errors: faults that cannot be understood, a card number twice.
Result<void> configure(const Settings& settings);

// The same, unless it runs with these settings already: several users of one process share the cards.
Result<void> ensure(const Settings& settings);

// The functions. Before the first `configure` they work as the environment says.
const axcl::Functions& functions();

struct Counters {
    std::uint64_t calls = 0;  // all functions
    std::uint64_t executions = 0;
    std::uint64_t copies_to_device = 0, copies_to_host = 0, copies_on_device = 0;
    std::uint64_t bytes_to_device = 0, bytes_to_host = 0;
    std::uint64_t allocations = 0, allocated_bytes = 0;  // of users, now
    std::uint64_t models = 0;                            // loaded now
    std::uint64_t nanoseconds = 0;                       // on the virtual clock
};
Counters counters();

// What was found wrong since `configure`, in words.
std::vector<std::string> notes();

}  // namespace npu::axera::mock
