// The parts of ggml that a backend outside its tree needs. ggml-impl.h defines static helpers that not every file
// uses, hence the pragma.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpedantic"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"
#include "ggml-impl.h"
#include "ggml.h"
#pragma GCC diagnostic pop
