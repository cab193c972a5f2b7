# npu capture writes, bit for bit, what llama.cpp extracts for EAGLE-3 drafts by another way; on the NPU what the NPU computed, for
# architectures of several families; and says what it cannot do.
. "$(dirname "$0")/lib.sh"

npu=$NPU_BUILD_DIR/bin/npu
text="And the king said unto the woman, Behold, I have sent for thee"
export GGML_NPU_DEVICE=simulated GGML_NPU_MIN_BATCH=1

# layer NAME FILE: its bytes
layer() {
    local length begin end
    length=$(od -An -tu8 -N8 "$2" | tr -d ' ')
    read -r begin end < <(tail -c +9 "$2" | head -c "$length" | jq -r ".\"$1\".data_offsets | @tsv")
    tail -c "+$((9 + length + begin))" "$2" | head -c "$((end - begin))"
}

export GGML_BACKEND_PATH=$plugin
"$npu" capture -m "$model" -p "$text" -l 2,n/2,n-3,n -o "$work/npu.safetensors"
for i in 2 3 4; do
    "$NPU_BUILD_DIR/bin/npu-layer-inputs" "$model" "$i" "$text" >"$work/expected"
    layer "layer.$i" "$work/npu.safetensors" >"$work/found"
    (($(wc -c <"$work/found") > 10000)) || fail "layer $i has $(wc -c <"$work/found") bytes"
    cmp "$work/expected" "$work/found" || fail "layer $i is not what llama.cpp extracts"
done
if cmp -s <(layer layer.2 "$work/npu.safetensors") <(layer layer.3 "$work/npu.safetensors"); then fail "the control: layers differ"; fi

# In pieces it is the same, because rows do not depend on each other. With other numbers it is not.
"$npu" capture -m "$model" -p "$text" -l 2,n/2,n-3,n -b 5 -o "$work/pieces.safetensors"
for i in 2 3 4 7; do
    cmp <(layer "layer.$i" "$work/npu.safetensors") <(layer "layer.$i" "$work/pieces.safetensors") || fail "layer $i depends on the batch"
done
"$npu" capture --cpu -m "$model" -p "$text" -l 2,n/2,n-3,n -o "$work/cpu.safetensors"
cmp <(layer tokens "$work/npu.safetensors") <(layer tokens "$work/cpu.safetensors") || fail "other tokens on the CPU"
if cmp -s <(layer layer.7 "$work/npu.safetensors") <(layer layer.7 "$work/cpu.safetensors"); then fail "it was not computed on the NPU"; fi

# Other architectures, as small random models.
(cd "$work" && LD_PRELOAD=$NPU_BUILD_DIR/bin/libnpu-load-backends.so on_cpu test-llama-archs -a '^(qwen3|qwen35|gemma2|phi3|granite|mamba2|lfm2|deepseek2)$' -o "$work" >"$work/log" 2>&1) ||
    { tail "$work/log"; fail "making models"; }
shown=0
for other in "$work"/*.gguf; do
    if "$npu" capture -m "$other" -p "$text" -l 1,n -o "$work/other.safetensors" >"$work/out" 2>"$work/log"; then
        shown=$((shown + 1))
        echo "${other##*/}: $(cat "$work/out")"
    else
        grep -q 'does not show layer' "$work/log" || { tail "$work/log"; fail "${other##*/}: no clear message"; }
        echo "${other##*/}: $(tail -n 1 "$work/log")"
    fi
done
((shown >= 6)) || fail "only $shown architectures show their layers"

refused() { # refused PATTERN ARGUMENTS...
    local pattern=$1 status=0
    shift
    "$npu" capture "$@" >"$work/log" 2>&1 || status=$?
    ((status == 2 || status >= 100)) || fail "accepted (status $status): $*"
    grep -q -- "$pattern" "$work/log" || { cat "$work/log"; fail "no message like '$pattern'"; }
}
refused 'layer n-9 is -2' -m "$model" -p x -l n-9 -o "$work/x"
refused "'two' is no layer" -m "$model" -p x -l two -o "$work/x"
refused 'could not load' -m "$work/absent.gguf" -p x -o "$work/x"
refused 'cannot read' -m "$model" -f "$work/absent.txt" -o "$work/x"
refused 'cannot write' -m "$model" -p x -o "$work/absent/x"
[[ ! -e $work/x && ! -e $work/x.part ]] || fail "something was left behind"
