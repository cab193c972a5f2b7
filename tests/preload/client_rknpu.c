/* A program for the vendor's kernel driver, by its published interface alone. Run under libnpu-preload.so; would run on a
 * board unchanged, but for the last part of forked_children, which says what a simulated kernel cannot do. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "matmul.h"

extern char** environ;

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

static char node[300]; /* found by nodes_are_listed */

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

/* ---- tests ---- */

static void nodes_are_listed(void) {
    int cards = 0, renders = 0;
    DIR* folder = opendir("/dev/dri");
    CHECK(folder != NULL);
    if (folder == NULL) {
        return;
    }
    for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
        const int is_card = strncmp(entry->d_name, "card", 4) == 0;
        if (!is_card && strncmp(entry->d_name, "renderD", 7) != 0) {
            continue;
        }
        CHECK(entry->d_type == DT_CHR || entry->d_type == DT_UNKNOWN);
        char path[300];
        snprintf(path, sizeof path, "/dev/dri/%s", entry->d_name);
        const int fd = open(path, O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0);
        if (driver_is(fd, "rknpu")) {
            cards += is_card;
            renders += !is_card;
            if (is_card) {
                strcpy(node, path);
            }
        }
        close(fd);
    }
    closedir(folder);
    CHECK(cards > 0);
    CHECK(renders > 0);

    struct dirent** entries = NULL;
    const int count = scandir("/dev/dri", &entries, NULL, alphasort);
    CHECK(count >= 4);
    for (int i = 0; i < count; ++i) {
        free(entries[i]);
    }
    free(entries);

    glob_t found;
    CHECK_EQUAL(glob("/dev/dri/renderD*", 0, NULL, &found), 0);
    CHECK(found.gl_pathc >= 1 && strncmp(found.gl_pathv[0], "/dev/dri/renderD1", 17) == 0);
    globfree(&found);

    folder = opendir("/dev"); /* the machine's own entries and the simulated ones */
    int null_seen = 0, dri_seen = 0;
    for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
        null_seen += strcmp(entry->d_name, "null") == 0;
        dri_seen += strcmp(entry->d_name, "dri") == 0;
    }
    closedir(folder);
    CHECK_EQUAL(null_seen, 1);
    CHECK_EQUAL(dri_seen, 1);
}

static void read_line(const char* path, char* line, int size) {
    line[0] = '\0';
    FILE* file = fopen(path, "r");
    CHECK(file != NULL);
    if (file != NULL) {
        CHECK(fgets(line, size, file) != NULL);
        fclose(file);
        line[strcspn(line, "\n")] = '\0';
    }
}

