/* A program for the vendor's kernel driver, by its published interface alone: finding the device, buffers, jobs, errors. Run
 * under libnpu-preload.so; would run on a board unchanged. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include "rknpu.h"

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
    if (count == 3 && strcmp(arguments[1], "once") == 0) {
        return run_once(arguments[2]);
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
    RUN(bad_jobs_fail_and_good_ones_go_on);
    RUN(a_fence_can_be_polled);
    return failures == 0 ? 0 : 1;
}
