/* Opens, copies, closes and forks from several threads at once, while a signal handler does what handlers may do. Nothing is
 * computed: the library must neither deadlock, nor lose a device, nor keep one that is closed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 300 };

struct mem_create {
    uint32_t handle, flags;
    uint64_t size, obj_addr, dma_addr, sram_size;
    int32_t iommu_domain_id;
    uint32_t core_mask;
};

/* 256 MiB: if closed devices kept their buffers, their addresses would run out soon. */
static int make_buffer(int fd) {
    struct mem_create create = {.flags = 0x403, .size = 256 << 20};
    return ioctl(fd, 0xc0306442, &create);
}

static void on_alarm(int signal) {
    (void)signal;
    const int error = errno;
    struct stat status;
    const int null = open("/dev/null", O_RDONLY);
    fstat(null, &status);
    stat("/dev/dri/card0", &status);
    access("/sys/class/drm", F_OK);
    close(null);
    errno = error;
}

static void child(void) {
    const int fd = open("/dev/dri/card1", O_RDWR);
    if (fd < 0 || make_buffer(fd) != 0) {
        _exit(1);
    }
    close(fd);
    _exit(0);
}

static void* work(void* argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int round = 0; round < ROUNDS; ++round) {
        const int fd = open(round % 2 ? "/dev/dri/card1" : "/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0);
        CHECK_EQUAL(make_buffer(fd), 0);
        const int copy = dup(fd);
        if (rand_r(&seed) % 2 == 0) {
            close(fd);
            struct stat status;
            CHECK_EQUAL(fstat(copy, &status), 0);
            CHECK(S_ISCHR(status.st_mode));
        } else {
            const int null = open("/dev/null", O_RDONLY);
            dup2(null, fd); /* closes the device under its number */
            close(null);
            close(fd);
        }
        CHECK(ioctl(copy, 0xc0406400, NULL) == -1 && errno == EFAULT);
        if (rand_r(&seed) % 32 == 0) {
            int status = 0;
            const pid_t pid = fork();
            if (pid == 0) {
                child();
            }
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
            }
            CHECK_EQUAL(status, 0);
        }
        close(copy);
    }
    return NULL;
}

int main(void) {
    test_name = "stress";
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    return failures == 0 ? 0 : 1;
}
