#include "sim/worker_pool.h"

#include <algorithm>

namespace npu::sim {

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    start_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

// Runs the next piece, if any is left; the lock is released meanwhile.
bool WorkerPool::take_and_run(std::unique_lock<std::mutex>& lock) {
    if (next_ == count_) {
        return false;
    }
    const std::size_t index = next_++;
    const auto* work = work_;
    lock.unlock();
    (*work)(index);
    lock.lock();
    if (++finished_ == count_) {
        done_.notify_all();
    }
    return true;
}

void WorkerPool::loop() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
        if (!take_and_run(lock)) {
            start_.wait(lock, [this] { return stop_ || next_ != count_; });
        }
    }
}

void WorkerPool::run(std::size_t count, const std::function<void(std::size_t)>& work) {
    if (count == 1) {
        work(0);
        return;
    }
    std::unique_lock lock(mutex_);
    while (threads_.size() < std::min<std::size_t>(limit_, count - 1)) {
        threads_.emplace_back([this] { loop(); });
    }
    work_ = &work;
    next_ = 0;
    finished_ = 0;
    count_ = count;
    start_.notify_all();
    while (take_and_run(lock)) {
    }
    done_.wait(lock, [this] { return finished_ == count_; });
}

}  // namespace npu::sim
