/* A program for the mainline kernel driver, by its published interface alone. Run under libnpu-preload.so; would run on a
 * board unchanged, but for the last part of forked_children, which says what a simulated kernel cannot do. */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rocket.h"

extern char** environ;

static void the_node_is_listed(void) {
    int found = 0;
    DIR* folder = opendir("/dev/accel");
    CHECK(folder != NULL);
    for (struct dirent* entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        found += strcmp(entry->d_name, "accel0") == 0;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    CHECK_EQUAL(found, 1);
    CHECK(opendir("/dev/dri") == NULL); /* this board has no DRM device */
    const int fd = open_device();
    CHECK(driver_is(fd, "rocket"));
    CHECK(!driver_is(fd, "rknpu"));
    close(fd);
}

static void files_tell_about_the_device(void) {
    struct stat by_path, by_fd;
    char text[4096], path[64];
    const int fd = open_device();
    CHECK_EQUAL(stat(NODE, &by_path), 0);
    CHECK_EQUAL(fstat(fd, &by_fd), 0);
    CHECK(S_ISCHR(by_path.st_mode) && S_ISCHR(by_fd.st_mode));
    CHECK_EQUAL(by_path.st_rdev, makedev(261, 0));
    CHECK_EQUAL(by_fd.st_rdev, makedev(261, 0));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(path, text, sizeof text - 1);
    CHECK_EQUAL(length, (ssize_t)strlen(NODE));
    CHECK(length > 0 && memcmp(text, NODE, (size_t)length) == 0);
    CHECK(realpath("/sys/class/accel/accel0/device/driver", text) != NULL);
    CHECK(strcmp(text, "/sys/bus/platform/drivers/rocket") == 0);
    CHECK_EQUAL(access("/sys/module/rocket/parameters/rocket_batch_submit", R_OK), 0);
    int cores = 0;
    DIR* folder = opendir("/sys/bus/platform/drivers/rocket");
    for (struct dirent* entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        cores += strstr(entry->d_name, ".npu") != NULL;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    CHECK_EQUAL(cores, 3);
    close(fd);
}

static void buffers_have_rules(void) {
    const int fd = open_device();
    struct buffer one = {0}, two = {0};
    CHECK_EQUAL(make_buffer(fd, &one, 4096), 0);
    CHECK_EQUAL(one.iova, 0); /* a legal address */
    CHECK_EQUAL(make_buffer(fd, &two, 8192), 0);
    CHECK(two.iova >= 4096);
    memset(one.data, 1, one.size);
    memset(two.data, 2, two.size);
    CHECK(one.data[4095] == 1 && two.data[0] == 2 && two.data[8191] == 2);
    struct fini_bo unknown = {.handle = 4711};
    CHECK_FAILS(ioctl(fd, IOCTL_FINI_BO, &unknown), ENOENT);
    struct fini_bo reserved = {.handle = one.handle, .reserved = 1};
    CHECK_FAILS(ioctl(fd, IOCTL_FINI_BO, &reserved), EINVAL);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0x7ffff000) == MAP_FAILED);
    CHECK_FAILS(ioctl(fd, IOCTL_FINI_BO, NULL), EFAULT);
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    CHECK_EQUAL(poll(&entry, 1, 0), 0);
    CHECK_EQUAL(take_back(fd, &one, 0), 0); /* nothing to wait for */
    close(fd);
    CHECK(two.data[4096] == 2); /* the mapping outlives the file */
    CHECK_EQUAL(munmap(one.data, one.size), 0);
    CHECK_EQUAL(munmap(two.data, two.size), 0);
}

static void products_are_right(void) {
    const int fd = open_device();
    CHECK_EQUAL(multiply(fd, INT8, 1), 0);
    CHECK_EQUAL(multiply(fd, FP16, 2), 0);

    /* the check can fail: with another weight the product is another */
    struct work work = {0};
    Matrices matrices;
    fill(&matrices, INT8, 5);
    CHECK_EQUAL(prepare(fd, &work, &matrices), 0);
    work.weights.data[K / 2] ^= 1;
    CHECK_EQUAL(hand_over(fd, &work.weights), 0);
    CHECK_EQUAL(submit(fd, &work), 0);
    CHECK_EQUAL(take_back(fd, &work.results, in_seconds(60)), 0);
    CHECK(count_wrong(work.results.data, &matrices) > 0);
    release(fd, &work);
    close(fd);
}

