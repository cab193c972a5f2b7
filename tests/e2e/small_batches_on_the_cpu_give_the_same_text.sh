# A decoder's matmuls of one row, multiplied by the CPU from the tiles in device memory: the text is the NPU's, in int8 and with
# 4-bit weights.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
write() { # write NAME [OPTION]: greedy text, as the environment says
    to_the_end "total time" "$work/log" "$work/$1.txt" on_npu llama-completion -dev NPU0 -m "$q8" -p "And the king said unto" -n 60 \
        --temp 0 -no-cnv --no-display-prompt --ignore-eos "${@:2}"
    (($(wc -w <"$work/$1.txt") >= 15)) || fail "only: $(cat "$work/$1.txt")"
}

for precision in int8 w4a8; do
    export GGML_NPU_PRECISION=$precision
    export GGML_NPU_MIN_BATCH=1
    write npu
    (($(stat matmul_cpu) == 0)) || fail "matmuls on the CPU without being asked: $(stat cpu_reasons)"
    submissions=$(stat submissions)
    export GGML_NPU_MIN_BATCH=2
    write cpu
    diff "$work/npu.txt" "$work/cpu.txt" || fail "$precision: the texts differ"
    (($(stat matmul_cpu) > 1000 && $(stat matmul_npu) > 0)) || fail "the prompt should be the NPU's, the rest the CPU's"
    (($(stat submissions) < submissions)) || fail "as many submissions as before"
    echo "$precision: equal; $(stat matmul_npu) matmuls on the NPU, $(stat matmul_cpu) on the CPU: $(stat cpu_reasons)"
    export GGML_NPU_MIN_BATCH=0
    write predicted -v
    diff "$work/npu.txt" "$work/predicted.txt" || fail "$precision: the texts differ"
    grep -q 'matmuls go to the NPU from [0-9]* rows on' "$work/log" || fail "no line says where the threshold is"
    (($(stat 'cpu_reasons["so few rows are predicted to be faster on the CPU"]') > 1000)) || fail "one row should be the CPU's"
done
