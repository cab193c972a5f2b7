#include "sim/kernel_rocket_scheduler.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

namespace npu::sim {

namespace {

unsigned host_threads(const SimOptions& options) {
    return options.host_threads != 0 ? options.host_threads : std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

RocketScheduler::RocketScheduler(const SimOptions& options, Journal& journal)
    : real_time_(options.real_time), running_limit_(host_threads(options)) {
    for (unsigned core = 0; core < options.chip->cores; ++core) {
        lanes_.push_back(std::make_unique<Lane>());
        lanes_.back()->core = std::make_unique<RocketCore>(core, options, journal);
    }
}

RocketScheduler::~RocketScheduler() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    for (const auto& lane : lanes_) {
        lane->wake.notify_all();
        if (lane->thread.joinable()) {
            lane->thread.join();
        }
    }
    for (const auto& queue : queues_) {
        for (const auto& job : queue->waiting) {
            job->done->signal();
        }
    }
}

std::shared_ptr<RocketQueue> RocketScheduler::make_queue() {
    auto queue = std::make_shared<RocketQueue>();
    const std::lock_guard lock(mutex_);
    queues_.push_back(queue);
    return queue;
}

void RocketScheduler::push(RocketQueue& queue, std::shared_ptr<RocketJob> job) {
    const std::lock_guard lock(mutex_);
    start_threads();
    if (!queue.last || queue.last->signalled()) {
        const auto best = std::ranges::min_element(lanes_, {}, [](const auto& lane) { return lane->score; });
        const auto core = static_cast<unsigned>(best - lanes_.begin());
        if (queue.attached && queue.core != core) {
            --lanes_[queue.core]->score;
            queue.attached = false;
        }
        queue.core = core;
    }
    Lane& lane = *lanes_[queue.core];
    lane.score += queue.attached ? 1 : 2;
    queue.attached = true;
    job->sequence = submitted_++;
    queue.last = job->done;
    queue.waiting.push_back(std::move(job));
    ++unfinished_;
    lane.wake.notify_one();
}

void RocketScheduler::close(const std::shared_ptr<RocketQueue>& queue) {
    const std::lock_guard lock(mutex_);
    queue->closed = true;
    if (!queue->last || queue->last->signalled()) {
        forget(*queue);
    }
}

void RocketScheduler::drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return unfinished_ == 0; });
}

void RocketScheduler::start_threads() {
    if (std::exchange(started_, true)) {
        return;
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned core = 0; core < lanes_.size(); ++core) {
        lanes_[core]->thread = std::thread([this, core] { serve(core); });
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The queue of this core whose first job waits longest; nullptr when there is none.
RocketQueue* RocketScheduler::next_queue(unsigned core) {
    RocketQueue* next = nullptr;
    for (const auto& queue : queues_) {
        if (queue->core == core && !queue->waiting.empty() &&
            (next == nullptr || queue->waiting.front()->sequence < next->waiting.front()->sequence)) {
            next = queue.get();
        }
    }
    return next;
}

void RocketScheduler::serve(unsigned core) {
    Lane& lane = *lanes_[core];
    std::unique_lock lock(mutex_);
    for (;;) {
        RocketQueue* queue = nullptr;
        lane.wake.wait(lock, [&] {
            queue = running_ < running_limit_ ? next_queue(core) : nullptr;
            return stop_ || queue != nullptr;
        });
        if (stop_) {
            return;
        }
        const std::shared_ptr<RocketJob> job = std::move(queue->waiting.front());
        queue->waiting.pop_front();
        ++running_;
        lock.unlock();
        const bool completed = lane.core->run(*job);
        lock.lock();
        stop_running();
        if (!completed && real_time_) {
            lane.wake.wait_for(lock, std::chrono::milliseconds(uapi::rocket::job_timeout_ms), [this] { return stop_; });
        }
        lock.unlock();
        if (!completed) {
            lane.core->reset();
        }
        job->buffers.clear();  // before anybody sees the end, so that what is free then does not depend on timing
        job->space.reset();
        lock.lock();
        finish(core, *queue, *job);
    }
}

// Another core may run now, where the host does not run all at once.
void RocketScheduler::stop_running() {
    --running_;
    if (running_limit_ < lanes_.size()) {
        for (const auto& lane : lanes_) {
            lane->wake.notify_one();
        }
    }
}

void RocketScheduler::finish(unsigned core, RocketQueue& queue, const RocketJob& job) {
    --unfinished_;
    --lanes_[core]->score;
    job.done->signal();
    if (queue.closed && queue.last == job.done) {
        forget(queue);
    }
    if (unfinished_ == 0) {
        idle_.notify_all();
    }
}

void RocketScheduler::forget(RocketQueue& queue) {
    if (queue.attached) {
        --lanes_[queue.core]->score;
    }
    std::erase_if(queues_, [&](const auto& one) { return one.get() == &queue; });
}

}  // namespace npu::sim
