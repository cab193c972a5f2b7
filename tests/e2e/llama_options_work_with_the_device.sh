# The options that people combine with a device: the greedy text stays the CPU's, and what runs on the CPU is counted
# under its reason.
. "$(dirname "$0")/lib.sh"

arguments=(-m "$model" -p "And it came to pass" -n 24 --temp 0 -no-cnv --no-display-prompt --ignore-eos)
to_the_end "total time" "$work/cpu.log" "$work/cpu.txt" on_cpu llama-completion "${arguments[@]}"

same() {   # same NAME ARGUMENT...
    local name=$1
    shift
    to_the_end "total time" "$work/npu.log" "$work/npu.txt" on_npu llama-completion -dev NPU0 "${arguments[@]}" "$@"
    diff "$work/cpu.txt" "$work/npu.txt" || fail "$name: another text"
    echo "$name: equal; on the NPU $(stat matmul_npu), on the CPU $(stat matmul_cpu) $(jq -c .cpu_reasons "$work/stats.json")"
    (($(stat matmul_npu) > 0)) || fail "$name: nothing ran on the NPU"
}

same "weights read instead of mapped" --load-mode none
(($(stat matmul_cpu) == 0)) || fail "matmuls on the CPU"
same "the KV cache kept on the host" -nkvo
same "no flash attention" -fa off
(($(stat 'cpu_reasons["both operands are computed at run time (attention)"]') > 0)) || fail "attention was not counted"
same "three layers offloaded" -ngl 3
same "small batches" -b 8 -ub 4
GGML_NPU_CORES=1 same "one NPU core"
GGML_NPU_CLAIM=matmul same "only what the NPU computes"
(($(stat matmul_cpu) == 0)) || fail "accepted and then handed to the CPU"
on_npu llama-completion -dev NPU0 "${arguments[@]}" -m "$(quantised Q4_K_M)" >/dev/null 2>&1 </dev/null || fail "Q4_K_M"
(($(stat matmul_npu) > 0 && $(stat matmul_cpu) == 0)) || fail "Q4_K_M: $(stat cpu_reasons)"
int8_bytes=$(stat weight_bytes_resident)
GGML_NPU_PRECISION=fp16 on_npu llama-completion -dev NPU0 "${arguments[@]}" -m "$(quantised Q4_K_M)" >/dev/null 2>&1 </dev/null || fail "Q4_K_M in fp16"
(($(stat weight_bytes_resident) == 2 * int8_bytes)) || fail "fp16 weights should take twice the memory of int8"
echo "Q4_K_M: $int8_bytes bytes resident in int8, $(stat weight_bytes_resident) in fp16"
