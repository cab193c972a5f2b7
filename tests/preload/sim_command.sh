#!/usr/bin/env bash
# Usage: sim_command.sh TEST
#
# Tests of `npu sim` itself, one function each. NPU names the command, CLIENTS the folder with the compiled clients.
# Exit status 77: skipped.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
once=$CLIENTS/client_rknpu

fail() {
    printf '%s: %s\n' "${FUNCNAME[1]}" "$1" >&2
    exit 1
}
skip() {
    printf 'SKIPPED: %s\n' "$1" >&2
    exit 77
}
# expect_status STATUS COMMAND...: what it prints is in $folder/out and $folder/err.
expect_status() {
    local wanted=$1 status=0
    shift
    "$@" >"$folder/out" 2>"$folder/err" || status=$?
    ((status == wanted)) || fail "exit status $status instead of $wanted: $* : $(cat "$folder/out" "$folder/err")"
}
expect_line() { # FILE PATTERN
    grep -Eq -- "$2" "$1" || fail "no line with '$2' in: $(cat "$1")"
}
refuse_line() {
    ! grep -Eq -- "$2" "$1" || fail "a line with '$2' in: $(cat "$1")"
}
value() { jq -r "$1" "$folder/summary.json"; }
expect_value() { # QUERY VALUE
    [[ $(value "$1") == "$2" ]] || fail "$1 is $(value "$1"), not $2, in $(cat "$folder/summary.json")"
}

the_summary_counts_what_was_done() {
    expect_status 0 "$NPU" sim --json "$folder/summary.json" -- "$once" once return
    expect_value .jobs 1
    expect_value .failed_jobs 0
    expect_value .tasks 1
    expect_value .macs $((8 * 32 * 64))
    expect_value .feature_bytes $((8 * 64))
    expect_value .weight_bytes $((32 * 64))
    expect_value .bytes_written $((8 * 32 * 4))
    expect_value .processes 1
    expect_value .incomplete_processes 0
    expect_value '.violations | length' 0
    expect_value '.predicted_seconds > 0 and .predicted_seconds < 0.01' true
    expect_line "$folder/err" 'jobs +1$'
    expect_line "$folder/err" 'MACs +16384$'
    expect_line "$folder/err" 'violations +none'
}

quiet_prints_nothing_and_still_writes_files() {
    expect_status 0 "$NPU" sim --quiet --json "$folder/summary.json" -- "$once" once return
    [[ ! -s $folder/err ]] || fail "printed: $(cat "$folder/err")"
    expect_value .jobs 1
}

violations_are_listed_with_their_count() {
    expect_status 0 "$NPU" sim --kernel rocket --findings "$folder/findings" --json "$folder/summary.json" -- \
        "$CLIENTS/client_rocket"
    expect_line "$folder/findings" '^hang [0-9]+x cores? [0-9,]+: .*0x00700000'
    expect_line "$folder/err" 'hang +[0-9]+x'
    expect_value '[.violations[].count] | add >= 3' true
    expect_value '.failed_jobs >= 3' true
}

the_end_of_the_program_is_passed_on() {
    expect_status 0 "$NPU" sim -- true
    expect_status 7 "$NPU" sim -- sh -c 'exit 7'
    expect_status 143 "$NPU" sim -- sh -c 'kill -TERM $$'
    expect_status 134 "$NPU" sim --json "$folder/summary.json" -- "$once" once abort
    expect_value .jobs 1 # what was done before is not lost
    expect_value .incomplete_processes 1
    expect_line "$folder/err" 'killed'
    expect_status 0 "$NPU" sim --json "$folder/summary.json" -- "$once" once _exit
    expect_value .jobs 1
    expect_value .incomplete_processes 0
}

arguments_and_input_reach_the_program() {
    expect_status 0 "$NPU" sim -- printf '%s|' --kernel -- 'a b' ''
    [[ $(cat "$folder/out") == '--kernel|--|a b||' ]] || fail "$(cat "$folder/out")"
    expect_status 0 "$NPU" sim cat <<<'a line'
    [[ $(cat "$folder/out") == 'a line' ]] || fail "$(cat "$folder/out")"
    expect_status 0 "$NPU" sim ls -d /dev/dri
    expect_line "$folder/out" '^/dev/dri$'
}

