# llama-server loads the plugin and completes one request over HTTP; its text is the CPU's.
. "$(dirname "$0")/lib.sh"

port=$((20000 + RANDOM % 20000))
# The server itself, not a shell around it, so that a signal reaches it. A shell starts what it puts in the background
# with SIGINT ignored; SIGTERM ends the server in the same orderly way.
GGML_NPU_DEVICE=simulated GGML_BACKEND_PATH=$plugin GGML_NPU_STATS=$work/stats.json "$LLAMA_BIN/llama-server" \
    -m "$model" -dev NPU0 --host 127.0.0.1 --port "$port" -np 1 >"$work/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
ready=no
for _ in $(seq 240); do
    kill -0 "$server" 2>/dev/null || break
    if curl -fsS "http://127.0.0.1:$port/health" >/dev/null 2>&1; then
        ready=yes
        break
    fi
    sleep 0.5
done
[[ $ready == yes ]] || { tail -20 "$work/server.log"; fail "the server did not become ready"; }
curl -fsS "http://127.0.0.1:$port/completion" -H 'Content-Type: application/json' \
    -d '{"prompt": "In the beginning", "n_predict": 24, "temperature": 0, "ignore_eos": true}' >"$work/answer.json" ||
    { tail -20 "$work/server.log"; fail "the request"; }
text=$(jq -r .content "$work/answer.json")
kill "$server"
wait "$server" || true
to_the_end "total time" "$work/cpu.log" "$work/cpu.txt" on_cpu llama-completion -m "$model" -p "In the beginning" -n 24 \
    --temp 0 -no-cnv --no-display-prompt --ignore-eos
expected=$(cat "$work/cpu.txt")
echo "server: $text"
[[ ${text//[[:space:]]/} == "${expected//[[:space:]]/}" ]] || fail "llama-completion on the CPU wrote: $expected"
(($(stat matmul_npu) > 0)) || fail "no matmul ran on the NPU"
