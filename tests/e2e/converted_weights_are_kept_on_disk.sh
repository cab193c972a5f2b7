# GGML_NPU_CACHE: the second time a model is loaded its converted weights come from the folder, and write the same text.
source "$(dirname "$0")/lib.sh"

q8=$(quantised Q8_0)
export GGML_NPU_PRECISION=w4a8
text() {
    on_npu llama-completion -m "$q8" -p 'In the beginning' -n 24 --temp 0 -no-cnv "$@" 2>"$work/log" </dev/null
}

text >"$work/without"
matrices=$(($(stat weights_from_cache) + $(stat weights_not_in_cache)))
((matrices == 0)) || fail "without a folder no cache should be looked at"

export GGML_NPU_CACHE=$work/packs/converted
text >"$work/first"
converted=$(stat weights_not_in_cache)
((converted > 20)) || fail "the first run should convert the model's matrices; it converted $converted"
(($(stat weights_from_cache) == 0)) || fail "nothing was there to be found"
files=$(find "$GGML_NPU_CACHE" -name '*.npupack' | wc -l)
echo "$converted matrices, $files files of $(du -sk "$GGML_NPU_CACHE" | cut -f 1) KiB for $(stat weight_bytes_resident) resident bytes"
((files == converted)) || fail "there should be one file per matrix"

text >"$work/second"
(($(stat weights_from_cache) == converted)) || fail "the second run found $(stat weights_from_cache) of $converted"
(($(stat weights_not_in_cache) == 0)) || fail "the second run converted again"
for run in first second; do
    cmp "$work/without" "$work/$run" || fail "the $run run with the cache writes another text"
done

# Another precision is another file, but for the projection to the vocabulary, which w4a8 leaves in 8 bits.
GGML_NPU_PRECISION=int8 text >"$work/int8"
(($(stat weights_from_cache) == 1)) || fail "int8 took weights of 4 bits"

# A damaged file is said, and made anew.
for file in "$GGML_NPU_CACHE"/*.npupack; do truncate -s -1 "$file"; done
text -v >"$work/damaged"
(($(grep -c 'npupack is ignored' "$work/log") == converted)) || fail "damaged files were not reported"
(($(stat weights_not_in_cache) == converted)) || fail "damaged files were taken"
cmp "$work/without" "$work/damaged" || fail "damaged files change the text"
text >"$work/mended"
(($(stat weights_from_cache) == converted)) || fail "damaged files were not written anew"

# A folder that cannot be written: said, and the model loads.
GGML_NPU_CACHE=/proc/nowhere text -v >"$work/unwritable"
grep -q 'cannot be kept in /proc/nowhere' "$work/log" || fail "a folder that cannot be written was not reported"
cmp "$work/without" "$work/unwritable" || fail "a folder that cannot be written changes the text"
