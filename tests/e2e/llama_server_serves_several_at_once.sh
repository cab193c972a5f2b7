# llama-server with four slots and continuous batching: nine requests at once, of different lengths, get the text that each
# gets alone. With draft models and with n-grams it writes the same text, too. Batches of every size go to the NPU, or by
# prediction to the CPU.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
q4=$(quantised Q4_0)
prompts=("In the beginning" "And the king said unto" "Blessed are they that" "The children of Israel went" "Behold, I send" "Now after this it came to pass" "Praise ye the LORD" "He that hath ears")
verse="And God said, Let there be light: and there was light. And God saw the light, that it was good."
prompts+=("$verse $verse $verse $verse And God said,") # what n-grams find drafts in

start() { # start ARGUMENTS...: a server on a free port, ready
    port=$((20000 + RANDOM % 20000))
    GGML_NPU_DEVICE=simulated GGML_BACKEND_PATH=$plugin GGML_NPU_STATS=$work/stats.json "$LLAMA_BIN/llama-server" \
        -m "$target" -dev NPU0 --host 127.0.0.1 --port "$port" -t 2 "$@" >"$work/server.log" 2>&1 &
    server=$!
    for _ in $(seq 240); do
        kill -0 "$server" 2>/dev/null || break
        if curl -fsS "http://127.0.0.1:$port/health" >/dev/null 2>&1; then return; fi
        sleep 0.25
    done
    tail -20 "$work/server.log"
    fail "the server did not become ready: $*"
}
stop() {
    [[ -n $server ]] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" || true
    server=
}
server=
trap 'stop; rm -rf "$work"' EXIT

ask() { # ask NUMBER FILE: greedy text after a prompt
    curl -fsS "http://127.0.0.1:$port/completion" -H 'Content-Type: application/json' \
        -d "{\"prompt\": \"${prompts[$1]}\", \"n_predict\": $((24 + 4 * $1)), \"temperature\": 0, \"ignore_eos\": true, \"cache_prompt\": false}" \
        >"$2.json"
    jq -r .content "$2.json" >"$2"
}

# int8 all on the NPU, int8 as predicted, and fp16, which the CPU does not multiply.
for setting in "$q8 1" "$q8 0" "$model 0"; do
    read -r target GGML_NPU_MIN_BATCH <<<"$setting"
    export GGML_NPU_MIN_BATCH
    name="${target##*/}, GGML_NPU_MIN_BATCH=$GGML_NPU_MIN_BATCH"
    start -np 1
    for i in "${!prompts[@]}"; do ask "$i" "$work/alone$i"; done
    stop
    (($(wc -w <"$work/alone7") >= 10)) || fail "only: $(cat "$work/alone7")"
    if cmp -s "$work/alone0" "$work/alone1"; then fail "the control: different prompts have different texts"; fi

    start -np 4
    asked=()
    for i in "${!prompts[@]}"; do
        ask "$i" "$work/together$i" &
        asked+=($!)
    done
    wait "${asked[@]}"
    stop
    for i in "${!prompts[@]}"; do
        diff "$work/alone$i" "$work/together$i" || fail "$name, '${prompts[$i]}': alone and together differ"
    done
    echo "$name: 9 requests in 4 slots equal; $(stat matmul_npu) matmuls on the NPU, $(stat matmul_cpu) on the CPU"

    for kind in "--spec-type draft-simple -md $q8 --spec-draft-n-max 5" "--spec-type draft-simple -md $q4 --spec-draft-n-max 15" \
        "--spec-type ngram-simple --spec-ngram-simple-size-n 2 --spec-ngram-simple-size-m 15"; do
        # shellcheck disable=SC2086 # words
        start -np 1 $kind
        drafted=0 accepted=0
        for i in 0 3 8; do
            ask "$i" "$work/speculated$i"
            diff "$work/alone$i" "$work/speculated$i" || fail "$name, $kind, '${prompts[$i]}': the text differs"
            drafted=$((drafted + $(jq '.timings.draft_n // 0' "$work/speculated$i.json")))
            accepted=$((accepted + $(jq '.timings.draft_n_accepted // 0' "$work/speculated$i.json")))
        done
        stop
        echo "$name, ${kind//$NPU_BUILD_DIR\/models\//}: equal; $accepted of $drafted drafted tokens accepted"
        ((accepted > 5)) || fail "hardly anything was drafted"
    done
done
