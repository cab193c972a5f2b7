# What a user gets wrong: each is answered by a message and a non-zero exit, without a crash and with nothing left behind.
. "$(dirname "$0")/lib.sh"

# refused NAME PATTERN COMMAND...: fails, does not crash, says something that matches.
refused() {
    local name=$1 pattern=$2 status=0
    shift 2
    LD_PRELOAD=$linger "$@" >"$work/out.log" 2>&1 </dev/null || status=$?
    ((status != 0)) || { tail -20 "$work/out.log"; fail "$name: accepted"; }
    ((status < 128)) || { tail -20 "$work/out.log"; fail "$name: crashed with status $status"; }
    grep -Eiq -- "$pattern" "$work/out.log" || { tail -20 "$work/out.log"; fail "$name: no message like /$pattern/"; }
    echo "$name: $(grep -Ei -m1 -- "$pattern" "$work/out.log")"
}
completion=(on_npu llama-completion -dev NPU0 -p Hello -n 4 --temp 0 -no-cnv)

head -c 1000000 "$model" >"$work/truncated.gguf"
refused "a truncated file" "failed to load|corrupted|not within the file bounds" "${completion[@]}" -m "$work/truncated.gguf"
echo "no model" >"$work/text.gguf"
refused "a file that is no GGUF" "magic|failed to load" "${completion[@]}" -m "$work/text.gguf"
refused "a file that is not there" "No such file|failed to (open|load)|does not exist" "${completion[@]}" -m "$work/absent.gguf"

# A model that does not fit, with llama.cpp's own fitting switched off.
GGML_NPU_MEMORY_MIB=4 refused "a model that does not fit" "NPU driver refused a buffer of [0-9]+ bytes.*-ngl" "${completion[@]}" -m "$model" -fit off

GGML_NPU_PRECISION=int3 refused "an unknown option value" "GGML_NPU_PRECISION has the value 'int3'; accepted: auto\|fp16" "${completion[@]}" -m "$model"
GGML_NPU_CORES=7 refused "a number out of range" "GGML_NPU_CORES has the value '7'; accepted: 1..3" "${completion[@]}" -m "$model"
on_path=/dev/null
refused "a device that is no NPU" "/dev/null" env GGML_NPU_DEVICE=$on_path GGML_BACKEND_PATH="$plugin" "$LLAMA_BIN/llama-completion" -dev NPU0 -m "$model" -p Hello -n 4 -no-cnv

# A plugin whose dependency is missing: the loader names it. Seen through a copy that needs a library nobody has.
sed 's/libggml-base\.so\.0/libggml-gone\.so\.0/' "$plugin" >"$work/libggml-npu-broken.so"
refused "a missing plugin dependency" "libggml-gone.so.0" env GGML_BACKEND_PATH="$work/libggml-npu-broken.so" "$LLAMA_BIN/llama-completion" -dev NPU0 -m "$model" -p Hello -n 4 -no-cnv
refused "a plugin that is not there" "absent.so|invalid device" env GGML_BACKEND_PATH="$work/absent.so" "$LLAMA_BIN/llama-completion" -dev NPU0 -m "$model" -p Hello -n 4 -no-cnv

# ./demo's own arguments.
refused "demo: an unknown option" "unknown|usage" "$NPU_SOURCE_DIR/demo" --frobnicate
refused "demo: tokens that are no number" "number|integer|-n" "$NPU_SOURCE_DIR/demo" -n many
refused "demo: a model that is not there" "absent.gguf" "$NPU_SOURCE_DIR/demo" -m "$work/absent.gguf"

# A misspelt option is said, and the run goes on.
GGML_NPU_PRECISON=fp16 LD_PRELOAD=$linger on_npu llama-completion -dev NPU0 -m "$model" -p Hello -n 2 --temp 0 -no-cnv >"$work/out.log" 2>&1 </dev/null || fail "a misspelt option must not stop the run"
grep -q "GGML_NPU_PRECISON is no option" "$work/out.log" || fail "a misspelt option went unnoticed"

left=$(find "$work" -name '*.part*' | head)
[[ -z $left ]] || fail "left behind: $left"