processes_are_added_up() {
    expect_status 0 "$NPU" sim --json "$folder/summary.json" -- \
        sh -c "'$once' once return && '$once' once _exit && '$once' once return && ls / >'$folder/ls'"
    expect_value .processes 3
    expect_value .jobs 3
    expect_value .macs $((3 * 8 * 32 * 64))
}

faults_happen_and_are_reported() {
    expect_status 1 "$NPU" sim --no-real-time --faults job-never-starts@at=1 --json "$folder/summary.json" -- \
        "$once" once return
    expect_line "$folder/err" 'submit: Connection timed out'
    expect_line "$folder/err" 'job-never-starts@at=1: 1 of 1'
    expect_value .failed_jobs 1
    expect_status 0 "$NPU" sim --no-real-time --faults job-never-starts@at=2 -- "$once" once return
    expect_status 1 "$NPU" sim --faults no-memory@at=1 -- "$once" once return
    expect_line "$folder/err" 'prepare: Cannot allocate memory'
}

memory_can_be_limited() {
    expect_status 0 "$NPU" sim --memory 1M -- "$once" once return
    expect_status 0 "$NPU" sim --memory 2G -- "$once" once return
    expect_status 1 "$NPU" sim --memory 1M -- "$CLIENTS/client_big_buffer"
    expect_status 0 "$NPU" sim --memory 64M -- "$CLIENTS/client_big_buffer"
}

a_missing_synchronisation_shows_in_coherency_mode() {
    expect_status 0 "$NPU" sim -- "$once" once careless
    expect_status 1 "$NPU" sim --coherency -- "$once" once careless
    expect_status 0 "$NPU" sim --coherency -- "$once" once return
}

bad_options_are_refused_clearly() {
    expect_status 2 "$NPU" sim
    expect_line "$folder/err" 'Usage: npu sim'
    expect_status 2 "$NPU" sim --kernel linux -- true
    expect_line "$folder/err" "'linux'.*rknpu.*rocket"
    expect_status 2 "$NPU" sim --chip z80 -- true
    expect_line "$folder/err" 'z80'
    expect_status 2 "$NPU" sim --rocket-interface 2.0 -- true
    expect_line "$folder/err" '0\.0.*1\.5'
    expect_status 2 "$NPU" sim --faults flood -- true
    expect_line "$folder/err" 'flood'
    expect_status 2 "$NPU" sim --memory lots -- true
    expect_line "$folder/err" '--memory lots'
    expect_status 2 "$NPU" sim --seed x -- true
    expect_status 2 "$NPU" sim --strict --lenient -- true
    expect_status 2 "$NPU" sim --colour -- true
    expect_line "$folder/err" '--colour'
    expect_status 2 "$NPU" sim --preload-library /no/such/library -- true
    expect_line "$folder/err" '/no/such/library'
    expect_status 127 "$NPU" sim -- /no/such/program
    expect_line "$folder/err" '/no/such/program'
    expect_status 127 "$NPU" sim -- no-such-program
}

a_static_program_is_said_to_be_out_of_reach() {
    printf 'int main(void) { return 3; }' | cc -static -x c -o "$folder/static" - 2>/dev/null ||
        skip "no static C library to build the program with"
    expect_status 3 "$NPU" sim -- "$folder/static"
    expect_line "$folder/err" 'nothing .*intercepted.*statically linked'
    expect_status 0 "$NPU" sim -- true
    refuse_line "$folder/err" 'intercepted'
    expect_line "$folder/err" 'no process opened the NPU'
}

