/* The interface of the mainline driver as a program finds it documented, and the steps that every program takes with it. For
 * the client; nothing of this project. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include "check.h"
#include "matmul.h"

/* ---- the driver's interface ---- */

struct version {
    int32_t major, minor, patch;
    uint64_t name_length;
    char* name;
    uint64_t date_length;
    char* date;
    uint64_t description_length;
    char* description;
};
struct create_bo {
    uint32_t size, handle;
    uint64_t dma_address, offset;
};
struct task {
    uint32_t regcmd, regcmd_count;
};
struct job {
    uint64_t tasks, in_bo_handles, out_bo_handles;
    uint32_t task_count, task_struct_size, in_bo_handle_count, out_bo_handle_count;
};
struct submit {
    uint64_t jobs;
    uint32_t job_count, job_struct_size;
    uint64_t reserved;
};
struct prep_bo {
    uint32_t handle, reserved;
    int64_t timeout_ns;
};
struct fini_bo {
    uint32_t handle, reserved;
};
struct gem_close {
    uint32_t handle, padding;
};

_Static_assert(sizeof(struct version) == 64, "");
_Static_assert(sizeof(struct create_bo) == 24, "");
_Static_assert(sizeof(struct job) == 40, "");
_Static_assert(sizeof(struct submit) == 24, "");

#define IOCTL_VERSION 0xc0406400
#define IOCTL_GEM_CLOSE 0x40086409
#define IOCTL_CREATE_BO 0xc0186440
#define IOCTL_SUBMIT 0x40186441
#define IOCTL_PREP_BO 0x40106442
#define IOCTL_FINI_BO 0x40086443

#define NODE "/dev/accel/accel0"

/* ---- small steps ---- */

static int driver_is(int fd, const char* wanted) {
    char name[32] = {0};
    struct version version = {.name_length = sizeof name - 1, .name = name};
    return ioctl(fd, IOCTL_VERSION, &version) == 0 && strcmp(name, wanted) == 0;
}

static int open_device(void) {
    const int fd = open(NODE, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

struct buffer {
    uint32_t handle, size;
    uint64_t iova;
    uint8_t* data;
};

static int make_buffer(int fd, struct buffer* buffer, uint32_t size) {
    struct create_bo create = {.size = size};
    if (ioctl(fd, IOCTL_CREATE_BO, &create) != 0) {
        return -1;
    }
    void* data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)create.offset);
    if (data == MAP_FAILED) {
        return -1;
    }
    *buffer = (struct buffer){create.handle, size, create.dma_address, data};
    return 0;
}

static int destroy_buffer(int fd, const struct buffer* buffer) {
    struct gem_close close_handle = {.handle = buffer->handle};
    munmap(buffer->data, buffer->size);
    return ioctl(fd, IOCTL_GEM_CLOSE, &close_handle);
}

static int hand_over(int fd, const struct buffer* buffer) {
    struct fini_bo fini = {.handle = buffer->handle};
    return ioctl(fd, IOCTL_FINI_BO, &fini);
}

static int64_t in_seconds(int seconds) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec + (int64_t)seconds) * 1000000000 + now.tv_nsec;
}

static int take_back(int fd, const struct buffer* buffer, int64_t deadline) {
    struct prep_bo prep = {.handle = buffer->handle, .timeout_ns = deadline};
    int answer = 0;
    do {
        answer = ioctl(fd, IOCTL_PREP_BO, &prep);
    } while (answer != 0 && errno == EINTR);
    return answer;
}

struct work {
    struct buffer program, features, weights, results;
    struct task task;
};

static int prepare(int fd, struct work* work, const Matrices* matrices) {
    if (make_buffer(fd, &work->program, 4096) || make_buffer(fd, &work->features, 4096) ||
        make_buffer(fd, &work->weights, 8192) || make_buffer(fd, &work->results, 4096)) {
        return -1;
    }
    Program program;
    build(&program, matrices->type, (uint32_t)work->features.iova, (uint32_t)work->weights.iova,
          (uint32_t)work->results.iova, 1);
    CHECK_EQUAL(program.count, 126);
    memcpy(work->program.data, program.words, (size_t)program.count * 8);
    store_features(work->features.data, matrices);
    store_weights(work->weights.data, matrices);
    memset(work->results.data, 0x5a, work->results.size);
    work->task = (struct task){(uint32_t)work->program.iova, (uint32_t)program.count};
    return hand_over(fd, &work->program) | hand_over(fd, &work->features) | hand_over(fd, &work->weights) |
           hand_over(fd, &work->results);
}

static int submit(int fd, struct work* work) {
    uint32_t inputs[] = {work->program.handle, work->features.handle, work->weights.handle};
    uint32_t outputs[] = {work->results.handle};
    struct job job = {.tasks = (uintptr_t)&work->task,
                      .in_bo_handles = (uintptr_t)inputs,
                      .out_bo_handles = (uintptr_t)outputs,
                      .task_count = 1,
                      .task_struct_size = sizeof work->task,
                      .in_bo_handle_count = 3,
                      .out_bo_handle_count = 1};
    struct submit submission = {.jobs = (uintptr_t)&job, .job_count = 1, .job_struct_size = sizeof job};
    return ioctl(fd, IOCTL_SUBMIT, &submission);
}

static void release(int fd, struct work* work) {
    CHECK_EQUAL(destroy_buffer(fd, &work->program), 0);
    CHECK_EQUAL(destroy_buffer(fd, &work->features), 0);
    CHECK_EQUAL(destroy_buffer(fd, &work->weights), 0);
    CHECK_EQUAL(destroy_buffer(fd, &work->results), 0);
}

/* The number of wrong results of one multiplication; -1 if the driver refused something. */
static int multiply(int fd, Type type, uint64_t seed) {
    struct work work = {0};
    Matrices matrices;
    fill(&matrices, type, seed);
    if (prepare(fd, &work, &matrices) != 0 || submit(fd, &work) != 0 ||
        take_back(fd, &work.results, in_seconds(60)) != 0) {
        return -1;
    }
    const int wrong = count_wrong(work.results.data, &matrices);
    release(fd, &work);
    return wrong;
}
