// Host threads for the plugin's own work: the OpenMP team that llama.cpp's CPU backend computes with. Its threads wait for
// the next work actively, so threads of our own would compete with them for the cores.
#pragma once

#include "base/team.h"

namespace npu::plugin {

// How many threads work() uses when this thread calls it; 1 until it is set.
void set_team_size(int threads);

// A Team of the calling thread and set_team_size() - 1 others.
void work_in_team(const TeamWork& work);

// A Team of as many threads as the process has processors: for loading, when nobody computes.
void work_with_all(const TeamWork& work);

}  // namespace npu::plugin
