/* Asks the vendor's driver for one buffer of 8 MiB. Ends with 1 if there is no memory for it. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

struct mem_create {
    uint32_t handle, flags;
    uint64_t size, obj_addr, dma_addr, sram_size;
    int32_t iommu_domain_id;
    uint32_t core_mask;
};

int main(void) {
    struct mem_create create = {.flags = 0x403, .size = 8 << 20};
    const int fd = open("/dev/dri/card1", O_RDWR);
    if (fd < 0 || ioctl(fd, 0xc0306442, &create) != 0) {
        const int error = errno;
        perror("client_big_buffer");
        return error == ENOMEM ? 1 : 2;
    }
    return 0;
}
