#include "sim/kernel_rknpu_queue.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <iterator>

#include "rockchip/precision.h"

namespace npu::sim {

RknpuQueue::RknpuQueue(const SimOptions& options, Journal& journal, RknpuDomain& domain, std::mutex& mutex,
                       std::condition_variable& changed)
    : options_(options),
      journal_(journal),
      domain_(domain),
      mutex_(mutex),
      changed_(changed),
      thread_limit_(std::min(options.chip->cores, options.host_threads != 0
                                                      ? options.host_threads
                                                      : std::max(1U, std::thread::hardware_concurrency()))),
      slots_(options.chip->cores) {
    for (unsigned index = 0; index < slots_.size(); ++index) {
        slots_[index].core = std::make_unique<Core>(core_options(options, index));
    }
}

RknpuQueue::~RknpuQueue() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
        ready_.clear();
    }
    work_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

unsigned RknpuQueue::least_loaded() const {
    return static_cast<unsigned>(std::ranges::min_element(slots_, {}, &Slot::load) - slots_.begin());
}

void RknpuQueue::enqueue(const std::shared_ptr<RknpuJob>& job) {
    const bool others = std::ranges::any_of(in_flight_, [&](const auto& other) { return other->file != job->file; });
    if (others) {
        journal_.complain(Severity::warning,
                          "two clients have jobs in the NPU at once: published reports of stalls and of wedged boards "
                          "when two processes submit; let one process own the NPU");
    }
    in_flight_.push_back(job);
    ++job->file->jobs_in_flight;
    job->runs.resize(job->cores.size());
    for (std::size_t i = 0; i < job->cores.size(); ++i) {
        slots_[job->cores[i]].waiting.push_back(job);
        slots_[job->cores[i]].load += job->ranges[i].task_number;
    }
    for (const unsigned core : job->cores) {
        advance(core);
    }
    if (job->state == RknpuJob::State::queued) {
        job->waited = true;
        references_may_leak_ |= !job->blocking;
        give_up_fences();
    }
}

void RknpuQueue::advance(unsigned core) {
    Slot& slot = slots_[core];
    if (slot.current || slot.waiting.empty()) {
        return;
    }
    slot.current = std::move(slot.waiting.front());
    slot.waiting.pop_front();
    if (++slot.current->cores_held == slot.current->cores.size()) {
        commit(slot.current);
    }
}

void RknpuQueue::commit(const std::shared_ptr<RknpuJob>& job) {
    job->committed = RknpuJob::Clock::now();
    job->state = RknpuJob::State::committed;
    if (!job->known_mask) {
        journal_.complain(Severity::hang, format("core_mask %u: the driver accepts it, takes the cores and never "
                                                 "starts the job; 0, 1, 2, 4, 3 and 7 run",
                                                 job->arguments.core_mask));
        job->state = RknpuJob::State::stuck;
        settle(*job);
        return;
    }
    job->stale_output = options_.faults.hits(FaultKind::stale_output);
    job->runs_left = job->cores.size();
    for (std::size_t i = 0; i < job->cores.size(); ++i) {
        ready_.push_back({job, i});
    }
    if (!job->blocking || job->waited) {
        wake(job->cores.size());
    } else if (!options_.team) {
        wake(job->cores.size() - 1);  // the thread that waits for the job takes one part itself
    }
    if (job->blocking && job->waited) {
        changed_.notify_all();
    }
}

