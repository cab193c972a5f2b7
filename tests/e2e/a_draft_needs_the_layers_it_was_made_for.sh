# EAGLE-3 with a model and drafts whose behaviour is known by construction (make_eagle3.cpp): the draft that gets its three layers is
# always right, those that get the last layer three times, or the neighbours, never; and whatever is drafted, the text is that of
# plain greedy decoding. On the CPU, and on the NPU in fp16 and in int8.
. "$(dirname "$0")/lib.sh"

"$NPU_BUILD_DIR/bin/npu-make-eagle3" "$model" "$work"
on_cpu llama-quantize "$work/target.gguf" "$work/target-q8.gguf" Q8_0 >"$work/log" 2>&1 || { cat "$work/log"; fail "llama-quantize"; }
prompt="their fr com will thee have" # neighbours in the vocabulary, which is what the model counts

plain() { # plain NAME RUNNER TARGET
    "$2" llama-completion -m "$work/$3" -p "$prompt" -n 40 --temp 0 -no-cnv -t 2 2>"$work/log" </dev/null | tr -d '\n' | sed 's/^ *//' >"$work/$1"
    (($(wc -c <"$work/$1") > 100)) || fail "$1 wrote only: $(cat "$work/$1")"
}
drafted=0 accepted=0
speculate() { # speculate NAME RUNNER TARGET DRAFT LENGTH: sets drafted and accepted
    to_the_end n_accept "$work/log" "$work/out" "$2" llama-speculative-simple -m "$work/$3" -md "$work/$4.gguf" -ngl 99 -ngld 99 \
        -p "$prompt" -n 40 --temp 0 -t 2 --spec-type draft-eagle3 --spec-draft-n-max "$5"
    tr -d '\n' <"$work/out" | sed 's/^ *<s>//; s/^ *//' | head -c "$(wc -c <"$work/$1")" >"$work/text"
    cmp "$work/$1" "$work/text" || fail "$1, $4, $5 tokens: another text: $(cat "$work/text")"
    drafted=$(sed -n 's/.*n_drafted *= *\([0-9]*\).*/\1/p' "$work/log")
    accepted=$(sed -n 's/.*n_accept *= *\([0-9]*\).*/\1/p' "$work/log")
    echo "$1, draft with $4 layers, $5 tokens: $accepted of $drafted accepted"
    ((drafted >= 20)) || fail "hardly anything was drafted"
}

for setting in "CPU on_cpu target.gguf fp16" "NPU-fp16 on_npu target.gguf fp16" "NPU-int8 on_npu target-q8.gguf int8"; do
    read -r name runner target GGML_NPU_PRECISION <<<"$setting"
    export GGML_NPU_PRECISION
    plain "$name" "$runner" "$target"
    for length in 1 3 8 15; do
        speculate "$name" "$runner" "$target" right "$length"
        ((accepted == drafted)) || fail "not every token was right"
        [[ $runner == on_cpu ]] || (($(stat matmul_npu) > 0)) || fail "nothing ran on the NPU"
    done
    for draft in last neighbours; do
        speculate "$name" "$runner" "$target" "$draft" 3
        ((accepted == 0)) || fail "a draft that is fed with other layers should know nothing"
    done
done