static void copies_of_a_descriptor_are_the_device(void) {
    int fd = open_device();
    struct work work = {0};
    Matrices matrices;
    fill(&matrices, INT8, 6);
    CHECK_EQUAL(prepare(fd, &work, &matrices), 0);
    const int copies[] = {dup(fd), fcntl(fd, F_DUPFD, 100), dup2(fd, 200)};
    close(fd);
    for (int i = 0; i < 3; ++i) {
        memset(work.results.data, 0x5a, work.results.size);
        CHECK_EQUAL(hand_over(copies[i], &work.results), 0);
        CHECK_EQUAL(submit(copies[i], &work), 0);
        CHECK_EQUAL(take_back(copies[i], &work.results, in_seconds(60)), 0);
        CHECK_EQUAL(count_wrong(work.results.data, &matrices), 0);
        close(copies[i]);
    }
    CHECK_FAILS(submit(copies[2], &work), EBADF);
    fd = open_device();
    CHECK_EQUAL(multiply(fd, FP16, 6), 0);
    close(fd);
}

static void files_have_their_own_addresses(void) {
    const int one = open_device(), two = open_device();
    struct buffer first = {0}, second = {0};
    CHECK_EQUAL(make_buffer(one, &first, 4096), 0);
    CHECK_EQUAL(make_buffer(two, &second, 4096), 0);
    CHECK_EQUAL(first.iova, second.iova);
    first.data[0] = 1;
    second.data[0] = 2;
    CHECK(first.data[0] == 1);
    CHECK_EQUAL(multiply(one, INT8, 7), 0);
    close(one);
    CHECK_EQUAL(multiply(two, INT8, 8), 0);
    close(two);
}

static void errors_are_the_drivers(void) {
    const int fd = open_device();
    struct work work = {0};
    Matrices matrices;
    fill(&matrices, INT8, 11);
    CHECK_EQUAL(prepare(fd, &work, &matrices), 0);
    struct job job = {.task_struct_size = sizeof work.task};
    struct submit reserved = {.jobs = (uintptr_t)&job, .job_count = 1, .job_struct_size = sizeof job, .reserved = 1};
    CHECK_FAILS(ioctl(fd, IOCTL_SUBMIT, &reserved), EINVAL);
    struct submit short_job = {.job_count = 1, .job_struct_size = 8, .jobs = (uintptr_t)&work};
    CHECK_FAILS(ioctl(fd, IOCTL_SUBMIT, &short_job), EINVAL);
    struct submit bad_pointer = {.job_count = 1, .job_struct_size = sizeof(struct job), .jobs = 0x10};
    CHECK_FAILS(ioctl(fd, IOCTL_SUBMIT, &bad_pointer), EFAULT);

    /* a program that is not there: the core hangs, is reset after half a second, and nobody is told */
    work.task.regcmd = 0x700000;
    CHECK_EQUAL(submit(fd, &work), 0);
    CHECK_FAILS(take_back(fd, &work.results, in_seconds(-1)), EBUSY); /* not done yet, and the deadline is over */
    CHECK_EQUAL(take_back(fd, &work.results, in_seconds(60)), 0);
    CHECK(work.results.data[0] == 0x5a);
    release(fd, &work);
    CHECK_EQUAL(multiply(fd, INT8, 12), 0);
    close(fd);
}

static volatile sig_atomic_t alarms = 0;
static void on_alarm(int signal) {
    (void)signal;
    ++alarms;
}

static void a_signal_interrupts_a_wait(void) {
    const int fd = open_device();
    struct work work = {0};
    Matrices matrices;
    fill(&matrices, INT8, 14);
    CHECK_EQUAL(prepare(fd, &work, &matrices), 0);
    for (int restart = 0; restart <= 1; ++restart) {
        alarms = 0;
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = restart ? SA_RESTART : 0};
        sigaction(SIGALRM, &action, NULL);
        work.task.regcmd = 0x700000; /* hangs for half a second */
        CHECK_EQUAL(submit(fd, &work), 0);
        const struct itimerval soon = {.it_value = {0, 100000}};
        setitimer(ITIMER_REAL, &soon, NULL);
        struct prep_bo prep = {.handle = work.results.handle, .timeout_ns = in_seconds(60)};
        if (restart) {
            CHECK_EQUAL(ioctl(fd, IOCTL_PREP_BO, &prep), 0);
        } else {
            CHECK_FAILS(ioctl(fd, IOCTL_PREP_BO, &prep), EINTR);
            CHECK_EQUAL(ioctl(fd, IOCTL_PREP_BO, &prep), 0);
        }
        CHECK_EQUAL(alarms, 1);
    }
    release(fd, &work);
    close(fd);
}

