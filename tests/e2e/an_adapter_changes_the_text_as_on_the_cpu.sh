# An adapter of low rank (LoRA) adds two small products to each matrix of each layer. With a random one the model writes another
# text than without, and on the NPU the text that it writes on the CPU.
. "$(dirname "$0")/lib.sh"

"$NPU_BUILD_DIR/bin/npu-make-lora" "$model" "$work/lora.gguf" || fail "no adapter was made"
export GGML_NPU_PRECISION=fp16
arguments=(-m "$model" -p "In the beginning" -n 16 --temp 0 -no-cnv --no-display-prompt --ignore-eos -t 2)
to_the_end "total time" "$work/log" "$work/plain" on_npu llama-completion -dev NPU0 "${arguments[@]}"
without=$(stat matmul_npu)
to_the_end "total time" "$work/log" "$work/cpu" on_cpu llama-completion "${arguments[@]}" --lora "$work/lora.gguf"
to_the_end "total time" "$work/log" "$work/npu" on_npu llama-completion -dev NPU0 "${arguments[@]}" --lora "$work/lora.gguf"
echo "without the adapter: $(cat "$work/plain")"
echo "with it: $(cat "$work/npu")"
echo "matmuls on the NPU: $without without, $(stat matmul_npu) with; $(stat matmul_cpu) with it on the CPU: $(stat cpu_reasons)"
(($(wc -w <"$work/cpu") >= 5)) || fail "the CPU wrote only: $(cat "$work/cpu")"
cmp "$work/cpu" "$work/npu" || fail "with the adapter the CPU writes: $(cat "$work/cpu")"
if cmp -s "$work/plain" "$work/npu"; then fail "the adapter changes nothing"; fi
(($(stat matmul_npu) >= without)) || fail "with an adapter the model's own matrices leave the NPU"
