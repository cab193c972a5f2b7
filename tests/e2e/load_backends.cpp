// Preloaded into a program of llama.cpp that knows only the backends that it was linked with (test-llama-archs): loads the others,
// as ggml_backend_load_all does in every other program.
#include <ggml-backend.h>

[[gnu::constructor]] static void load_backends() { ggml_backend_load_all_from_path(HOST_LIBRARIES); }
