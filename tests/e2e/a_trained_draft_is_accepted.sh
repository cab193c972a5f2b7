# The EAGLE-3 draft that ships, on held-out prompts, on the NPU: at least 1.8 tokens per step with three drafted tokens, and fewer when
# the same weights are fed with the last layer three times, which is all that closed runtimes show. The text is that of plain greedy
# decoding. How much fewer depends on the model: this one has seven layers in one residual stream, so its last layer knows most of
# what the others do. a_draft_needs_the_layers_it_was_made_for.sh has a model where it does not.
. "$(dirname "$0")/lib.sh"

draft=$NPU_SOURCE_DIR/models/kjv-6m-eagle3-f16.gguf
(($(wc -c <"$draft") <= 3000000)) || fail "the draft is larger than 3 MB"

# The same draft with other layers: the file has them as three numbers after a key.
key=$(grep -abo 'eagle3.target_layers' "$draft" | head -n 1 | cut -d : -f 1)
at=$((key + 20 + 4 + 4 + 8)) # the key's text, type array, type of its elements, their number
printf -v numbers '%s' "$(od -An -td4 -j "$at" -N 12 "$draft" | tr -s ' ')"
[[ $numbers == " 2 3 4" ]] || fail "the draft reads layers$numbers"
cp "$draft" "$work/last.gguf"
printf '\6\0\0\0\6\0\0\0\6\0\0\0' | dd of="$work/last.gguf" bs=1 seek="$at" conv=notrunc status=none

mapfile -t prompts < <(grep -oE '(And|But|Then|Therefore|For) [a-z]+ [a-z]+ [a-z]+ [a-z]+' "$heldout" | awk 'NR % 24 == 1' | head -n 8)
((${#prompts[@]} == 8)) || fail "no held-out prompts"

# measure NAME DRAFT: sets steps and accepted
measure() {
    steps=0 accepted=0
    local prompt rates
    for prompt in "${prompts[@]}"; do
        to_the_end '#gen drafts' "$work/log" "$work/out" on_npu llama-speculative-simple -m "$model" -md "$2" -dev NPU0 -devd NPU0 -ngl 99 -ngld 99 \
            -p "$prompt" -n 48 --temp 0 -t 2 --spec-type draft-eagle3 --spec-draft-n-max 3 -lv 4
        tr -d '\n' <"$work/out" | sed 's/^ *<s>//; s/^ *//' >"$work/text"
        if [[ ! -e "$work/plain $prompt" ]]; then
            on_npu llama-completion -m "$model" -dev NPU0 -p "$prompt" -n 48 --temp 0 -no-cnv -t 2 2>/dev/null </dev/null | tr -d '\n' |
                sed 's/^ *//; s/ *\[end of text\]//; s/ *$//' >"$work/plain $prompt"
        fi
        cmp "$work/plain $prompt" <(head -c "$(wc -c <"$work/plain $prompt")" "$work/text") || fail "another text after '$prompt': $(cat "$work/text")"
        ((steps += $(sed -n 's/.*#gen drafts = *\([0-9]*\),.*/\1/p' "$work/log")))
        ((accepted += $(sed -n 's/.*#acc tokens = *\([0-9]*\),.*/\1/p' "$work/log")))
        rates=$(sed -n 's/.*#acc rate.pos = (\([^)]*\)).*/\1/p' "$work/log")
        [[ $1 == three ]] && echo "  $prompt: accepted by position $rates"
    done
    awk -v name="$1" -v steps="$steps" -v accepted="$accepted" 'BEGIN { printf "%s layers: %.2f tokens per step (%d tokens accepted in %d drafts of three)\n", name, 1 + accepted / steps, accepted, steps }'
}

measure three "$draft"
((accepted * 10 >= steps * 8)) || fail "fewer than 1.8 tokens per step"
extra=$(awk -v a="$accepted" -v s="$steps" 'BEGIN { print a / s }')
measure "the last layer as all" "$work/last.gguf"
awk -v a="$accepted" -v s="$steps" -v extra="$extra" 'BEGIN { exit !(a / s <= 0.9 * extra) }' || fail "the draft's own layers should serve it better"
