# Programs that measure a model rather than talk: the importance matrix, the divergence from the CPU's probabilities, the
# embedding of a text, a table of speeds, and look-up decoding. What they print on the NPU is what they print on the CPU, within what the numbers
# of the precision allow.
. "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
q4=$(quantised Q4_0)
head -c 6000 "$heldout" >"$work/text"

# The importance matrix sums squares of activations, which the evaluation callback must see between the nodes of one split.
matrix() { # matrix NAME RUNNER MODEL
    "$2" llama-imatrix -m "$3" -f "$work/text" -c 128 -o "$work/$1.gguf" >"$work/log" 2>&1 </dev/null || { tail "$work/log"; fail "llama-imatrix $1"; }
}
matrix cpu on_cpu "$q8"
matrix npu on_npu "$q8"
(($(stat matmul_npu) > 0)) || fail "llama-imatrix did not use the NPU"
matrix other on_cpu "$q4"
read -r tensors error <<<"$("$NPU_BUILD_DIR/bin/npu-compare-gguf" "$work/cpu.gguf" "$work/npu.gguf")"
read -r _ control <<<"$("$NPU_BUILD_DIR/bin/npu-compare-gguf" "$work/cpu.gguf" "$work/other.gguf")"
echo "importance matrix: $tensors tensors, normalised squared error at most $error; of a Q4_0 model $control"
awk -v error="$error" -v control="$control" 'BEGIN { exit !(error < 1e-3 && control > error) }' || fail "the importance matrices differ"

# Divergence from probabilities that the CPU wrote.
to_the_end "Final estimate" "$work/log" "$work/out" on_cpu llama-perplexity -m "$model" -f "$work/text" -c 128 --kl-divergence-base "$work/base"
divergence() { # divergence NAME RUNNER MODEL: sets kld
    to_the_end "Mean *KLD" "$work/log" "$work/out" "$2" llama-perplexity -m "$3" -c 128 --kl-divergence-base "$work/base" --kl-divergence
    kld=$(cat "$work/out" "$work/log" | sed -n 's/^Mean *KLD: *\(-\{0,1\}[0-9.]*\).*/\1/p')
    echo "KL divergence from F16 on the CPU, $1: $kld"
}
GGML_NPU_PRECISION=fp16 divergence "NPU fp16" on_npu "$model"
fp16=$kld
divergence "NPU int8 of Q8_0" on_npu "$q8"
int8=$kld
divergence "CPU Q4_0" on_cpu "$q4"
awk -v fp16="$fp16" -v int8="$int8" -v q4="$kld" 'BEGIN { exit !(fp16 < 0.0002 && int8 < 0.001 && q4 > int8) }' || fail "the divergence is too large"

embedding() { # embedding NAME RUNNER TEXT
    "$2" llama-embedding -m "$q8" -p "$3" --pooling mean --embd-output-format array >"$work/$1.json" 2>"$work/log" </dev/null || { tail "$work/log"; fail "llama-embedding $1"; }
}
embedding cpu on_cpu "In the beginning God created"
embedding npu on_npu "In the beginning God created"
embedding other on_cpu "and the fish of the sea"
cosine() { jq -n --slurpfile a "$work/$1.json" --slurpfile b "$work/$2.json" '[$a[0][0], $b[0][0]] | transpose | [map(.[0] * .[1]), map(.[0] * .[0]), map(.[1] * .[1])] | map(add) | .[0] / (.[1] * .[2] | sqrt)'; }
same=$(cosine cpu npu)
other=$(cosine cpu other)
echo "embedding: cosine to the CPU's $same; to that of another text $other"
awk -v same="$same" -v other="$other" 'BEGIN { exit !(same > 0.999 && other < 0.99) }' || fail "the embeddings differ"

on_npu llama-batched-bench -m "$q8" -c 1024 -b 512 -ub 128 -npp 32 -ntg 8 -npl 1,4 -t 2 >"$work/table" 2>"$work/log" </dev/null || { tail "$work/log"; fail "llama-batched-bench"; }
rows=$(grep -c '^| *32 *| *8 *|' "$work/table") || true
((rows == 2)) || fail "llama-batched-bench printed: $(cat "$work/table")"
(($(stat matmul_npu) > 0)) || fail "llama-batched-bench did not use the NPU"

# llama-lookup drafts from n-grams of the prompt.
verse="And God said, Let there be light: and there was light. And God said"
to_the_end n_accept "$work/log" "$work/cpu.txt" on_cpu llama-lookup -m "$model" -p "$verse" -n 16 --temp 0 -t 2
to_the_end n_accept "$work/log" "$work/npu.txt" on_npu llama-lookup -m "$model" -p "$verse" -n 16 --temp 0 -t 2
(($(wc -w <"$work/npu.txt") >= 20)) || fail "llama-lookup wrote: $(cat "$work/npu.txt")"
cmp "$work/cpu.txt" "$work/npu.txt" || fail "llama-lookup writes another text"
