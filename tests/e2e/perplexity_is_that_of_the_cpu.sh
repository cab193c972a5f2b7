# Perplexity on held-out text, NPU against CPU: F16 within 0.1 %, Q8_0 within 1 %. A positive control: a model with 4-bit
# weights is further away than the F16 bound, so the bound can fail.
. "$(dirname "$0")/lib.sh"

perplexity() { cat "$@" | sed -n 's/.*Final estimate: PPL = \([0-9.]*\).*/\1/p'; }

measure() {   # measure NAME MODEL: sets cpu and npu
    local arguments=(-m "$2" -f "$heldout" -c 256)
    to_the_end "Final estimate" "$work/cpu.log" "$work/cpu.txt" on_cpu llama-perplexity "${arguments[@]}"
    to_the_end "Final estimate" "$work/npu.log" "$work/npu.txt" on_npu llama-perplexity -dev NPU0 "${arguments[@]}"
    cpu=$(perplexity "$work/cpu.log" "$work/cpu.txt")
    npu=$(perplexity "$work/npu.log" "$work/npu.txt")
    echo "$1: CPU $cpu, NPU $npu; matmuls on the NPU $(stat matmul_npu), on the CPU $(stat matmul_cpu)"
    (($(stat matmul_npu) > 0 && $(stat matmul_cpu) == 0)) || fail "$1: not all matmuls ran on the NPU: $(stat cpu_reasons)"
}

measure F16 "$model"
f16=$cpu
within_percent "$npu" "$cpu" 0.1 || fail "F16 differs by more than 0.1 %"
measure Q8_0 "$(quantised Q8_0)"
within_percent "$npu" "$cpu" 1 || fail "Q8_0 differs by more than 1 %"
measure Q4_0 "$(quantised Q4_0)"
within_percent "$npu" "$cpu" 2 || fail "Q4_0 differs by more than 2 %"
if within_percent "$npu" "$f16" 0.1; then fail "the control: Q4_0 should be further than 0.1 % from F16"; fi
measure Q4_K_M "$(quantised Q4_K_M)"
within_percent "$npu" "$cpu" 2 || fail "Q4_K_M differs by more than 2 %"
