# The shipped model is loaded, used and freed again and again in one process: memory, descriptors and mappings do not grow. 150
# times; `NPU_CYCLES=1000 ctest -R loads_leave` takes minutes. The control of the measure: a model that is not there is a
# failure, not a load that takes nothing.
. "$(dirname "$0")/lib.sh"

cycles=${NPU_CYCLES:-150}
q8=$(quantised Q8_0)
load() {
    GGML_NPU_DEVICE=simulated GGML_NPU_MIN_BATCH=1 GGML_BACKEND_PATH=$plugin GGML_NPU_STATS=$work/stats.json \
        "$NPU_BUILD_DIR/bin/npu-load-and-unload" "$@"
}
load "$q8" "$cycles" || fail "something grew"
(($(stat matmul_npu) >= 50 * cycles)) || fail "only $(stat matmul_npu) matmuls ran on the NPU"
if load "$work/absent.gguf" 1 2>/dev/null; then fail "the control: no model was loaded"; fi
