# Helpers shared by the scripts. Sourced, never run.
# shellcheck shell=bash disable=SC2034

project_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache_dir=${XDG_CACHE_HOME:-$HOME/.cache}/ggml-npu

# Messages go to stderr: the stdout of a script is its result.
say() { printf '%s\n' "$*" >&2; }

# A heading for a step that takes a while, with the time since the run began,
# which may have been in a script that called this one.
export NPU_SCRIPTS_STARTED=${NPU_SCRIPTS_STARTED:-$EPOCHSECONDS}
step() {
    local seconds=$((EPOCHSECONDS - NPU_SCRIPTS_STARTED))
    printf '== [%d:%02d] %s\n' $((seconds / 60)) $((seconds % 60)) "$*" >&2
}

# die MESSAGE [LINE...]: what failed, then what to do about it.
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    (($# == 0)) || printf '       %s\n' "$@" >&2
    exit 1
}

# A wrong command line: one line, and where the right one is described.
usage_error() {
    printf 'error: %s\n' "$1" >&2
    printf '       see %s --help\n' "$0" >&2
    exit 2
}

have() { command -v "$1" >/dev/null 2>&1; }

# print_help FILE: the comment at the top of a script is its help text.
print_help() { sed -n '2,/^[^#]/ { s/^# \{0,1\}//p }' "$1"; }

# need_space DIR MEGABYTES WHAT: a full disk otherwise shows up as a compiler
# or archive error far from its cause.
need_space() {
    local free
    free=$(df --output=avail -BM "$1" | tail -n 1 | tr -dc '0-9')
    ((free >= $2)) || die "$3 needs $2 MB of disk space, but $1 has only $free MB" \
        "free some space, or put the cache on another disk by setting XDG_CACHE_HOME"
}

# lock FILE: held until the script and all that it started have ended, so that
# no two compile into one folder even if the script itself was killed.
lock() {
    exec 9>"$1"
    flock --nonblock 9 && return
    say "waiting for another run that holds $1"
    flock 9
}

# job_count: one compiler per core, but no more than fit in memory (1 GB each):
# small boards have eight cores and four gigabytes.
job_count() {
    local cores memory_gb jobs
    if [[ -n ${CMAKE_BUILD_PARALLEL_LEVEL:-} ]]; then
        echo "$CMAKE_BUILD_PARALLEL_LEVEL"
        return
    fi
    cores=$(nproc)
    memory_gb=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
    jobs=$((cores < memory_gb ? cores : memory_gb))
    echo $((jobs > 0 ? jobs : 1))
}

# build_in DIR WHAT: builds the CMake build folder DIR. Says nothing if there is
# nothing to do, which ninja itself does in several lines. Steps called
# "Checking ..." run every time, so they are not worth a heading.
build_in() {
    need_space "$1" 300 "$2"
    # Another clone of the project, in another folder, finds the same objects.
    CCACHE_BASEDIR=$project_dir CCACHE_NOHASHDIR=1 cmake --build "$1" --parallel "$(job_count)" 2>&1 | show_work "$2" >&2
}

# Not awk or grep: some versions hold lines back until they have a few thousand bytes.
show_work() {
    local line shown=false
    local nothing='Re-checking globbed directories|ninja: no work to do|^\[[0-9]+/[0-9]+\] Checking '
    while IFS= read -r line; do
        [[ ! $line =~ $nothing ]] || continue
        $shown || step "$1"
        shown=true
        printf '%s\n' "$line"
    done
}