static void files_tell_about_the_device(void) {
    struct stat by_path, by_fd;
    char text[4096], path[512];
    const int fd = open_device();
    CHECK_EQUAL(stat(node, &by_path), 0);
    CHECK_EQUAL(fstat(fd, &by_fd), 0);
    CHECK(S_ISCHR(by_path.st_mode) && S_ISCHR(by_fd.st_mode));
    CHECK_EQUAL(major(by_path.st_rdev), 226);
    CHECK_EQUAL(by_path.st_rdev, by_fd.st_rdev);
    CHECK_EQUAL(access(node, R_OK | W_OK), 0);
    CHECK_FAILS(access("/dev/dri/card77", F_OK), ENOENT);
    CHECK_FAILS(open("/dev/dri/card77", O_RDWR), ENOENT);
    CHECK_FAILS(open(node, O_RDWR | O_DIRECTORY), ENOTDIR);

    const int folder = open("/dev/dri", O_RDONLY | O_DIRECTORY);
    const int relative = openat(folder, strrchr(node, '/') + 1, O_RDWR);
    CHECK(driver_is(relative, "rknpu"));
    CHECK_EQUAL(fstatat(folder, strrchr(node, '/') + 1, &by_path, 0), 0);
    CHECK_EQUAL(by_path.st_rdev, by_fd.st_rdev);
    close(relative);
    close(folder);

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, text, sizeof text - 1);
    CHECK(length > 0);
    text[length > 0 ? length : 0] = '\0';
    CHECK(strcmp(text, node) == 0);
    CHECK_EQUAL(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
    CHECK_EQUAL(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);

    snprintf(path, sizeof path, "/sys/dev/char/226:%u/device/driver", minor(by_fd.st_rdev));
    CHECK(realpath(path, text) != NULL);
    CHECK(strcasecmp(strrchr(text, '/') + 1, "rknpu") == 0);
    snprintf(path, sizeof path, "/sys/class/drm/%s/dev", strrchr(node, '/') + 1);
    read_line(path, text, sizeof text);
    snprintf(path, sizeof path, "226:%u", minor(by_fd.st_rdev));
    CHECK(strcmp(text, path) == 0);

    read_line("/sys/kernel/debug/rknpu/version", text, sizeof text);
    CHECK(strstr(text, "0.9.8") != NULL);
    read_line("/sys/class/devfreq/fdab0000.npu/cur_freq", text, sizeof text);
    CHECK(atoll(text) >= 200000000);
    read_line("/proc/device-tree/compatible", text, sizeof text);
    int names_chip = 0;
    for (const char* name = text; *name != '\0'; name += strlen(name) + 1) {
        names_chip |= strstr(name, "rk3588") != NULL;
    }
    CHECK(names_chip);
    CHECK(access("/proc/self/status", R_OK) == 0); /* what is not simulated is the machine's */
    close(fd);
}

static void the_driver_answers(void) {
    const int fd = open_device();
    struct action action = {.flags = 0};
    CHECK_EQUAL(ioctl(fd, IOCTL_ACTION, &action), 0);
    CHECK_EQUAL(action.value, 0x46495245);
    action = (struct action){.flags = 1};
    CHECK_EQUAL(ioctl(fd, IOCTL_ACTION, &action), 0);
    CHECK_EQUAL(action.value, 908);
    errno = 0;
    CHECK_EQUAL(ioctl(fd, IOCTL_ACTION, &action), 0);
    CHECK_EQUAL(errno, 0);                               /* success leaves errno alone */
    CHECK_FAILS(ioctl(fd, 0xc0086450, &action), EINVAL); /* no such request */
    CHECK_FAILS(ioctl(fd, IOCTL_ACTION, NULL), EFAULT);
    CHECK_FAILS(ioctl(fd, TCGETS, &action), ENOTTY);
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    CHECK_EQUAL(poll(&entry, 1, 0), 0); /* no events to read */
    close(fd);
    CHECK_FAILS(ioctl(fd, IOCTL_ACTION, &action), EBADF);
}

static void buffers_have_rules(void) {
    const int fd = open_device();
    struct buffer one = {0}, two = {0};
    CHECK_EQUAL(make_buffer(fd, &one, 4096, 0), 0);
    CHECK_EQUAL(make_buffer(fd, &two, 3 * 4096, 0), 0);
    CHECK(one.iova + one.size <= two.iova || two.iova + two.size <= one.iova);
    memset(one.data, 1, one.size);
    memset(two.data, 2, two.size);
    CHECK(one.data[4095] == 1 && two.data[0] == 2 && two.data[3 * 4096 - 1] == 2);
    struct mem_create nothing = {.flags = NON_CONTIGUOUS, .size = 0};
    CHECK_FAILS(ioctl(fd, IOCTL_MEM_CREATE, &nothing), EINVAL);
    struct mem_map unknown = {.handle = 4711};
    CHECK_FAILS(ioctl(fd, IOCTL_MEM_MAP, &unknown), EINVAL);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0x7ffff000) == MAP_FAILED);
    CHECK_EQUAL(sync_buffer(fd, &one, TO_DEVICE | FROM_DEVICE), 0);

    /* a mapping outlives its handle, and the file */
    struct mem_map map = {.handle = two.handle};
    CHECK_EQUAL(ioctl(fd, IOCTL_MEM_MAP, &map), 0);
    CHECK_EQUAL(munmap(one.data, one.size), 0);
    struct mem_destroy destroy = {.handle = one.handle, .obj_addr = one.obj_addr};
    CHECK_EQUAL(ioctl(fd, IOCTL_MEM_DESTROY, &destroy), 0);
    close(fd);
    CHECK(two.data[4096] == 2);
    two.data[4096] = 3;
    CHECK(two.data[4096] == 3);
    CHECK_EQUAL(munmap(two.data, two.size), 0);
}

