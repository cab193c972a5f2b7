#!/usr/bin/env bash
# Usage: scripts/llama-cpp.sh
#
# Gets the pinned llama.cpp and builds it, unless that is done already, and
# writes build/llama-cpp.env, which tells the other scripts where it is:
#   LLAMA_CPP_SOURCE   the source tree (headers: ggml/include, ggml/src)
#   LLAMA_CPP_BUILD    the build tree (programs and libraries: bin/)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

case ${1:-} in
    '') ;;
    -h | --help)
        print_help "$0"
        exit
        ;;
    *) usage_error "unknown argument: $1" ;;
esac

mkdir -p "$project_dir/build"
source_dir=$("$here/llama-cpp-source")
build_dir=$("$here/llama-cpp-build" "$source_dir")

env_file=$project_dir/build/llama-cpp.env
printf 'LLAMA_CPP_SOURCE=%q\nLLAMA_CPP_BUILD=%q\n' "$source_dir" "$build_dir" >"$env_file.new"
if cmp --silent "$env_file.new" "$env_file"; then rm "$env_file.new"; else mv "$env_file.new" "$env_file"; fi
