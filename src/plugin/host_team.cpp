#include "plugin/host_team.h"

#include <omp.h>

#include <algorithm>

namespace npu::plugin {

namespace {

thread_local int team_size = 1;

}  // namespace

void set_team_size(int threads) { team_size = std::max(threads, 1); }

void work_in_team(const TeamWork& work) {
#pragma omp parallel num_threads(team_size)
    work(static_cast<unsigned>(omp_get_thread_num()), static_cast<unsigned>(omp_get_num_threads()));
}

void work_with_all(const TeamWork& work) {
#pragma omp parallel num_threads(omp_get_num_procs())
    work(static_cast<unsigned>(omp_get_thread_num()), static_cast<unsigned>(omp_get_num_threads()));
}

}  // namespace npu::plugin
