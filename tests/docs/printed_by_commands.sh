# shellcheck shell=bash
# Usage: printed_by_commands.sh SOURCE NPU PAGE: what stands between `<!-- npu ARGUMENTS -->` and `<!-- end -->` on the page
# is what the command prints.
set -euo pipefail
cd "$1"
npu=$2 page=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
found=0
while read -r arguments; do
    found=$((found + 1))
    # shellcheck disable=SC2086 # patterns and words
    "$npu" $arguments >"$work/printed"
    ARGUMENTS=$arguments awk '/^<!-- end/ { inside = 0 } inside { print } $0 == "<!-- npu " ENVIRON["ARGUMENTS"] " -->" { inside = 1 }' \
        "$page" >"$work/page"
    diff -u "$work/page" "$work/printed" ||
        { echo "$page is not what npu $arguments prints (- page, + printed)"; exit 1; }
    sed '0,/[0-9]/s/[0-9]/x/' "$work/page" >"$work/other" # positive control
    if cmp -s "$work/other" "$work/printed"; then
        echo "the comparison notices nothing"
        exit 1
    fi
done < <(sed -nE 's/^<!-- npu (.+) -->$/\1/p' "$page")
((found > 0)) || { echo "$page has no command"; exit 1; }