static void* many_products(void* argument) {
    const uint64_t seed = (uint64_t)(uintptr_t)argument;
    for (uint64_t i = 0; i < 5; ++i) {
        const int fd = open_device();
        CHECK_EQUAL(multiply(fd, i % 2 == 0 ? INT8 : FP16, seed * 100 + i), 0);
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
    CHECK_EQUAL(make_buffer(fd, &buffer, 4096), 0);
    CHECK_EQUAL(multiply(fd, INT8, 20), 0);
    const pid_t child = fork();
    if (child == 0) {
        failures = 0;
        const int own = open_device();                   /* works */
        struct fini_bo fini = {.handle = buffer.handle}; /* the parent's buffer means nothing here */
        CHECK_FAILS(ioctl(own, IOCTL_FINI_BO, &fini), ENOENT);
        CHECK_EQUAL(multiply(own, INT8, 21), 0);
        CHECK_EQUAL(multiply(own, FP16, 22), 0);
        close(own);
        /* the inherited descriptor is refused */
        CHECK_FAILS(ioctl(fd, IOCTL_FINI_BO, &fini), ENODEV);
        CHECK_FAILS(ioctl(fd, IOCTL_FINI_BO, &fini), ENODEV);
        CHECK_EQUAL(close(fd), 0);
        exit(failures == 0 ? 0 : 1);
    }
    CHECK_EQUAL(exit_status(child), 0);
    CHECK_EQUAL(multiply(fd, INT8, 23), 0); /* the parent's goes on */
    CHECK_EQUAL(hand_over(fd, &buffer), 0);
    CHECK_EQUAL(destroy_buffer(fd, &buffer), 0);
    close(fd);
}

static const char* self;

static void started_programs(void) {
    const int fd = open_device();
    char* arguments[] = {(char*)self, "started", NULL};
    pid_t child = 0;
    CHECK_EQUAL(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    CHECK_EQUAL(exit_status(child), 0);
    CHECK_EQUAL(multiply(fd, INT8, 30), 0);
    close(fd);
}

static int run_started(void) {
    test_name = "started";
    const int fd = open_device();
    CHECK_EQUAL(multiply(fd, INT8, 32), 0);
    close(fd);
    return failures == 0 ? 0 : 1;
}

static void many_files_can_be_open(void) {
    int fds[65];
    struct buffer buffers[65] = {{0}};
    for (int i = 0; i < 65; ++i) {
        fds[i] = open_device();
        CHECK_EQUAL(make_buffer(fds[i], &buffers[i], 4096), 0);
        buffers[i].data[0] = (uint8_t)i;
    }
    CHECK_EQUAL(multiply(fds[64], INT8, 50), 0);
    for (int i = 0; i < 65; ++i) { /* files first, mappings later */
        close(fds[i]);
    }
    for (int i = 64; i >= 0; --i) {
        CHECK_EQUAL(buffers[i].data[0], i);
        CHECK_EQUAL(munmap(buffers[i].data, 4096), 0);
    }
}

int main(int count, char** arguments) {
    self = arguments[0];
    if (count == 2 && strcmp(arguments[1], "started") == 0) {
        return run_started();
    }
    RUN(the_node_is_listed);
    RUN(files_tell_about_the_device);
    RUN(buffers_have_rules);
    RUN(products_are_right);
    RUN(copies_of_a_descriptor_are_the_device);
    RUN(files_have_their_own_addresses);
    RUN(errors_are_the_drivers);
    RUN(a_signal_interrupts_a_wait);
    RUN(threads_work_side_by_side);
    RUN(forked_children);
    if (count < 2 || strcmp(arguments[1], "emulated") != 0) { /* an emulator cannot start programs for its machine */
        RUN(started_programs);
    }
    RUN(many_files_can_be_open);
    return failures == 0 ? 0 : 1;
}
