# llama.cpp's own tests of states and of threads, with the device: a state that is saved and restored goes on with the same text,
# also into a fragmented cache; several models and contexts run at once in one process.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
run() { # run MARKER PROGRAM ARGUMENTS...
    local marker=$1
    shift
    (cd "$work" && on_npu "$@" >"$work/log" 2>&1 </dev/null) || { tail "$work/log"; fail "$*"; }
    grep -q "$marker" "$work/log" || { tail "$work/log"; fail "$1 did not say '$marker'"; }
    (($(stat matmul_npu) > 0)) || fail "$1 did not use the NPU"
    echo "$1: $marker, $(stat matmul_npu) matmuls on the NPU"
}

run 'All tests passed' test-save-load-state -m "$q8" -ngl 99
run 'SUCCESS' test-state-restore-fragmented -m "$q8" -ngl 99
run 'All threads finished without errors' test-thread-safety -m "$q8" -ngl 99 -p 'The meaning of life is' -n 32 -c 256 -ub 32 -np 4 -t 2
# Models with a recurrent state are made by test-llama-archs.
(cd "$work" && LD_PRELOAD=$NPU_BUILD_DIR/bin/libnpu-load-backends.so on_cpu test-llama-archs -a '^qwen35$' -o "$work" >"$work/log" 2>&1) ||
    { tail "$work/log"; fail "making a recurrent model"; }
recurrent=$(find "$work" -name '*qwen35*.gguf' | head -n 1)
[[ -n $recurrent ]] || { tail "$work/log"; fail "no recurrent model was made"; }
GGML_NPU_PRECISION=fp16 run '' test-recurrent-state-rollback -m "$recurrent" -ngl 99
if grep -q skipping "$work/log"; then fail "the model is not recurrent"; fi
