/* What libdrm makes of the simulated device. The library is loaded at run time and its types are written out here, so that
 * its headers are not needed. Ends with 77 where libdrm is not installed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* drmVersion */
struct version {
    int major, minor, patch;
    int name_length;
    char* name;
    int date_length;
    char* date;
    int description_length;
    char* description;
};

/* The beginning of drmDevice; nodes are those of the types card, control (not any more) and render. */
struct device {
    char** nodes;
    int available_nodes;
    int bus_type;
};
enum { NODE_CARD = 0, NODE_RENDER = 2, BUS_PLATFORM = 2 };

int main(int count, char** arguments) {
    const char* driver = count > 1 ? arguments[1] : "rknpu";
    void* library = dlopen("libdrm.so.2", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "SKIPPED: libdrm.so.2 is not installed: %s\n", dlerror());
        return 77;
    }
    test_name = "libdrm";
    struct version* (*get_version)(int) = (struct version * (*)(int)) dlsym(library, "drmGetVersion");
    int (*get_devices)(uint32_t, struct device**, int) =
        (int (*)(uint32_t, struct device**, int))dlsym(library, "drmGetDevices2");
    int (*get_node_type)(int) = (int (*)(int))dlsym(library, "drmGetNodeTypeFromFd");
    char* (*get_render_name)(int) = (char* (*)(int))dlsym(library, "drmGetRenderDeviceNameFromFd");
    CHECK(get_version != NULL && get_devices != NULL && get_node_type != NULL && get_render_name != NULL);

    struct device* devices[8] = {0};
    const int found = get_devices(0, devices, 8);
    CHECK_EQUAL(found, 1);
    CHECK(devices[0] != NULL);
    if (found != 1 || devices[0] == NULL) {
        return 1;
    }
    CHECK_EQUAL(devices[0]->bus_type, BUS_PLATFORM);
    CHECK_EQUAL(devices[0]->available_nodes, 1 << NODE_CARD | 1 << NODE_RENDER);
    const int types[] = {NODE_CARD, NODE_RENDER};
    for (int i = 0; i < 2; ++i) {
        const char* path = devices[0]->nodes[types[i]];
        const int fd = open(path, O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0);
        struct version* version = get_version(fd);
        CHECK(version != NULL);
        if (version != NULL) {
            CHECK(strcmp(version->name, driver) == 0);
            CHECK_EQUAL(version->name_length, strlen(driver));
        }
        CHECK_EQUAL(get_node_type(fd), types[i]);
        const char* render = get_render_name(fd);
        CHECK(render != NULL && strncmp(render, "/dev/dri/renderD", 16) == 0);
        printf("%s: %s, render node %s\n", path, version != NULL ? version->name : "?", render != NULL ? render : "?");
        close(fd);
    }
    return failures == 0 ? 0 : 1;
}
