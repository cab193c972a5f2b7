# llama-bench measures on the device and names it.
. "$(dirname "$0")/lib.sh"

on_npu llama-bench -m "$model" -dev NPU0 -p 64 -n 8 -r 1 -o json >"$work/bench.json" 2>"$work/bench.log" || { tail "$work/bench.log"; fail "llama-bench"; }
jq -e 'length == 2 and all(.[]; .avg_ts > 0 and (.devices | contains("NPU0")))' "$work/bench.json" >/dev/null ||
    { cat "$work/bench.json"; fail "unexpected result"; }
(($(stat matmul_npu) > 0)) || fail "no matmul ran on the NPU"
jq -r '.[] | "prompt \(.n_prompt), generated \(.n_gen): \(.avg_ts) tokens/s (simulated: host speed, not a board'"'"'s)"' "$work/bench.json"
