#include "axera/interrupts.h"

#include <array>
#include <cassert>
#include <cstddef>

namespace npu::axera {

namespace {

constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t request = 0;
bool alive = false;

void note_request(int number) {
    if (request != 0) {
        std::signal(number, SIG_DFL);
        std::raise(number);
    }
    request = 1;
}

}  // namespace

Interrupts::Interrupts() {
    assert(!alive);
    alive = true;
    request = 0;
    struct sigaction action = {};
    action.sa_handler = note_request;
    action.sa_flags = SA_RESTART;  // the library's own system calls are not to fail for it
    for (std::size_t i = 0; i < signals.size(); ++i) {
        sigaction(signals[i], &action, &before_[i]);
    }
}

Interrupts::~Interrupts() {
    for (std::size_t i = 0; i < signals.size(); ++i) {
        sigaction(signals[i], &before_[i], nullptr);
    }
    alive = false;
}

bool Interrupts::requested() const { return request != 0; }

}  // namespace npu::axera
