// Ending with a clean card. A program that is killed while it loads hangs the card, and one that is killed later leaves
// its memory taken for a while (../shared/reference/axera.md, 1.12 and 7). So the first signal to end only asks: the call
// to the card comes back, whoever runs it sees the request at the next step, and everything is unloaded on the way out.
// A second signal ends the program at once.
#pragma once

#include <csignal>

namespace npu::axera {

// SIGINT, SIGTERM and SIGHUP ask, while one of these lives. At most one at a time in a process.
class Interrupts {
  public:
    Interrupts();
    ~Interrupts();  // signals do again what they did before
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

    [[nodiscard]] bool requested() const;

  private:
    struct sigaction before_[3];
};

}  // namespace npu::axera
