// Host threads that run the cores of one job side by side. Threads are started when first needed and live as long
// as the pool, because a model submits tens of thousands of small jobs.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace npu::sim {

class WorkerPool {
  public:
    // `threads` is the number of pieces of work that run at once, the caller's thread included; at least 1.
    explicit WorkerPool(unsigned threads) : limit_(threads > 1 ? threads - 1 : 0) {}
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    // Calls work(0) to work(count - 1), each once, and returns when all have returned. One caller at a time.
    void run(std::size_t count, const std::function<void(std::size_t)>& work);

  private:
    void loop();
    bool take_and_run(std::unique_lock<std::mutex>& lock);

    const unsigned limit_;
    std::mutex mutex_;
    std::condition_variable start_;
    std::condition_variable done_;
    const std::function<void(std::size_t)>* work_ = nullptr;
    std::size_t next_ = 0;
    std::size_t count_ = 0;
    std::size_t finished_ = 0;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace npu::sim
