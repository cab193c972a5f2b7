# The F16 model continues five prompts by 100 tokens, greedily: the text is the CPU backend's, and every matmul of
# every graph ran on the NPU with no weight uploaded after load.
. "$(dirname "$0")/lib.sh"

prompts=("In the beginning" "And the king said unto" "Blessed are they that" "The children of Israel" "Behold, I send")
for prompt in "${prompts[@]}"; do
    arguments=(-m "$model" -p "$prompt" -n 100 --temp 0 -no-cnv --no-display-prompt --ignore-eos)
    to_the_end "total time" "$work/cpu.log" "$work/cpu.txt" on_cpu llama-completion "${arguments[@]}"
    to_the_end "total time" "$work/npu.log" "$work/npu.txt" on_npu llama-completion -dev NPU0 "${arguments[@]}"
    (($(wc -w <"$work/cpu.txt") >= 30)) || fail "the CPU wrote only: $(cat "$work/cpu.txt")"
    diff "$work/cpu.txt" "$work/npu.txt" || fail "the texts after '$prompt' differ"
    (($(stat matmul_npu) > 1000)) || fail "only $(stat matmul_npu) matmuls ran on the NPU"
    (($(stat matmul_cpu) == 0)) || fail "$(stat matmul_cpu) matmuls ran on the CPU: $(stat cpu_reasons)"
    (($(stat weight_bytes_uploaded_after_load) == 0)) || fail "weights were uploaded after load"
    echo "'$prompt': equal, $(stat matmul_npu) matmuls on the NPU"
done
