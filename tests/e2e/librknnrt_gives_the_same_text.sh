# shellcheck shell=bash
# The engine over librknnrt, on fakes of three releases: greedy text is the native engine's, and int8 perplexity, to which every
# logit contributes, is the same digit for digit. int8 sums are exact whoever adds them. Halves give the native engine's
# bits only where the same machine adds them, so fp16 is compared in perplexity where the fake computes on the simulated NPU.
# Then what can go wrong: each is a message and a status.
. "$(dirname "$0")/lib.sh"

fakes=$NPU_BUILD_DIR/tests/gemm/rknn
q8=$(quantised Q8_0)
text() { # text NAME MODEL: greedy text, as the environment says
    to_the_end "total time" "$work/log" "$work/$1.txt" on_npu llama-completion -dev NPU0 -m "$2" -p "And the king said unto" -n 20 \
        --temp 0 -no-cnv --no-display-prompt --ignore-eos
    (($(wc -w <"$work/$1.txt") >= 10)) || fail "only: $(cat "$work/$1.txt")"
}
perplexity() { # perplexity MODEL: on the NPU, as the environment says
    to_the_end "Final estimate" "$work/log" "$work/out" on_npu llama-perplexity -dev NPU0 -m "$1" -f "$heldout" -c 128 --chunks 1
    cat "$work/log" "$work/out" | sed -n 's/.*Final estimate: PPL = \([0-9.]*\).*/\1/p'
}
with_release() {
    export GGML_NPU_ENGINE=rknn GGML_NPU_DEVICE=auto GGML_NPU_RKNN_LIBRARY=$fakes/$1/librknnrt.so
    [[ -e $GGML_NPU_RKNN_LIBRARY ]] || fail "no fake at $GGML_NPU_RKNN_LIBRARY"
}

text native-fp16 "$model"
fp16_matmuls=$(stat matmul_npu)
text native-int8 "$q8"
native_int8=$(perplexity "$q8")
native_fp16=$(perplexity "$model")
[[ $native_int8 != "$native_fp16" ]] || fail "the perplexities of fp16 and int8 should differ, or they show nothing"

for release in 1.6 2.0 2.3; do
    with_release "$release"
    for kind in fp16 int8; do
        [[ $kind == fp16 ]] && input=$model || input=$q8
        text rknn "$input"
        diff "$work/native-$kind.txt" "$work/rknn.txt" || fail "$release, $kind: the texts differ"
        [[ $(stat device) == *"(librknnrt $release."* ]] || fail "the device was $(stat device)"
        (($(stat matmul_npu) == fp16_matmuls && $(stat matmul_cpu) == 0)) || fail "matmuls on the CPU: $(stat cpu_reasons)"
        (($(stat submissions) >= fp16_matmuls)) || fail "only $(stat submissions) runs of the library"
        [[ $(stat tasks) == null && $(stat predicted_seconds) == null ]] || fail "what the library does not tell was invented"
    done
    if [[ $release == 2.3 ]]; then
        if grep -q "recommended" "$work/log"; then fail "a warning about the best release: $(grep recommended "$work/log")"; fi
    else
        grep -q "librknnrt $release.* is older than 2.3.0, which is recommended" "$work/log" || fail "no warning about an old release"
    fi
    int8=$(perplexity "$q8")
    [[ $int8 == "$native_int8" ]] || fail "$release: int8 perplexity $int8, native $native_int8"
    echo "$(stat device): equal texts; int8 perplexity $int8, $(stat matmul_npu) matmuls on the NPU in $(stat submissions) runs"
done
export FAKE_RKNN_MACHINE=1
fp16=$(perplexity "$model")
[[ $fp16 == "$native_fp16" ]] || fail "on the simulated NPU: fp16 perplexity $fp16, native $native_fp16"
echo "computed by the simulated NPU: fp16 perplexity $fp16"
unset FAKE_RKNN_MACHINE

