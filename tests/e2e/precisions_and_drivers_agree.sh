# Perplexity on held-out text in every precision, and behind the mainline driver: bit for bit what the vendor's gives. The
# bounds say how much each precision may lose of F16's result on the shipped model; int4 is the control: it is far away.
. "$(dirname "$0")/lib.sh"

perplexity() { # perplexity DRIVER MODEL: on the NPU, as the environment says
    to_the_end "Final estimate" "$work/npu.log" "$work/npu.txt" on_npu llama-perplexity -dev NPU0 -m "$2" -f "$heldout" -c 256 --chunks 8
    [[ $(stat device) == *"$1"* ]] || fail "the device was $(stat device), not behind $1"
    cat "$work/npu.log" "$work/npu.txt" | sed -n 's/.*Final estimate: PPL = \([0-9.]*\).*/\1/p'
}

export GGML_NPU_PRECISION GGML_NPU_ROTATE=0 GGML_NPU_DEVICE=simulated
GGML_NPU_PRECISION=fp16
float=$(perplexity rknpu "$model")
q8=$(quantised Q8_0)
for setting in 'bf16 0 0.5' 'int8 0 0.5' 'int8 1 0.5' 'int8n 0 0.5' 'w4a8 0 2' 'w4a8 1 2' 'int4 1 0'; do
    read -r GGML_NPU_PRECISION GGML_NPU_ROTATE bound <<<"$setting"
    [[ $GGML_NPU_PRECISION == bf16 ]] && input=$model || input=$q8
    GGML_NPU_DEVICE=simulated
    vendor=$(perplexity rknpu "$input")
    GGML_NPU_DEVICE=simulated-rocket
    mainline=$(perplexity rocket "$input")
    echo "$GGML_NPU_PRECISION, rotated $GGML_NPU_ROTATE: vendor driver $vendor, mainline $mainline; fp16 $float"
    [[ $vendor == "$mainline" ]] || fail "the drivers differ"
    if [[ $GGML_NPU_PRECISION == int4 ]]; then
        if within_percent "$vendor" "$float" 2; then fail "the control: int4 should be further away than any bound"; fi
    else
        within_percent "$vendor" "$float" "$bound" || fail "$GGML_NPU_PRECISION differs by more than $bound % from fp16"
    fi
done
