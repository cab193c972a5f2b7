# The plugin as it is on a board: it finds the node of a kernel driver by itself (here that of `npu sim`), on either driver, and
# writes the text that it writes on the NPU in its own process. When the first address space has no room for the weights,
# they go to the next one.
. "$(dirname "$0")/lib.sh"

npu=$NPU_BUILD_DIR/bin/npu
arguments=(-m "$model" -dev NPU0 -p "And the king said" -n 8 --temp 0 -no-cnv --no-display-prompt --ignore-eos)
to_the_end "total time" "$work/own.log" "$work/own.txt" on_npu llama-completion "${arguments[@]}"
[[ $(stat device) == *simulated* ]] || fail "the NPU in the process says that it is $(stat device)"

on_board() { # on_board SIM_OPTION...
    env -u GGML_NPU_DEVICE LD_PRELOAD="$linger" GGML_BACKEND_PATH="$plugin" GGML_NPU_STATS="$work/stats.json" \
        "$npu" sim --json "$work/summary.json" "$@" -- "$LLAMA_BIN/llama-completion" "${arguments[@]}" \
        >"$work/board.txt" 2>"$work/board.log" </dev/null || { tail -20 "$work/board.log" >&2; fail "npu sim $*"; }
    [[ $(stat device) != *simulated* ]] || fail "the plugin did not find the board: $(stat device)"
    diff "$work/own.txt" "$work/board.txt" || fail "npu sim $*: another text"
    (($(jq '.violations | length' "$work/summary.json") == ${violations:-0})) || fail "violations: $(jq -c .violations "$work/summary.json")"
    echo "npu sim $*: $(stat device), $(jq .jobs "$work/summary.json") jobs, $(stat address_space_switches) address space switches"
}

on_board --kernel rknpu
(($(stat address_space_switches) == 0)) || fail "switches without need"
on_board --kernel rocket
on_board --kernel rocket --rocket-interface 1.5
violations=1 on_board --kernel rknpu --faults iova-full@at=1
(($(stat address_space_switches) > 0)) || fail "the weights should lie in another address space than the first"
