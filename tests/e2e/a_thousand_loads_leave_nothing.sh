# The shipped model is loaded, used and freed a thousand times in one process: memory, descriptors and mappings do not grow. The
# control of the measure itself: a process that is asked for a model that is not there fails.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
program=$NPU_BUILD_DIR/bin/npu-load-and-unload
on_npu_program() { GGML_NPU_DEVICE=simulated GGML_NPU_MIN_BATCH=1 GGML_BACKEND_PATH=$plugin GGML_NPU_STATS=$work/stats.json "$program" "$@"; }
on_npu_program "$q8" 1000 || fail "something grew"
(($(stat matmul_npu) >= 50000)) || fail "only $(stat matmul_npu) matmuls ran on the NPU"
if on_npu_program "$work/absent.gguf" 1 2>/dev/null; then fail "the control: no model was loaded"; fi