static void products_are_right(void) {
    const int fd = open_device();
    for (uint32_t core = 1; core <= 4; core <<= 1) {
        CHECK_EQUAL(multiply(fd, INT8, core, core), 0);
        CHECK_EQUAL(multiply(fd, FP16, core, core), 0);
    }
    CHECK_EQUAL(multiply(fd, INT8, 9, 7), 0); /* three cores write the same */
    CHECK_EQUAL(multiply(fd, INT8, 10, 0), 0);

    /* the check can fail: with another weight the product is another */
    struct job job = {0};
    Matrices matrices;
    fill(&matrices, INT8, 5);
    CHECK_EQUAL(prepare(fd, &job, &matrices, 1), 0);
    job.weights.data[K / 2] ^= 1;
    CHECK_EQUAL(sync_buffer(fd, &job.weights, TO_DEVICE), 0);
    CHECK_EQUAL(ioctl(fd, IOCTL_SUBMIT, &job.submit), 0);
    CHECK_EQUAL(job.submit.task_counter, 1);
    CHECK(job.submit.hw_elapse_time > 0);
    CHECK_EQUAL(sync_buffer(fd, &job.results, FROM_DEVICE), 0);
    CHECK(count_wrong(job.results.data, &matrices) > 0);
    release(fd, &job);
    close(fd);
}

static void copies_of_a_descriptor_are_the_device(void) {
    int fd = open_device();
    struct job job = {0};
    Matrices matrices;
    fill(&matrices, INT8, 6);
    CHECK_EQUAL(prepare(fd, &job, &matrices, 1), 0);
    const int copies[] = {dup(fd), fcntl(fd, F_DUPFD_CLOEXEC, 100), dup2(fd, 200), dup3(fd, 201, O_CLOEXEC)};
    close(fd);
    for (int i = 0; i < 4; ++i) {
        CHECK(driver_is(copies[i], "rknpu"));
        memset(job.results.data, 0x5a, job.results.size);
        CHECK_EQUAL(sync_buffer(copies[i], &job.results, TO_DEVICE), 0);
        CHECK_EQUAL(ioctl(copies[i], IOCTL_SUBMIT, &job.submit), 0);
        CHECK_EQUAL(sync_buffer(copies[i], &job.results, FROM_DEVICE), 0);
        CHECK_EQUAL(count_wrong(job.results.data, &matrices), 0);
        if (i < 3) {
            close(copies[i]);
        }
    }
    /* the last copy becomes another file: the device is closed, its buffers are gone */
    const int null = open("/dev/null", O_RDWR);
    CHECK_EQUAL(dup2(null, copies[3]), copies[3]);
    CHECK_FAILS(ioctl(copies[3], IOCTL_SUBMIT, &job.submit), ENOTTY);
    close(null);
    close(copies[3]);
    fd = open_device();
    CHECK_EQUAL(multiply(fd, FP16, 6, 1), 0);
    close(fd);
}

