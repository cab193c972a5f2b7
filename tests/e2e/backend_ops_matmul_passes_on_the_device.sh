# llama.cpp's own test of matrix multiplication, against its CPU reference: no failure, and at least 600 cases that the
# NPU computed. By default the plugin also takes the cases that it hands to the CPU, so those are counted in a second
# run in which it accepts nothing but its own.
. "$(dirname "$0")/lib.sh"

on_npu test-backend-ops -b NPU0 -o MUL_MAT >"$work/all.log" 2>&1 || { tail -50 "$work/all.log"; fail "default run"; }
grep -q "2/2 backends passed" "$work/all.log" || grep -q "Backend NPU0: .*OK" "$work/all.log" || {
    tail -20 "$work/all.log"
    fail "no verdict for NPU0"
}
if grep -q "FAIL" "$work/all.log"; then
    grep "FAIL" "$work/all.log" | head -20
    fail "cases failed"
fi
on_the_npu=$(stat matmul_npu)
echo "default: $(grep -c "OK" "$work/all.log") cases OK; multiplications on the NPU $on_the_npu, on the CPU $(stat matmul_cpu)"
jq .cpu_reasons "$work/stats.json"

GGML_NPU_CLAIM=matmul on_npu test-backend-ops -b NPU0 -o MUL_MAT >"$work/own.log" 2>&1 || fail "run with GGML_NPU_CLAIM=matmul"
own=$(grep -c "MUL_MAT(.*OK" "$work/own.log")
echo "GGML_NPU_CLAIM=matmul: $own cases OK, $(stat matmul_npu) on the NPU, $(stat matmul_cpu) on the CPU"
((own >= 600)) || fail "only $own cases ran on the device"
(($(stat matmul_cpu) == 0)) || fail "the CPU computed cases that the device had accepted"
