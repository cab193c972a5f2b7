# Shared by the end-to-end tests: where things are, how to fail, how to run with and without the NPU.
# The environment comes from CMakeLists.txt: NPU_SOURCE_DIR, NPU_BUILD_DIR, LLAMA_BIN.
set -euo pipefail

plugin=$NPU_BUILD_DIR/bin/libggml-npu.so
model=$NPU_SOURCE_DIR/models/kjv-6m-f16.gguf
heldout=$NPU_SOURCE_DIR/models/heldout.txt
linger=$NPU_BUILD_DIR/bin/libnpu-linger-at-exit.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

[[ -e $plugin ]] || fail "no plugin at $plugin"
[[ -e $linger ]] || fail "no library at $linger"
[[ -e $model ]] || fail "no model at $model"

# Runs a llama.cpp program with the plugin on the simulated NPU; statistics go to $work/stats.json. Small batches go to the NPU,
# too, unless the test says otherwise.
on_npu() {
    local program=$1
    shift
    GGML_NPU_DEVICE=${GGML_NPU_DEVICE:-simulated} GGML_NPU_MIN_BATCH=${GGML_NPU_MIN_BATCH:-1} \
        GGML_BACKEND_PATH=$plugin GGML_NPU_STATS=$work/stats.json "$LLAMA_BIN/$program" "$@"
}

# Runs it without the plugin: llama.cpp as it is.
on_cpu() {
    local program=$1
    shift
    env -u GGML_BACKEND_PATH "$LLAMA_BIN/$program" "$@"
}

# `to_the_end MARKER LOG OUT COMMAND...`: runs COMMAND with stdout to OUT and stderr to LOG, until its log is printed to
# the end (linger_at_exit.cpp); the marker, which the program prints last, must be in one of them.
to_the_end() {
    local marker=$1 log=$2 out=$3
    shift 3
    LD_PRELOAD=$linger "$@" >"$out" 2>"$log" </dev/null || { tail -20 "$log" >&2; fail "$*"; }
    grep -q "$marker" "$log" "$out" || fail "ended without '$marker': $*"
}

# Prints one value of the statistics of the last run on the NPU.
stat() { jq -r ".$1" "$work/stats.json"; }

# Prints a model of another type made from the shipped one, `quantised TYPE`; made once for all tests.
quantised() {
    local made=$NPU_BUILD_DIR/models/kjv-6m-$1.gguf
    mkdir -p "$NPU_BUILD_DIR/models"
    if [[ ! -e $made || $made -ot $model ]]; then
        on_cpu llama-quantize "$model" "$made.$$.part" "$1" >"$work/quantise.log" 2>&1 ||
            { cat "$work/quantise.log" >&2; fail "llama-quantize to $1"; }
        mv "$made.$$.part" "$made"
    fi
    echo "$made"
}

# `within_percent A B LIMIT`: whether A differs from B by at most LIMIT percent.
within_percent() { awk -v a="$1" -v b="$2" -v limit="$3" 'BEGIN { exit !(a > 0 && b > 0 && (a > b ? a - b : b - a) <= b * limit / 100) }'; }