static void files_do_not_share_buffers(void) {
    const int one = open_device(), two = open_device();
    struct buffer buffer = {0};
    CHECK_EQUAL(make_buffer(one, &buffer, 4096, 0), 0);
    struct mem_map map = {.handle = buffer.handle};
    CHECK_EQUAL(ioctl(one, IOCTL_MEM_MAP, &map), 0);
    CHECK_FAILS(ioctl(two, IOCTL_MEM_MAP, &map), EINVAL);
    CHECK_EQUAL(multiply(one, INT8, 7, 1), 0);
    CHECK_EQUAL(multiply(two, INT8, 8, 2), 0);
    close(one);
    CHECK_EQUAL(multiply(two, INT8, 9, 4), 0);
    close(two);
}

static void bad_jobs_fail_and_good_ones_go_on(void) {
    const int fd = open_device();
    struct job job = {0};
    Matrices matrices;
    fill(&matrices, INT8, 11);
    CHECK_EQUAL(prepare(fd, &job, &matrices, 1), 0);
    struct submit empty = job.submit;
    empty.task_number = 0;
    CHECK_FAILS(ioctl(fd, IOCTL_SUBMIT, &empty), EINVAL);
    struct submit no_core = job.submit;
    no_core.core_mask = 8;
    CHECK_FAILS(ioctl(fd, IOCTL_SUBMIT, &no_core), EINVAL);

    struct task task;
    memcpy(&task, job.tasks.data, sizeof task);
    task.regcmd_addr = 0x1000; /* no buffer there */
    memcpy(job.tasks.data, &task, sizeof task);
    CHECK_EQUAL(sync_buffer(fd, &job.tasks, TO_DEVICE), 0);
    struct submit hangs = job.submit;
    hangs.timeout = 50;
    CHECK_FAILS(ioctl(fd, IOCTL_SUBMIT, &hangs), ETIMEDOUT);
    CHECK(job.results.data[0] == 0x5a);
    release(fd, &job);
    CHECK_EQUAL(multiply(fd, INT8, 12, 1), 0);
    close(fd);
}

static void a_fence_can_be_polled(void) {
    const int fd = open_device();
    struct job job = {0};
    Matrices matrices;
    fill(&matrices, FP16, 13);
    CHECK_EQUAL(prepare(fd, &job, &matrices, 1), 0);
    job.submit.flags |= JOB_NONBLOCK | JOB_FENCE_OUT;
    const int submitted = ioctl(fd, IOCTL_SUBMIT, &job.submit);
    CHECK_EQUAL(submitted, 0);
    if (submitted != 0) {
        return;
    }
    CHECK(job.submit.fence_fd > 2);
    struct pollfd entry = {.fd = job.submit.fence_fd, .events = POLLIN};
    CHECK_EQUAL(poll(&entry, 1, 60000), 1);
    CHECK_EQUAL(entry.revents, POLLIN);
    CHECK_EQUAL(sync_buffer(fd, &job.results, FROM_DEVICE), 0);
    CHECK_EQUAL(count_wrong(job.results.data, &matrices), 0);
    CHECK_EQUAL(close(job.submit.fence_fd), 0);
    release(fd, &job);
    close(fd);
}