// Lets host threads take that many ready parts; the first ones are started when they are needed.
void RknpuQueue::wake(std::size_t parts) {
    if (parts > idle_threads_ && threads_.size() < thread_limit_ && !stop_) {
        sigset_t all;  // signals are for the client's threads
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (std::size_t idle = idle_threads_; idle < parts && threads_.size() < thread_limit_; ++idle) {
            threads_.emplace_back([this] { work(); });
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    for (std::size_t i = 0; i < parts; ++i) {
        work_.notify_one();
    }
}

void RknpuQueue::work() {
    Lock lock(mutex_);
    while (!stop_) {
        if (!run(lock, nullptr)) {
            ++idle_threads_;
            work_.wait(lock);
            --idle_threads_;
        }
    }
}

bool RknpuQueue::help(Lock& lock, const RknpuJob& job) {
    const bool ready = std::ranges::any_of(ready_, [&](const Part& part) { return part.job.get() == &job; });
    if (!options_.team || !ready) {
        return run(lock, &job);
    }
    lock.unlock();
    options_.team([&](unsigned, unsigned) {
        Lock own(mutex_);
        while (run(own, &job)) {
        }
    });
    lock.lock();
    return true;
}

// Runs a ready part (of `only`, unless it is nullptr) and records what became of it.
bool RknpuQueue::run(Lock& lock, const RknpuJob* only) {
    const auto found =
        std::ranges::find_if(ready_, [&](const Part& part) { return only == nullptr || part.job.get() == only; });
    if (found == ready_.end() || running_ >= thread_limit_) {
        return false;
    }
    const Part part = std::move(*found);
    ready_.erase(found);
    const unsigned core = part.job->cores[part.index];
    Slot& slot = slots_[core];
    slot.executing = true;
    ++running_;
    const RknpuCoreFaults faults = draw_faults(core, *part.job);
    lock.unlock();
    RknpuCoreRun result = run_on_core(*slot.core, core, *part.job, part.job->ranges[part.index], faults, options_);
    lock.lock();
    --running_;
    slot.executing = false;
    finish(part, std::move(result));
    if (!ready_.empty()) {
        work_.notify_one();
        changed_.notify_all();
    }
    return true;
}

RknpuCoreFaults RknpuQueue::draw_faults(unsigned core, const RknpuJob& job) {
    Slot& slot = slots_[core];
    const Faults& plan = options_.faults;
    slot.gone = slot.gone || plan.hits(FaultKind::core_gone, core);
    RknpuCoreFaults faults;
    if (slot.gone) {
        faults.core_dead = true;
        faults.why = "fault core-gone: this core answers nothing any more, also after a reset";
    } else if (job.file->runs_nothing) {
        faults.core_dead = true;
        faults.why =
            "the job came by the render node: reported of some boards, no task of it runs; use /dev/dri/cardN whose "
            "driver is rknpu";
    } else if (slot.hangs) {
        faults.core_dead = true;
        faults.why = "the core hangs since an earlier job and the reset did not bring it back: nothing starts on it";
    } else {
        faults.never_starts = plan.hits(FaultKind::job_never_starts, core);
        faults.time_out = plan.hits(FaultKind::time_out, core);
        faults.lost_interrupt = plan.hits(FaultKind::lost_interrupt, core);
        faults.dma_error = plan.hits(FaultKind::dma_error, core);
    }
    return faults;
}

void RknpuQueue::finish(const Part& part, RknpuCoreRun run) {
    RknpuJob& job = *part.job;
    const unsigned core = job.cores[part.index];
    Slot& slot = slots_[core];
    for (Finding& finding : run.findings) {
        journal_.add(std::move(finding));
    }
    for (const TaskWork& work : run.work) {
        traffic.written += work.output_bytes;
        traffic.read += work.feature_bytes + work.operand_bytes;
        traffic.weights += work.weight_bytes;
    }
    if (slot.fresh && !run.work.empty()) {
        slot.fresh = false;
        if (run.work.front().precision == rockchip::Precision::int8) {
            journal_.add({Severity::warning, core, 0,
                          "the first job after a reset is an int8 one: a published report of such jobs whose outputs "
                          "were zero except for one; run something else first and compare"});
        }
    }
    const bool completed = run.completed;
    slot.hangs = run.core_hangs;
    job.runs[part.index] = std::move(run);
    --job.runs_left;
    if (job.state == RknpuJob::State::dropped) {  // a reset came while it ran
        slot.hangs = !slot.reset_when_free;
        if (slot.reset_when_free) {
            slot.core->soft_reset();
            slot.fresh = true;
            slot.reset_when_free = false;
        }
        slot.current.reset();
        if (job.runs_left == 0) {
            count(job);
        }
        advance(core);
        changed_.notify_all();
        return;
    }
    if (completed) {
        slot.current.reset();
        slot.load -= job.ranges[part.index].task_number;
    }
    if (job.runs_left == 0) {
        const bool all = std::ranges::all_of(job.runs, &RknpuCoreRun::completed);
        job.state = all ? RknpuJob::State::done : RknpuJob::State::stuck;
        settle(job);
    }
    if (completed) {
        advance(core);
    }
}

// The job has come to its end, or to a place that it does not leave by itself.
void RknpuQueue::settle(RknpuJob& job) {
    for (const RknpuObject* object : job.memory->freed_under_the_job()) {
        journal_.complain(
            Severity::corrupt,
            format("an object of %llu bytes was freed while a job that uses it was in flight: the driver does not keep "
                   "it, so a real NPU reads and writes what got its memory next, or faults",
                   static_cast<unsigned long long>(object->buffer->bytes())));
    }
    count(job);
    if (job.state == RknpuJob::State::done) {
        references_may_leak_ = references_may_leak_ && !job.blocking;
        release(job);
    } else if (!job.blocking) {
        journal_.complain(Severity::hang,
                          "a NONBLOCK job does not complete: nobody is told, its fence never signals, and it keeps its "
                          "core until a reset (ACT_RESET, or a later NONBLOCK submit to the same core)");
    }
    if (job.fence) {
        job.fence->settle(job.state == RknpuJob::State::done);
    }
    give_up_fences();
    changed_.notify_all();
}

void RknpuQueue::count(RknpuJob& job) {
    std::vector<rockchip::CoreWork> cores;
    for (const RknpuCoreRun& run : job.runs) {
        cores.emplace_back(run.work);
    }
    job.seconds =
        options_.submission_seconds ? options_.submission_seconds(cores, options_.chip->max_tasks_per_submit) : 0;
    journal_.add_submission(job.state == RknpuJob::State::done, cores, job.seconds);
    for (RknpuCoreRun& run : job.runs) {
        run.work.clear();
    }
}

// The job uses neither domain nor file any more.
void RknpuQueue::release(RknpuJob& job) {
    domain_.leave();
    --job.file->jobs_in_flight;
    in_flight_.remove_if([&](const auto& other) { return other.get() == &job; });
}

// Takes the job off everything it stands on. A core that executes it keeps it until its host thread comes back.
void RknpuQueue::remove(const std::shared_ptr<RknpuJob>& job) {
    job->state = RknpuJob::State::dropped;
    for (std::size_t i = 0; i < job->cores.size(); ++i) {
        Slot& slot = slots_[job->cores[i]];
        const bool waits = std::erase(slot.waiting, job) != 0;
        const bool holds = slot.current == job;
        if (waits || holds) {
            slot.load -= job->ranges[i].task_number;
        }
        if (holds && !slot.executing) {
            slot.current.reset();
        }
    }
    job->runs_left -= std::erase_if(ready_, [&](const Part& part) { return part.job == job; });
    release(*job);
    if (job->fence) {
        job->fence->settle(false);
    }
}

void RknpuQueue::withdraw(const RknpuJob& job) {
    const auto found = std::ranges::find_if(in_flight_, [&](const auto& other) { return other.get() == &job; });
    const std::shared_ptr<RknpuJob> withdrawn = *found;
    remove(withdrawn);
    count(*withdrawn);
    for (const unsigned core : withdrawn->cores) {
        advance(core);
    }
    changed_.notify_all();
}

void RknpuQueue::drop(const std::shared_ptr<RknpuJob>& job, const char* why) {
    const RknpuJob::State was = job->state;
    remove(job);
    if (was == RknpuJob::State::stuck) {
        return;  // known
    }
    journal_.complain(Severity::hang,
                      format("a %s job was dropped by a soft reset of the NPU (%s): %s",
                             was == RknpuJob::State::queued ? "queued" : "running", why,
                             job->blocking ? "SUBMIT fails with EINVAL" : "nobody is told, its fence never signals"));
    if (job->runs_left == 0) {
        count(*job);
    }
}

void RknpuQueue::reset(const char* why) {
    const bool failed = options_.faults.hits(FaultKind::reset_fails);
    if (failed) {
        journal_.complain(Severity::hang, "fault reset-fails: the reset does not bring the cores back");
    }
    for (const std::shared_ptr<RknpuJob>& job : std::vector(in_flight_.begin(), in_flight_.end())) {
        drop(job, why);
    }
    for (Slot& slot : slots_) {
        slot.hangs = failed;
        if (failed) {
            continue;
        }
        slot.reset_when_free = slot.executing;
        if (!slot.executing) {
            slot.core->soft_reset();
            slot.fresh = true;
        }
    }
    changed_.notify_all();
}

// Jobs stand in all queues in the order in which they were submitted, so one pass in that order finds the cores that
// nobody behind will ever get: those that a stuck job holds, and those for which a job stands in line that waits for one
// of them.
bool RknpuQueue::blocked_forever(const RknpuJob& job) const {
    std::vector<bool> closed(slots_.size(), false);
    for (const std::shared_ptr<RknpuJob>& one : in_flight_) {
        const auto holds = [&](unsigned core) { return slots_[core].current == one; };
        const bool stuck = one->state == RknpuJob::State::stuck && !one->blocking;
        const bool waits = one->state == RknpuJob::State::queued &&
                           std::ranges::any_of(one->cores, [&](unsigned core) { return closed[core] && !holds(core); });
        if (one.get() == &job) {
            return waits;
        }
        for (const unsigned core : one->cores) {
            closed[core] = closed[core] || waits || (stuck && holds(core));
        }
    }
    return false;
}

bool RknpuQueue::can_progress() const {
    return running_ != 0 || std::ranges::any_of(in_flight_, [](const auto& job) {
               return job->state == RknpuJob::State::committed || job->blocking;
           });
}

// Fences of jobs that wait for a stuck one never signal; who waits for them is to know.
void RknpuQueue::give_up_fences() {
    for (const std::shared_ptr<RknpuJob>& job : in_flight_) {
        if (job->fence && blocked_forever(*job)) {
            job->fence->settle(false);
        }
    }
}

void RknpuQueue::drain(Lock& lock) {
    changed_.wait(lock, [this] { return !can_progress(); });
}

}  // namespace npu::sim
