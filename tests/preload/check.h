/* Checks of the C clients: a failed one is printed with its place and counted, and the program goes on. */
#pragma once

#include <stdio.h>

static int failures = 0;
static const char* test_name = "";

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, test_name, #condition); \
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);                                      \
        }                                                                                            \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                                                                     \
    do {                                                                                                             \
        const long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                      \
        if (got_ != wanted_) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: %s is %lld (0x%llx), not %lld\n", __FILE__, __LINE__, test_name, #got, got_, \
                    (unsigned long long)got_, wanted_);                                                              \
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);                                                      \
        }                                                                                                            \
    } while (0)

/* A call that must fail with an error number. */
#define CHECK_FAILS(call, error)            \
    do {                                    \
        errno = 0;                          \
        CHECK_EQUAL((long long)(call), -1); \
        CHECK_EQUAL(errno, error);          \
    } while (0)

#define RUN(test)                                                       \
    do {                                                                \
        test_name = #test;                                              \
        const int before = failures;                                    \
        test();                                                         \
        printf("%s %s\n", failures == before ? "ok  " : "FAIL", #test); \
        fflush(stdout);                                                 \
    } while (0)
