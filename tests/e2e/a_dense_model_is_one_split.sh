# The scheduler sees one split per graph: norms, attention and everything else run inside of it, no weight is uploaded after
# loading and no input is copied between devices. The control: a device that accepts matmuls only has many splits.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
splits() { # splits: the most splits of a graph, as the scheduler prints them
    GGML_SCHED_DEBUG=2 to_the_end "total time" "$work/log" "$work/text" on_npu llama-completion -dev NPU0 -m "$q8" \
        -p "And the king said unto" -n 4 --temp 0 -no-cnv -v
    sed -nE 's/.*## SPLIT #([0-9]+): .*/\1/p' "$work/log" "$work/text" | sort -n | tail -1
}
inputs() { grep -hE '## SPLIT #[0-9]+: NPU0' "$work/log" "$work/text" | sed -nE 's/.*# ([0-9]+) inputs.*/\1/p' | sort -n | tail -1; }

last=$(splits)
[[ $last == 0 ]] || fail "a graph had $last further splits"
[[ $(inputs) == 0 ]] || fail "$(inputs) inputs are copied to the device"
(($(stat weight_bytes_uploaded_after_load) == 0)) || fail "weights were uploaded after loading"
export GGML_NPU_CLAIM=matmul
many=$(splits)
((many > 20)) || fail "the control: only $many splits of a device that accepts matmuls only"
echo "one split; $many and one when only matmuls are accepted"