the_files_of_a_board_are_there() {
    expect_status 0 "$NPU" sim --quiet -- bash -c '
        set -e
        ls -l /dev/dri /sys/class/drm/card0/device/ 
        cat /sys/kernel/debug/rknpu/version /sys/module/rknpu/version /sys/class/devfreq/*/governor
        for node in /dev/dri/renderD*; do [[ -c $node ]]; echo "node $node"; done
        readlink -f /sys/class/drm/renderD128/device/driver
        cd /sys/class/drm/card1/device/driver/fdab0000.npu/../..
        grep -h DRIVER /sys/class/drm/card0/device/uevent
        tr "\0" "\n" </proc/device-tree/compatible
        find /dev/dri -name "card*" -type c'
    [[ ! -s $folder/err ]] || fail "$(cat "$folder/err")"
    for pattern in '^crw.* 226, +128 .*renderD128$' 'v0\.9\.8' '^0\.9\.8$' '^rknpu_ondemand$' '^dmc_ondemand$' \
        '^node /dev/dri/renderD128$' '^/sys/bus/platform/drivers/rknpu$' 'DRIVER=RKNPU' '^rockchip,rk3588$' \
        '^/dev/dri/card0$'; do
        expect_line "$folder/out" "$pattern"
    done
    expect_status 0 "$NPU" sim --kernel rocket --quiet -- bash -c '
        ls /dev/accel /dev; readlink -f /sys/class/accel/accel0/device/driver
        cat /sys/kernel/debug/clk/scmi_clk_npu/clk_rate; test -e /dev/dri || echo no dri'
    for pattern in '^accel0$' '^null$' '^/sys/bus/platform/drivers/rocket$' '^200000000$' '^no dri$'; do
        expect_line "$folder/out" "$pattern"
    done
}

the_files_can_be_chosen() {
    mkdir -p "$folder/board/sys/class/thermal/npu"
    echo 45000 >"$folder/board/sys/class/thermal/npu/temp"
    expect_status 0 "$NPU" sim --root "$folder/board" -- cat /sys/class/thermal/npu/temp
    expect_line "$folder/out" '^45000$'
    [[ -e $folder/board/dev/dri/card0 ]] || fail "the folder was not filled"
    echo 'RKNPU driver: v0.9.6' >"$folder/board/sys/kernel/debug/rknpu/version"
    expect_status 0 "$NPU" sim --root "$folder/board" -- cat /sys/kernel/debug/rknpu/version
    expect_line "$folder/out" '0\.9\.6'
    expect_status 0 "$NPU" sim --root "$folder/board" -- sh -c 'echo performance >/sys/class/devfreq/dmc/governor'
    expect_line "$folder/board/sys/class/devfreq/dmc/governor" '^performance$'
    (cd "$folder" && expect_status 0 "$NPU" sim --root board -- "$once" once return)
}

the_library_works_without_the_command() {
    local library=${NPU%/*}/libnpu-preload.so
    export TMPDIR=$folder/tmp
    mkdir "$TMPDIR"
    LD_PRELOAD=$library expect_status 0 "$once" once return
    GGML_NPU_SIM_KERNEL=rocket LD_PRELOAD=$library expect_status 0 ls /dev/accel
    expect_line "$folder/out" '^accel0$'
    GGML_NPU_SIM_KERNEL=linux LD_PRELOAD=$library expect_status 1 "$once" once return
    expect_line "$folder/err" "GGML_NPU_SIM_KERNEL.*'linux'"
    [[ -z $(ls -A "$TMPDIR") ]] || fail "temporary folders stay behind"
}

an_emulator_can_be_named() {
    command -v qemu-aarch64-static >/dev/null || skip "there is no qemu-aarch64-static"
    local library=${NPU%/*}/libnpu-preload-aarch64.so
    [[ -e $library && -e $CLIENTS/client_rknpu_aarch64 ]] || skip "there is no AArch64 build (no cross compiler)"
    local emulator=(qemu-aarch64-static -L /usr/aarch64-linux-gnu)
    expect_status 0 "$NPU" sim --json "$folder/summary.json" -- \
        "${emulator[@]}" "$CLIENTS/client_rknpu_aarch64" once return
    expect_value .jobs 1
    expect_status 0 "$NPU" sim --json "$folder/summary.json" -- \
        "${emulator[@]}" -E "LD_PRELOAD=$library" "$CLIENTS/client_rknpu_aarch64" once return
    expect_value .jobs 1
    expect_status 0 "$NPU" sim --preload-library "$library" --json "$folder/summary.json" -- \
        "$CLIENTS/client_rknpu_aarch64" once return
    expect_value .jobs 1
}

"$1"
