# Every way of speculative decoding that needs no special draft model writes the text of plain greedy decoding, in fp16 and int8,
# with drafts so long that 2 to 16 rows are verified at once.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
q4=$(quantised Q4_0)
verse="And God said, Let there be light: and there was light. And God saw the light, that it was good."
prompt="$verse $verse And God said,"
ngrams=()
for kind in simple map-k map-k4v; do ngrams+=("--spec-ngram-$kind-size-n" 2 "--spec-ngram-$kind-min-hits" 1); done
ngrams+=(--spec-ngram-mod-n-match 4 --spec-ngram-mod-n-min 1)

for target in "$q8" "$model"; do
    on_npu llama-completion -m "$target" -dev NPU0 -p "$prompt" -n 48 --temp 0 -no-cnv -t 2 >"$work/plain" 2>"$work/log" </dev/null
    drafted_in_all=0
    for type in draft-simple ngram-simple ngram-map-k ngram-map-k4v ngram-mod ngram-cache; do
        lengths=(8)
        [[ $type != draft-simple ]] || lengths=(1 3 8 15)
        for length in "${lengths[@]}"; do
            sizes=()
            for kind in simple map-k map-k4v; do sizes+=("--spec-ngram-$kind-size-m" "$length"); done
            to_the_end n_accept "$work/log" "$work/out" on_npu llama-speculative-simple -m "$target" -md "$q4" -dev NPU0 -devd NPU0 \
                -ngl 99 -ngld 99 -p "$prompt" -n 48 --temp 0 -t 2 --spec-type "$type" --spec-draft-n-max "$length" \
                --spec-ngram-mod-n-max "$length" "${ngrams[@]}" "${sizes[@]}"
            # A draft that is accepted as a whole goes on beyond 48 tokens.
            tr -d '\n' <"$work/plain" | sed 's/^ *//; s/ *\[end of text\]//; s/ *$//' >"$work/expected"
            tr -d '\n' <"$work/out" | sed 's/^ *<s>//; s/^ *//' | head -c "$(wc -c <"$work/expected")" >"$work/text"
            cmp "$work/expected" "$work/text" || fail "${target##*/}, $type, drafts of $length: $(cat "$work/text")"
            drafted=$(sed -n 's/.*n_drafted *= *\([0-9]*\).*/\1/p' "$work/log")
            accepted=$(sed -n 's/.*n_accept *= *\([0-9]*\).*/\1/p' "$work/log")
            echo "${target##*/} $type $length: $accepted of $drafted drafted tokens accepted"
            ((drafted_in_all += drafted))
            if [[ $type == draft-simple ]]; then ((drafted > 0 && accepted > 0)) || fail "nothing was drafted"; fi
        done
    done
    ((drafted_in_all > 100)) || fail "hardly anything was drafted: $drafted_in_all tokens"
done