# On a board, too, the driver is the library's alone: the fake opens no node, so nobody does.
on_board() { # on_board ENGINE: processes that opened the node
    GGML_NPU_ENGINE=$1 GGML_BACKEND_PATH=$plugin "$NPU_BUILD_DIR/bin/npu" sim --json "$work/summary.json" -- "$LLAMA_BIN/llama-completion" \
        -dev NPU0 -m "$q8" -p And -n 2 --temp 0 -no-cnv >"$work/out" 2>"$work/log" </dev/null || fail "npu sim: $(tail -5 "$work/log")"
    jq .processes "$work/summary.json"
}
[[ $(on_board rknn) == 0 ]] || fail "the plugin opened a node that it does not use"
[[ $(on_board native) == 1 ]] || fail "the control: the native engine should open the node"

FAKE_RKNN_DRIVER=0.9.2 text old-driver "$q8"
grep -q "driver 0.9.2 is older than 0.9.6, which is recommended" "$work/log" || fail "no warning about an old driver"
[[ $(stat device) == *"driver 0.9.2)" ]] || fail "the device was $(stat device)"

# int8 products that come out as zeros are found when the plugin loads, and run on the CPU under their reason.
FAKE_RKNN_FAULTS=zeros=2 text zeros "$q8"
(($(stat matmul_cpu) > 0)) || fail "products that are zeros were used"
[[ $(stat cpu_reasons) == *"librknnrt does not compute this precision here"* ]] || fail "reasons: $(stat cpu_reasons)"

# refused NAME PATTERN [VARIABLE=VALUE...]: a run that fails, does not crash, and says something that matches.
refused() {
    local name=$1 pattern=$2 status=0
    shift 2
    (for setting in "$@"; do export "${setting?}"; done
        LD_PRELOAD=$linger on_npu llama-completion -dev NPU0 -m "$model" -p "And the king said unto" -n 20 --temp 0 -no-cnv \
            --ignore-eos >"$work/out.log" 2>&1 </dev/null) || status=$?
    ((status != 0)) || { tail -20 "$work/out.log"; fail "$name: accepted"; }
    ((status < 128)) || { tail -20 "$work/out.log"; fail "$name: crashed with status $status"; }
    grep -Eiq -- "$pattern" "$work/out.log" || { tail -20 "$work/out.log"; fail "$name: no message like /$pattern/"; }
    echo "$name: $(grep -Ei -m1 -- "$pattern" "$work/out.log")"
}
refused "a missing library" "cannot load.*/absent/librknnrt.so.*GGML_NPU_RKNN_LIBRARY" GGML_NPU_RKNN_LIBRARY=/absent/librknnrt.so
if ! /sbin/ldconfig -p | grep -q librknnrt.so; then
    (unset GGML_NPU_RKNN_LIBRARY && refused "no library by name" "cannot load.*'librknnrt.so'.*GGML_NPU_RKNN_LIBRARY")
fi
refused "a library without a symbol" "does not export rknn_matmul_run.*1\.6 or 2\.0 to 2\.3" "GGML_NPU_RKNN_LIBRARY=$fakes/incomplete/librknnrt.so"
refused "an unknown release" "librknnrt 2\.9\.0.*not known.*1\.6 or 2\.0 to 2\.3" FAKE_RKNN_VERSION=2.9.0
refused "a release before the interface" "librknnrt 1\.5\.2.*not known" FAKE_RKNN_VERSION=1.5.2
refused "a library that computes nothing" "cannot run the pipeline fp16.*pipeline int8.*GGML_NPU_ENGINE=native" FAKE_RKNN_FAULTS=run
refused "a device besides the library" "GGML_NPU_DEVICE=simulated.*unset" GGML_NPU_DEVICE=simulated
refused "a CPU path that is not there" "GGML_NPU_MIN_BATCH=2.*native" GGML_NPU_MIN_BATCH=2
refused "constraints of no plan" "GGML_NPU_WITHOUT=.*native" GGML_NPU_WITHOUT=anything
refused "an engine that is none" "GGML_NPU_ENGINE has the value 'vendor'; accepted: native\|rknn" GGML_NPU_ENGINE=vendor
refused "a failure while generating" "librknnrt failed to run a matmul" FAKE_RKNN_FAULTS=run-after=900
grep -q "And the king said unto him" "$work/out.log" || { tail -20 "$work/out.log"; fail "the failure came before the first words"; }
grep -q "failed to eval" "$work/out.log" || { tail -20 "$work/out.log"; fail "llama_decode did not fail"; }
