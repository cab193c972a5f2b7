# Two ggml-rpc-server processes, each with the plugin, as on two boards: one program spreads a model over both and writes the
# text that it writes with the NPU beside it.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
arguments=(-m "$q8" -p "In the beginning" -n 32 --temp 0 -no-cnv -t 2)
servers=()
stop() {
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
    wait "${servers[@]}" 2>/dev/null || true
    servers=()
}
trap 'stop; rm -rf "$work"' EXIT

start() { # start NAME: a board that serves its NPU; adds its address to `boards`
    local port=$((20000 + RANDOM % 20000))
    GGML_NPU_DEVICE=simulated GGML_NPU_MIN_BATCH=1 GGML_BACKEND_PATH=$plugin GGML_NPU_LOG=ops \
        "$LLAMA_BIN/ggml-rpc-server" -H 127.0.0.1 -p "$port" -d NPU0 >"$work/$1.log" 2>&1 &
    servers+=($!)
    for _ in $(seq 100); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            boards+=("127.0.0.1:$port")
            return
        fi
        kill -0 "${servers[-1]}" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/$1.log"
    fail "board $1 did not start"
}

on_npu llama-completion "${arguments[@]}" -dev NPU0 >"$work/local" 2>"$work/log" </dev/null || { tail "$work/log"; fail "locally"; }
boards=()
start one
start two
on_cpu llama-completion "${arguments[@]}" -ngl 99 --rpc "${boards[0]},${boards[1]}" >"$work/spread" 2>"$work/log" </dev/null ||
    { tail "$work/log"; fail "over two boards"; }
stop
echo "$(cat "$work/spread")"
(($(wc -w <"$work/local") >= 10)) || fail "only: $(cat "$work/local")"
cmp "$work/local" "$work/spread" || fail "two boards write another text: $(cat "$work/spread")"
for board in one two; do
    matmuls=$(grep -c 'MUL_MAT.*NPU' "$work/$board.log") || true
    echo "board $board: $matmuls matmuls on its NPU"
    ((matmuls > 0)) || { tail "$work/$board.log"; fail "board $board did nothing"; }
done