static void a_buffer_passes_as_a_descriptor(void) {
    const int one = open_device(), two = open_device();
    struct buffer buffer = {0};
    CHECK_EQUAL(make_buffer(one, &buffer, 8192, 0), 0);
    memset(buffer.data, 0x17, buffer.size);
    struct prime_handle prime = {.handle = buffer.handle, .flags = O_CLOEXEC | O_RDWR, .fd = -1};
    CHECK_EQUAL(ioctl(one, IOCTL_PRIME_HANDLE_TO_FD, &prime), 0);
    CHECK(prime.fd > 2);
    CHECK_EQUAL(lseek(prime.fd, 0, SEEK_END), 8192);
    const int copy = dup(prime.fd);
    close(prime.fd);
    uint8_t* view = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
    CHECK(view != MAP_FAILED);
    if (view != MAP_FAILED) {
        CHECK(view[0] == 0x17 && view[8191] == 0x17);
        view[1] = 0x18;
        CHECK(buffer.data[1] == 0x18);
    }
    struct prime_handle imported = {.fd = copy};
    CHECK_EQUAL(ioctl(two, IOCTL_PRIME_FD_TO_HANDLE, &imported), 0);
    CHECK_EQUAL(imported.fd, copy);
    close(copy);
    close(one);
    struct mem_create look = {.handle = imported.handle};
    CHECK_EQUAL(ioctl(two, IOCTL_MEM_CREATE, &look), 0);
    CHECK(look.dma_addr != 0);
    struct mem_map map = {.handle = imported.handle};
    CHECK_EQUAL(ioctl(two, IOCTL_MEM_MAP, &map), 0);
    uint8_t* other = mmap(NULL, 8192, PROT_READ, MAP_SHARED, two, (off_t)map.offset);
    CHECK(other != MAP_FAILED && other[1] == 0x18);
    const int null = open("/dev/null", O_RDWR);
    struct prime_handle no_buffer = {.fd = null};
    CHECK_FAILS(ioctl(two, IOCTL_PRIME_FD_TO_HANDLE, &no_buffer), EINVAL);
    close(null);
    close(two);
}

static void* many_products(void* argument) {
    const uint64_t seed = (uint64_t)(uintptr_t)argument;
    for (uint64_t i = 0; i < 5; ++i) {
        const int fd = open_device();
        CHECK_EQUAL(multiply(fd, i % 2 == 0 ? INT8 : FP16, seed * 100 + i, 1u << (seed + i) % 3), 0);
        close(fd);
    }
    return NULL;
}

static void threads_work_side_by_side(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, many_products, (void*)(uintptr_t)(i + 1)), 0);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
}

