// Where functions begin and end, as the unwinder needs to know. Exceptions and backtraces must find the frame of any
// address, so even a stripped library carries a sorted table of its functions (.eh_frame_hdr) and the length of each
// (.eh_frame). For C++ they also lead to the landing pads: places that run only when an exception passes (LSDA).
//
// Source: Linux Standard Base, "Exception Frames" (.eh_frame, .eh_frame_hdr, DW_EH_PE encodings); the table of call sites
// is that of the Itanium C++ ABI's exception handling.
#pragma once

#include "elf/image.h"

namespace npu::elf {

// A call in [start, end) through which an exception passes goes on at `pad`.
struct LandingPad {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t pad = 0;
};

struct Frame {
    std::uint64_t start = 0;
    std::uint64_t end = 0;  // behind the last byte
    std::vector<LandingPad> landing_pads;
};

// All functions with a frame, by start. Entries that contradict themselves are left out and counted in `bad`; without a
// table the frames are read one behind the other. Nothing when the file has neither.
struct Frames {
    std::vector<Frame> all;
    std::size_t bad = 0;
};
Frames read_frames(const Image& image);

}  // namespace npu::elf
