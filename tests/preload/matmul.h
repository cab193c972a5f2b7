/* A small matrix multiplication as an NPU program, shared by the clients. Plain C, nothing of this
 * project: register numbers and values are written out from the published descriptions of the hardware, so that the
 * simulated kernels meet a program that was not written with their headers.
 *
 * C[m][n] = sum over k of A[m][k] * B[n][k], A and C row-major, as one task: a 1x1 convolution whose rows are the lines of
 * a feature plane one pixel wide. */
#pragma once

#include <stdint.h>
#include <string.h>

enum { M = 8, N = 32, K = 64 };

/* ---- data ---- */

typedef enum { INT8, FP16 } Type;

static uint64_t random_next(uint64_t* state) { /* xorshift */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

typedef struct {
    Type type;
    int a[M][K]; /* the values as integers; fp16 holds them as they are, int8 too */
    int b[N][K];
} Matrices;

/* int8: the whole range with its ends. fp16: integers whose products are exact and whose sums stay below 2^24, so that
 * fp32 holds them whatever the order of additions. */
static void fill(Matrices* matrices, Type type, uint64_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    matrices->type = type;
    for (int i = 0; i < (M + N) * K; ++i) {
        int* value = i < M * K ? &matrices->a[i / K][i % K] : &matrices->b[(i - M * K) / K][i % K];
        const int byte = (int)(random_next(&state) >> 32 & 0xff) - 128;
        *value = type == INT8 ? byte : byte * 3 + byte / 16;
    }
    matrices->a[0][0] = type == INT8 ? -128 : -2048;
    matrices->b[0][0] = type == INT8 ? -128 : 2047;
    matrices->a[M - 1][K - 1] = type == INT8 ? 127 : 2048;
}

static int64_t expected(const Matrices* matrices, int m, int n) {
    int64_t sum = 0;
    for (int k = 0; k < K; ++k) {
        sum += (int64_t)matrices->a[m][k] * matrices->b[n][k];
    }
    return sum;
}

/* An integer of at most 12 bits, which half precision holds exactly. */
static uint16_t half_of(int value) {
    const uint16_t sign = value < 0 ? 0x8000 : 0;
    unsigned magnitude = (unsigned)(value < 0 ? -value : value);
    int exponent = 25; /* of a number whose leading one is bit 10 */
    if (magnitude == 0) {
        return sign;
    }
    for (; magnitude >= 0x800; magnitude >>= 1) {
        ++exponent;
    }
    for (; magnitude < 0x400; magnitude <<= 1) {
        --exponent;
    }
    return (uint16_t)(sign | exponent << 10 | (magnitude & 0x3ff));
}

static int element_bytes(Type type) { return type == INT8 ? 1 : 2; }

static void store(uint8_t* to, Type type, int value) {
    if (type == INT8) {
        *to = (uint8_t)value;
    } else {
        const uint16_t half = half_of(value);
        memcpy(to, &half, 2);
    }
}

/* Features row by row. Weights in groups of G kernels, in each group blocks of 32 channels, in each block kernel after
 * kernel: G is 32 for int8 and 16 for fp16. */
static void store_features(uint8_t* to, const Matrices* matrices) {
    for (int i = 0; i < M * K; ++i) {
        store(to + i * element_bytes(matrices->type), matrices->type, matrices->a[i / K][i % K]);
    }
}

static void store_weights(uint8_t* to, const Matrices* matrices) {
    const int group = matrices->type == INT8 ? 32 : 16;
    for (int n = 0; n < N; ++n) {
        for (int k = 0; k < K; ++k) {
            const int at = ((n / group) * (K / 32) + k / 32) * group * 32 + (n % group) * 32 + k % 32;
            store(to + at * element_bytes(matrices->type), matrices->type, matrices->b[n][k]);
        }
    }
}

/* Results are 32-bit: integers for int8, floats for fp16. Returns how many differ from the product. */
static int count_wrong(const void* results, const Matrices* matrices) {
    int wrong = 0;
    for (int m = 0; m < M; ++m) {
        for (int n = 0; n < N; ++n) {
            const int64_t product = expected(matrices, m, n);
            if (matrices->type == INT8) {
                int32_t value = 0;
                memcpy(&value, (const char*)results + 4 * (m * N + n), 4);
                wrong += value != product;
            } else {
                float value = 0;
                memcpy(&value, (const char*)results + 4 * (m * N + n), 4);
                wrong += (double)value != (double)product;
            }
        }
    }
    return wrong;
}

/* ---- program ---- */

enum { CNA = 0x0201, CORE = 0x0801, DPU = 0x1001, DPU_RDMA = 0x2001, PC = 0x0101 };
enum { MOST_WORDS = 160 };

typedef struct {
    uint64_t words[MOST_WORDS];
    int count;
} Program;

static void put(Program* program, uint64_t target, uint64_t value, uint64_t offset) {
    program->words[program->count++] = target << 48 | (value & 0xffffffff) << 16 | offset;
}

static void put_zeros(Program* program, uint64_t target, uint64_t first, uint64_t last) {
    for (uint64_t offset = first; offset <= last; offset += 4) {
        put(program, target, 0, offset);
    }
}

/* Addresses are those that the NPU sees. `with_reader` also programs the block that reads operands (DPU_RDMA), with both
 * of its streams off, and starts it: what the mainline driver needs. The tail of four words ends the list; the vendor's
 * driver counts the words before it, the mainline driver all. */
static void build(Program* program, Type type, uint32_t features, uint32_t weights, uint32_t results, int with_reader) {
    const int bytes = element_bytes(type);
    const int group_bytes = type == INT8 ? 32 * 4 : 16 * 4; /* results of one kernel group in one row */
    const uint32_t row_gap = N * 4 / 16 - 1;
    program->count = 0;
    put(program, DPU, 0xe, 0x4004);
    if (with_reader) {
        put(program, DPU_RDMA, 0xe, 0x5004);
    }
    put(program, CNA, 1u << 29 | (type == INT8 ? 0 : 0x120), 0x100c); /* direct convolution; lines are independent */
    put(program, CNA, (M + 1) << 4, 0x1010);
    put(program, CNA, 9, 0x1014); /* strides of one */
    put(program, CNA, 1 << 16 | M, 0x1020);
    put(program, CNA, (K - 1) << 16 | K, 0x1024);
    put(program, CNA, 1, 0x1028);
    put(program, CNA, M, 0x102c);
    put(program, CNA, N * K * bytes, 0x1030);
    put(program, CNA, K * bytes, 0x1034);
    put(program, CNA, 1 << 24 | 1 << 16 | N, 0x1038);
    put(program, CNA, type == INT8 ? 0xa2 : 0xb1, 0x1040); /* banks of the buffer: 10 + 2, or 11 + 1 */
    put(program, CNA, K * bytes / 64, 0x1044);
    put(program, CNA, 0xb, 0x104c); /* no conversion of the input */
    put(program, CNA, 0x10000, 0x1050);
    put(program, CNA, 0x10000, 0x1054);
    put(program, CNA, 0x10000, 0x1058);
    put(program, CNA, 0x10000, 0x105c);
    put_zeros(program, CNA, 0x1060, 0x1068);
    put(program, CNA, features, 0x1070);
    put(program, CNA, 0, 0x1074);
    put(program, CNA, 0x000f000f, 0x1078);
    put(program, CNA, K * bytes / 16, 0x107c);
    put(program, CNA, 0, 0x1080);
    put(program, CNA, 1 << 16 | M, 0x1084);
    put(program, CNA, K, 0x1088);
    put_zeros(program, CNA, 0x1100, 0x1104);
    put(program, CNA, weights, 0x1110);
    put_zeros(program, CNA, 0x1140, 0x117c);
    put_zeros(program, CNA, 0x1180, 0x1184);
    put(program, CORE, type == INT8 ? 0x001 : 0x201, 0x3010);
    put(program, CORE, (M - 1) << 16, 0x3014);
    put(program, CORE, N - 1, 0x3018);
    put(program, CORE, 0, 0x301c);
    put(program, CORE, 0, 0x3030);
    put(program, DPU, 0x1e4, 0x400c);
    put(program, DPU, type == INT8 ? 0x80000000 : 0xa8000002, 0x4010); /* int8 to int32, fp16 to fp32 */
    put(program, DPU, 0, 0x4014);
    put(program, DPU, results, 0x4020);
    put(program, DPU, 0x10, 0x4024);
    put(program, DPU, 0, 0x4030);
    put(program, DPU, M - 1, 0x4034);
    put(program, DPU, row_gap << 16 | row_gap, 0x4038);
    put(program, DPU, (N - 1) << 16 | (N - 1), 0x403c);
    put(program, DPU, 0x53, 0x4040);
    put_zeros(program, DPU, 0x4044, 0x404c);
    put(program, DPU, type == INT8 ? 0x7fc : 0x36e, 0x4050);
    put(program, DPU, 0, 0x4054);
    put(program, DPU, N - 1, 0x4058);
    put(program, DPU, (M - 1) << 16, 0x405c);
    put(program, DPU, 0x53, 0x4060);
    put_zeros(program, DPU, 0x4064, 0x406c);
    put(program, DPU, 0x383, 0x4070);
    put(program, DPU, 0, 0x4074);
    put(program, DPU, 1, 0x4078);
    put(program, DPU, 0, 0x407c);
    put(program, DPU, 0, 0x4080);
    put(program, DPU, 1, 0x4084);
    put(program, DPU, 0, 0x4088);
    put_zeros(program, DPU, 0x4090, 0x40ac);
    put(program, DPU, (uint32_t)group_bytes, 0x40c0);
    put(program, DPU, 0, 0x40c4);
    put_zeros(program, DPU, 0x4100, 0x412c);
    if (with_reader) {
        put(program, DPU_RDMA, 0, 0x500c);
        put(program, DPU_RDMA, M - 1, 0x5010);
        put(program, DPU_RDMA, N - 1, 0x5014);
        put_zeros(program, DPU_RDMA, 0x5018, 0x5020);
        put_zeros(program, DPU_RDMA, 0x5028, 0x502c);
        put(program, DPU_RDMA, 1, 0x5034);
        put(program, DPU_RDMA, 0, 0x5038);
        put(program, DPU_RDMA, 0, 0x5040);
        put(program, DPU_RDMA, 0x7810, 0x5044);
        put(program, DPU_RDMA, 0, 0x5048);
        put(program, DPU_RDMA, 0, 0x504c);
        put(program, DPU_RDMA, 0, 0x5064);
        put(program, DPU_RDMA, 0x01010101, 0x5068);
        put(program, DPU_RDMA, 0, 0x506c);
    }
    program->words[program->count++] = 0;
    put(program, PC, 0, 0x0014);
    put(program, 0x0041, 0, 0);
    put(program, 0x0081, with_reader ? 0x1d : 0x0d, 0x0008);
}
