// Prints version and commit of the ggml that it is linked with, one per line.
#include <stdio.h>

#include <ggml.h>

int main(void) {
    printf("%s\n%s\n", ggml_version(), ggml_commit());
    return 0;
}
