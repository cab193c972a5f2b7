# A large model is converted from where it lies: loading takes hardly more memory than the weights in NPU memory, and keeps no
# second copy of them in the host's.
source "$(dirname "$0")/lib.sh"

"$NPU_BUILD_DIR/bin/npu-make-model" "$model" "$work/model.gguf" 400
load() {
    GGML_NPU_DEVICE=simulated GGML_NPU_STATS=$work/stats.json GGML_BACKEND_PATH=$plugin \
        "$NPU_BUILD_DIR/bin/npu-load-and-unload" "$@" 1 >"$work/out" || { cat "$work/out" >&2; fail "loading"; }
    sed -n 's/.*peak \([0-9]*\) KiB.*/\1/p' "$work/out"
}

peak=$(($(load "$work/model.gguf") * 1024))
resident=$(stat weight_bytes_resident)
echo "at most $peak bytes with $resident in NPU memory"
((resident > 700000000)) || fail "the model has 800 MB in 8 bits; $resident bytes are resident"
((peak * 100 <= resident * 115)) || fail "loading takes more than 1.15 of the weights"
(($(stat weight_bytes_kept_in_host_memory) == 0)) || fail "weights are kept in host memory, too"
(($(stat weight_bytes_uploaded_after_load) == 0)) || fail "weights were uploaded after loading"

# What is measured is there: from a file that may be written, the bytes are kept.
"$NPU_BUILD_DIR/bin/npu-make-model" "$model" "$work/small.gguf" 60
GGML_NPU_DEVICE=simulated GGML_NPU_STATS=$work/stats.json GGML_BACKEND_PATH=$plugin \
    "$LLAMA_BIN/llama-completion" -m "$work/small.gguf" --load-mode none -ngl 99 -n 1 -p x -no-cnv >"$work/out" 2>&1 </dev/null || { tail "$work/out"; fail "without mapping"; }
(($(stat weight_bytes_kept_in_host_memory) > 50000000)) || fail "--load-mode none should keep the bytes in host memory"
