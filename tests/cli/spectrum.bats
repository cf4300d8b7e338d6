#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine spectrum: the tables, the bars, the CSV, and the figure.
load helpers

MODEL=$ROOT/weights/shapes10-vit

# csv FILE WEIGHTS LAYER MATRIX PART: its sigma.
csv() { awk -F, -v w="$2" -v l="$3" -v m="$4" -v p="$5" '$1 == w && $2 == l && $3 == m && $4 == p {print $5}' "$1"; }

@test "spectrum: a table of layers, their mean, heads and bars, on the embedded checkpoint" {
    good spectrum "$MODEL"
    says "$MODEL: 4 layers, width 64, 2 heads by rows" "the largest of the heads" "W_K by head" "largest singular value of W_V, a full bar is"
    awk '$1 == "layer" {n++} $1 == 3 {three++} $1 == "mean" {mean++} END {exit n != 4 || three != 7 || mean != 7}' <<<"$output" ||
        fail "rows are missing: $output"
    [[ ${lines[-1]} =~ ^mean\ +[0-9.]+\ #+$ ]] || fail "the last line is not the mean: ${lines[-1]}"
    ! tail -n +4 <<<"$output" | grep -q W_O || fail "W_O without --all"
    # whole: at least the largest head; all with four decimals
    awk '/whole matrices/ {on = 1} /by head/ {exit} on && $1 ~ /^[0-9]+$/ {for (k = 2; k <= 4; k++) {if ($k < $(k + 3) || length($k) != 6) exit 1; n++}} END {exit n != 12}' <<<"$output" ||
        fail "the first table is wrong: $output"
    ! grep -q ' $' <<<"$output" || fail "blanks at the end of a line"
}

@test "spectrum: lines stay within 80 columns, whatever the heads and the number of checkpoints" {
    good new --set dim=144 depth=2 heads=12 patch=8 --seed 1 -o twelve.safetensors
    for n in 3 6 16; do
        good new --set dim=48 depth=1 heads=$n patch=8 --seed "$n" -o "$n.safetensors"
    done
    good spectrum twelve.safetensors 3.safetensors 6.safetensors 16.safetensors "$W" --all
    [ "$(awk 'NR > 3 && !/layers, width/ {if (length > m) m = length} END {print m}' <<<"$output")" -le 80 ]
    says "A  twelve.safetensors" "E  $W" "layer       0       1       2       3       4       5       6       7" \
        $'layer       8       9      10      11\n' $'layer       8       9      10      11      12      13      14      15\n'
}

@test "spectrum: threads change nothing" {
    good spectrum "$MODEL" --threads 1
    one=$output
    good spectrum "$MODEL" --threads 3
    [ "$output" = "$one" ]
}

@test "spectrum: checkpoints side by side, of different depths, W_O and the MLP with --all" {
    good new --set dim=16 depth=3 heads=2 patch=8 --seed 1 -o deep.safetensors
    good spectrum deep.safetensors "$W" --all
    says "A  deep.safetensors: 3 layers" "B  $W: 1 layers" "     W_O     FC1     FC2"
    grep -qE '^    2 +[0-9.]+ #+ +-$' <<<"$output" || fail "no bar beside a missing layer: $output"
}

@test "spectrum: the CSV holds every value in full, whatever the split" {
    cp "$W" 'a,"b".safetensors'
    good spectrum "$W" 'a,"b".safetensors' --all --csv rows.csv
    good spectrum "$W" 'a,"b".safetensors' --all --csv columns.csv --split columns
    says "2 heads by columns"
    cmp rows.csv columns.csv
    [ "$(head -n 1 rows.csv)" = weights,layer,matrix,part,sigma ]
    [ "$(wc -l <rows.csv)" = 37 ] # 2 checkpoints of one layer: 3 matrices of 1 + 2 + 2 parts and 3 whole ones
    [ "$(grep -c '^"a,""b"".safetensors",0,' rows.csv)" = 18 ]
    [ "$(cut -d, -f3,4 rows.csv | sed -n 2,7p | tr '\n' ' ')" = "W_Q,whole W_Q,rows:0 W_Q,rows:1 W_Q,columns:0 W_Q,columns:1 W_K,whole " ]
    [ "$(csv rows.csv "$W" 0 FC1 whole | wc -c)" -gt 16 ]
    good spectrum "$W" --csv few.csv
    [ "$(wc -l <few.csv)" = 16 ]
    # the table rounds what the CSV holds
    good spectrum "$W" --split columns
    want=$(printf %.4f "$(csv few.csv "$W" 0 W_V columns:1)")
    awk -v want="$want" '/W_V by head/ {on = 1} on && $1 == 0 {exit $3 != want}' <<<"$output" || fail "no $want in: $output"
}

@test "spectrum: a planted weight is its own singular value" {
    # W of the embedded tiny model, all zero but element [3,5] of W_K, which is 2: row head 0 (rows 0 to 7), column head 0
    header=$(st_header "$W")
    begin=$(jq '."blocks.0.attn.qkv.weight".data_offsets[0]' <<<"$header")
    head -c "$(st_data "$W" | wc -c)" /dev/zero | st_make w.safetensors "$header"
    poke w.safetensors $((8 + $(st_length w.safetensors) + begin + 4 * ((16 + 3) * 16 + 5))) "$TWO"
    good spectrum w.safetensors --csv w.csv
    [ "$(csv w.csv w.safetensors 0 W_K whole) $(csv w.csv w.safetensors 0 W_K rows:0) $(csv w.csv w.safetensors 0 W_K columns:0)" = "2 2 2" ]
    [ "$(awk -F, 'NR > 1 {s += $5} END {print s}' w.csv)" = 6 ]
    poke w.safetensors $((8 + $(st_length w.safetensors) + begin + 4 * ((16 + 3) * 16 + 5))) "$ZERO"
    good spectrum w.safetensors # nothing but zeros: empty bars
    says "a full bar is 0"
}

@test "spectrum: wrong usage and files that cannot be" {
    bad 2 "vitrine spectrum needs WEIGHTS" -- spectrum
    bad 2 "option parts is 'heads'" "rows|columns" -- spectrum "$W" --split heads
    bad 2 "--threads is 0" "between 1 and" -- spectrum "$W" --threads 0
    bad 1 nowhere.safetensors "No such file" -- spectrum "$W" nowhere.safetensors
    [ -z "$output" ]
    bad 1 "no/x.csv" "No such file" -- spectrum "$W" --csv no/x.csv
    bad 1 "''" empty -- spectrum "$W" --csv ''
    bad 1 "not a multiple of 3 heads" -- spectrum "$W" --heads 3
    good spectrum "$W" --heads 4
    says "4 heads"
    [ -z "$(ls)" ]
}

@test "spectrum: --plot draws every value, names are text, and the bytes are the same twice" {
    cp "$W" "it's \`touch x\` <&>.safetensors"
    good spectrum "$MODEL" "it's \`touch x\` <&>.safetensors" --plot f.svg --csv f.csv
    good spectrum "$MODEL" "it's \`touch x\` <&>.safetensors" --plot g.svg
    cmp f.svg g.svg
    xmllint --noout f.svg
    grep -qF ">it&#39;s \`touch x\` &lt;&amp;&gt;.safetensors</text>" f.svg
    for m in W_Q W_K W_V; do [ "$(grep -c ">$m</text>" f.svg)" = 1 ]; done
    grep -qF "<title>2: $(printf %.6g "$(csv f.csv "$MODEL" 2 W_V whole)")</title>" f.svg
    bad 1 "no/f.svg" "No such file" -- spectrum "$W" --plot no/f.svg
    (ulimit -f 4 && exec "$VITRINE" spectrum "$MODEL" --plot h.svg >/dev/null 2>err) || status=$?
    [ "$status" = 1 ] && grep -q 'h.svg: ' err && [ ! -e h.svg ] || fail "a file size limit: status $status, $(cat err)"
}
