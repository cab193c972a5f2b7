# ./demo as a newcomer runs it: text, then a table in which all matmuls are the NPU's and nothing was uploaded after load.
. "$(dirname "$0")/lib.sh"

begin=$(date +%s%N)
"$NPU_SOURCE_DIR/demo" -p "And it came to pass" -n 12 >"$work/demo.txt" 2>"$work/demo.log" </dev/null || { cat "$work/demo.txt" "$work/demo.log"; fail "./demo"; }
echo "finished after $(((($(date +%s%N) - begin)) / 1000000)) ms"
cat "$work/demo.txt"
for line in "And it came to pass" "Rockchip RK3588 \(simulated, rknpu\)" "multiplications on the NPU +[1-9]" "multiplications on the CPU +0" "submissions +[1-9]" \
    "tasks +[1-9]" "resident.* +[1-9]" "uploaded after loading +0" "time"; do
    grep -Eiq "$line" "$work/demo.txt" || fail "no line like /$line/"
done
