// Which instruction sets Highway compiles the kernels for. Included before hwy/foreach_target.h. On x86-64 all that the
// compiler knows, and the processor's best is chosen at run time, with Highway's library. On AArch64 only NEON, which
// every such processor has; that needs no choice and no library, so a cross build needs Highway's headers alone.
//
// Where Highway has no vectors (its targets SCALAR and EMU128) the portable kernels run.
#pragma once

#if defined(__aarch64__)
#define HWY_COMPILE_ONLY_STATIC
#endif

#define NPU_HAVE_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
