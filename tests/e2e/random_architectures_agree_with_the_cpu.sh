# Small random models of every architecture that llama.cpp can make (test-llama-archs): logits as on the CPU, and a model that is
# saved from the device and loaded again computes the same. The bounds are llama.cpp's own.
. "$(dirname "$0")/lib.sh"

architectures() {
    (cd "$work" && LD_PRELOAD=$NPU_BUILD_DIR/bin/libnpu-load-backends.so on_npu test-llama-archs "$@" >"$work/table" 2>"$work/log") ||
        { grep -v SKIP "$work/table" | tail -20; fail "test-llama-archs $*"; }
}

export GGML_NPU_PRECISION=fp16
architectures
# errors NAME: normalised squared errors of the logits of architectures with that name, a regular expression
errors() { sed -n "s/^| *$1|.*simulated.*OK.*(\([0-9.e+-]*\)).*/\1/p" "$work/table" | sort -g; }
agree=$(errors '.*' | wc -l)
echo "$agree models agree; the largest normalised squared error of logits is $(errors '.*' | tail -n 1); $(stat matmul_npu) matmuls on the NPU"
((agree >= 130)) || fail "only $agree models ran; this llama.cpp has 132"
if grep -q 'simulated.*FAIL' "$work/table"; then fail "some do not agree"; fi
(($(stat matmul_npu) > 0)) || fail "nothing ran on the NPU"

# The comparison is one: fewer bits are further away.
fine=$(errors qwen3)
GGML_NPU_PRECISION=bf16 architectures -a '^qwen3$'
coarse=$(errors qwen3)
awk -v fine="$fine" -v coarse="$coarse" 'BEGIN { exit !(coarse > 10 * fine) }' || fail "bf16 ($coarse) should be further away than fp16 ($fine)"