static int exit_status(pid_t child) {
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forked_children(void) {
    const int fd = open_device();
    struct buffer buffer = {0};
    CHECK_EQUAL(make_buffer(fd, &buffer, 4096, 0), 0);
    CHECK_EQUAL(multiply(fd, INT8, 20, 1), 0);

    const pid_t child = fork();
    if (child == 0) {
        failures = 0;
        const int own = open_device(); /* works */
        CHECK_EQUAL(multiply(own, INT8, 21, 1), 0);
        CHECK_EQUAL(multiply(own, FP16, 22, 2), 0);
        struct mem_map map = {.handle = buffer.handle}; /* the parent's buffer means nothing here */
        CHECK(ioctl(own, IOCTL_MEM_MAP, &map) == -1);
        close(own);
        /* the inherited descriptor is refused */
        CHECK_FAILS(ioctl(fd, IOCTL_MEM_MAP, &map), ENODEV);
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
        CHECK_EQUAL(close(fd), 0);
        exit(failures == 0 ? 0 : 1);
    }
    CHECK_EQUAL(exit_status(child), 0);
    CHECK_EQUAL(multiply(fd, INT8, 23, 1), 0); /* the parent's goes on */
    CHECK_EQUAL(sync_buffer(fd, &buffer, TO_DEVICE), 0);
    CHECK_EQUAL(destroy_buffer(fd, &buffer), 0);
    close(fd);
}

static const char* self;

static void started_programs(void) {
    const int fd = open_device(), inherited = dup(fd); /* dup() clears close-on-exec */
    char closed_number[16], open_number[16];
    snprintf(closed_number, sizeof closed_number, "%d", fd);
    snprintf(open_number, sizeof open_number, "%d", inherited);
    char* arguments[] = {(char*)self, "started", closed_number, open_number, NULL};
    pid_t child = 0;
    CHECK_EQUAL(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    CHECK_EQUAL(exit_status(child), 0);

    child = vfork(); /* shares the memory: what it closes is still open here */
    if (child == 0) {
        close(fd);
        close(inherited);
        execv(self, arguments);
        _exit(9);
    }
    CHECK_EQUAL(exit_status(child), 0);
    CHECK_EQUAL(multiply(fd, INT8, 30, 1), 0);
    CHECK_EQUAL(multiply(inherited, INT8, 31, 1), 0);
    close(fd);
    close(inherited);
}

/* In a program that was started by another one that had the device open. */
static int run_started(int closed_number, int open_number) {
    test_name = "started";
    CHECK_FAILS(fcntl(closed_number, F_GETFD), EBADF);    /* close-on-exec */
    CHECK(ioctl(open_number, IOCTL_VERSION, NULL) == -1); /* a kernel of another process */
    nodes_are_listed();
    const int fd = open_device();
    CHECK_EQUAL(multiply(fd, INT8, 32, 1), 0);
    close(fd);
    return failures == 0 ? 0 : 1;
}

static void closing_everything_is_survived(void) {
    const int fd = open_device();
    CHECK_EQUAL(multiply(fd, INT8, 40, 1), 0);
    for (int number = 3; number < 1024; ++number) { /* as daemons do */
        if (number != fd) {
            close(number);
        }
    }
    CHECK_EQUAL(multiply(fd, INT8, 41, 1), 0);
    close_range((unsigned)fd + 1, ~0u, 0);
    CHECK_EQUAL(multiply(fd, INT8, 42, 1), 0);
    close(fd);
    const int lowest = open("/dev/null", O_RDONLY), device = open_device();
    CHECK_EQUAL(device, lowest + 1); /* the lowest free number, as open() promises */
    close(device);
    close(lowest);
}

/* One multiplication and nothing else, for tests of the wrapper. Careful programs hand over what they wrote; "careless"
 * does not. Afterwards the program ends in one way or another. */
static int run_once(const char* manner) {
    test_name = manner;
    strcpy(node, "/dev/dri/renderD128");
    const int fd = open_device();
    struct job job = {0};
    Matrices matrices;
    fill(&matrices, INT8, 1);
    if (prepare(fd, &job, &matrices, 1) != 0) {
        perror("prepare");
        return 1;
    }
    if (strcmp(manner, "careless") == 0) {
        fill(&matrices, INT8, 2);
        store_weights(job.weights.data, &matrices);
        store_features(job.features.data, &matrices);
    }
    if (ioctl(fd, IOCTL_SUBMIT, &job.submit) != 0) {
        perror("submit");
        return 1;
    }
    CHECK_EQUAL(sync_buffer(fd, &job.results, FROM_DEVICE), 0);
    CHECK_EQUAL(count_wrong(job.results.data, &matrices), 0);
    if (strcmp(manner, "abort") == 0) {
        abort();
    }
    if (strcmp(manner, "_exit") == 0) {
        _exit(failures == 0 ? 0 : 1);
    }
    return failures == 0 ? 0 : 1;
}

int main(int count, char** arguments) {
    self = arguments[0];
    if (count == 3 && strcmp(arguments[1], "once") == 0) {
        return run_once(arguments[2]);
    }
    if (count == 4 && strcmp(arguments[1], "started") == 0) {
        return run_started(atoi(arguments[2]), atoi(arguments[3]));
    }
    RUN(nodes_are_listed);
    if (node[0] == '\0') {
        fprintf(stderr, "no node with the driver rknpu\n");
        return 1;
    }
    RUN(files_tell_about_the_device);
    RUN(the_driver_answers);
    RUN(buffers_have_rules);
    RUN(products_are_right);
    RUN(copies_of_a_descriptor_are_the_device);
    RUN(files_do_not_share_buffers);
    RUN(bad_jobs_fail_and_good_ones_go_on);
    RUN(a_fence_can_be_polled);
    RUN(a_buffer_passes_as_a_descriptor);
    RUN(threads_work_side_by_side);
    RUN(forked_children);
    if (count < 2 || strcmp(arguments[1], "emulated") != 0) { /* an emulator cannot start programs for its machine */
        RUN(started_programs);
    }
    RUN(closing_everything_is_survived);
    return failures == 0 ? 0 : 1;
}
