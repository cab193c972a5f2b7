/* A program for the vendor's kernel driver that shares it in every way: descriptors, files, buffers, threads, processes. Run
 * under libnpu-preload.so; would run on a board unchanged, but for the end of forked_children, which says what a simulated
 * kernel cannot do. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rknpu.h"

extern char** environ;

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

int main(int count, char** arguments) {
    self = arguments[0];
    strcpy(node, "/dev/dri/renderD128");
    if (count == 4 && strcmp(arguments[1], "started") == 0) {
        return run_started(atoi(arguments[2]), atoi(arguments[3]));
    }
    RUN(copies_of_a_descriptor_are_the_device);
    RUN(files_do_not_share_buffers);
    RUN(a_buffer_passes_as_a_descriptor);
    RUN(threads_work_side_by_side);
    RUN(forked_children);
    if (count < 2 || strcmp(arguments[1], "emulated") != 0) { /* an emulator cannot start programs for its machine */
        RUN(started_programs);
    }
    RUN(closing_everything_is_survived);
    return failures == 0 ? 0 : 1;
}
