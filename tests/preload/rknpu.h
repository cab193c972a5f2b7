/* The interface of the vendor's driver as a program finds it documented, and the steps that every program takes with it.
 * Shared by the clients; nothing of this project. */
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

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
struct action {
    uint32_t flags, value;
};
struct mem_create {
    uint32_t handle, flags;
    uint64_t size, obj_addr, dma_addr, sram_size;
    int32_t iommu_domain_id;
    uint32_t core_mask;
};
struct mem_map {
    uint32_t handle, reserved;
    uint64_t offset;
};
struct mem_destroy {
    uint32_t handle, reserved;
    uint64_t obj_addr;
};
struct mem_sync {
    uint32_t flags, reserved;
    uint64_t obj_addr, offset, size;
};
struct subcore_task {
    uint32_t start, number;
};
struct submit {
    uint32_t flags, timeout, task_start, task_number, task_counter;
    int32_t priority;
    uint64_t task_obj_addr;
    uint32_t iommu_domain_id, reserved;
    uint64_t task_base_addr;
    int64_t hw_elapse_time;
    uint32_t core_mask;
    int32_t fence_fd;
    struct subcore_task subcore_task[5];
};
struct task {
    uint32_t flags, op_idx, enable_mask, int_mask, int_clear, int_status, regcfg_amount, regcfg_offset;
    uint64_t regcmd_addr;
} __attribute__((packed));
struct prime_handle {
    uint32_t handle, flags;
    int32_t fd;
};

_Static_assert(sizeof(struct version) == 64, "");
_Static_assert(sizeof(struct mem_create) == 48, "");
_Static_assert(sizeof(struct submit) == 104, "");
_Static_assert(sizeof(struct task) == 40, "");

#define IOCTL_VERSION 0xc0406400
#define IOCTL_GEM_CLOSE 0x40086409
#define IOCTL_PRIME_HANDLE_TO_FD 0xc00c642d
#define IOCTL_PRIME_FD_TO_HANDLE 0xc00c642e
#define IOCTL_ACTION 0xc0086440
#define IOCTL_SUBMIT 0xc0686441
#define IOCTL_MEM_CREATE 0xc0306442
#define IOCTL_MEM_MAP 0xc0106443
#define IOCTL_MEM_DESTROY 0xc0106444
#define IOCTL_MEM_SYNC 0xc0206445

enum { NON_CONTIGUOUS = 1, CACHEABLE = 2, KERNEL_MAPPING = 8, IOMMU_LIMIT = 0x400 };
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };
enum { JOB_PC = 1, JOB_NONBLOCK = 2, JOB_PINGPONG = 4, JOB_FENCE_OUT = 16 };

/* ---- small steps ---- */

static int driver_is(int fd, const char* wanted) {
    char name[32] = {0};
    struct version version = {0};
    if (ioctl(fd, IOCTL_VERSION, &version) != 0 || version.name_length >= sizeof name) {
        return 0;
    }
    version.name = name;
    version.date_length = version.description_length = 0;
    return ioctl(fd, IOCTL_VERSION, &version) == 0 && strcmp(name, wanted) == 0;
}

static char node[300]; /* the device, found by the client */

static int open_device(void) {
    const int fd = open(node, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

struct buffer {
    uint32_t handle;
    uint64_t obj_addr, iova, size;
    uint8_t* data;
};

static int make_buffer(int fd, struct buffer* buffer, uint64_t size, uint32_t more_flags) {
    struct mem_create create = {.flags = NON_CONTIGUOUS | CACHEABLE | IOMMU_LIMIT | more_flags, .size = size};
    if (ioctl(fd, IOCTL_MEM_CREATE, &create) != 0) {
        return -1;
    }
    struct mem_map map = {.handle = create.handle};
    if (ioctl(fd, IOCTL_MEM_MAP, &map) != 0) {
        return -1;
    }
    void* data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)map.offset);
    if (data == MAP_FAILED) {
        return -1;
    }
    *buffer = (struct buffer){create.handle, create.obj_addr, create.dma_addr, size, data};
    return 0;
}

static int sync_buffer(int fd, const struct buffer* buffer, uint32_t direction) {
    struct mem_sync sync = {.flags = direction, .obj_addr = buffer->obj_addr, .offset = 0, .size = buffer->size};
    return ioctl(fd, IOCTL_MEM_SYNC, &sync);
}

static int destroy_buffer(int fd, const struct buffer* buffer) {
    struct mem_destroy destroy = {.handle = buffer->handle, .obj_addr = buffer->obj_addr};
    munmap(buffer->data, buffer->size);
    return ioctl(fd, IOCTL_MEM_DESTROY, &destroy);
}

struct job {
    struct buffer tasks, program, features, weights, results;
    struct submit submit;
};

/* Buffers with everything that one multiplication needs, handed over to the device. */
static int prepare(int fd, struct job* job, const Matrices* matrices, uint32_t core_mask) {
    if (make_buffer(fd, &job->tasks, 4096, KERNEL_MAPPING) || make_buffer(fd, &job->program, 4096, 0) ||
        make_buffer(fd, &job->features, 4096, 0) || make_buffer(fd, &job->weights, 8192, 0) ||
        make_buffer(fd, &job->results, 4096, 0)) {
        return -1;
    }
    Program program;
    build(&program, matrices->type, (uint32_t)job->features.iova, (uint32_t)job->weights.iova,
          (uint32_t)job->results.iova, 0);
    memcpy(job->program.data, program.words, (size_t)program.count * 8);
    store_features(job->features.data, matrices);
    store_weights(job->weights.data, matrices);
    memset(job->results.data, 0x5a, job->results.size);
    const struct task task = {.op_idx = 1,
                              .enable_mask = 0xd,
                              .int_mask = 0x300,
                              .int_clear = 0x1ffff,
                              .regcfg_amount = (uint32_t)program.count - 4,
                              .regcmd_addr = job->program.iova};
    memcpy(job->tasks.data, &task, sizeof task);
    job->submit = (struct submit){.flags = JOB_PC | JOB_PINGPONG,
                                  .timeout = 6000,
                                  .task_number = 1,
                                  .task_obj_addr = job->tasks.obj_addr,
                                  .core_mask = core_mask,
                                  .fence_fd = -1};
    for (int i = 0; i < 5; ++i) {
        job->submit.subcore_task[i] = (struct subcore_task){0, 1};
    }
    return sync_buffer(fd, &job->tasks, TO_DEVICE) | sync_buffer(fd, &job->program, TO_DEVICE) |
           sync_buffer(fd, &job->features, TO_DEVICE) | sync_buffer(fd, &job->weights, TO_DEVICE) |
           sync_buffer(fd, &job->results, TO_DEVICE);
}

static void release(int fd, struct job* job) {
    CHECK_EQUAL(destroy_buffer(fd, &job->tasks), 0);
    CHECK_EQUAL(destroy_buffer(fd, &job->program), 0);
    CHECK_EQUAL(destroy_buffer(fd, &job->features), 0);
    CHECK_EQUAL(destroy_buffer(fd, &job->weights), 0);
    CHECK_EQUAL(destroy_buffer(fd, &job->results), 0);
}

/* The number of wrong results of one multiplication; -1 if the driver refused something. */
static int multiply(int fd, Type type, uint64_t seed, uint32_t core_mask) {
    struct job job = {0};
    Matrices matrices;
    fill(&matrices, type, seed);
    if (prepare(fd, &job, &matrices, core_mask) != 0 || ioctl(fd, IOCTL_SUBMIT, &job.submit) != 0 ||
        sync_buffer(fd, &job.results, FROM_DEVICE) != 0) {
        return -1;
    }
    const int wrong = count_wrong(job.results.data, &matrices);
    release(fd, &job);
    return wrong;
}
