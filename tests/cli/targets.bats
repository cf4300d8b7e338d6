#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# eval --targets: each image becomes its target and no other class, by every attack that can aim; verify draws targets
# again; files that do not fit the run, and ledgers whose targets were touched, are refused in a sentence.
load helpers

V=$ROOT/weights/shapes10-vit SHAPES=$ROOT/datasets/shapes10

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR"
    for way in least-likely random; do
        "$VITRINE" eval "$V" --data "$SHAPES" --images 0:24 --eps 4/255 --seed 3 --attack apgd-ce:steps=10 \
            --attack square:queries=60 --targets $way --out $way >/dev/null
    done
}

setup() {
    R=$BATS_FILE_TMPDIR
    mkdir "$BATS_TEST_TMPDIR/here" && cd "$BATS_TEST_TMPDIR/here"
}

one_error() { judge "$status" "$@"; }
aim() { vt eval "$V" --data "$SHAPES" --images 0:24 --eps 4/255 --no-selftest "$@"; }
lines() { tail -n +2 "$1/ledger.jsonl"; }

@test "a broken image is its target, one that stands is not, and the clean line says which" {
    for way in least-likely random; do
        lines $R/$way | jq -es 'map(select(.entry > 0)) | length > 20 and
            all(.[]; (.status == "broken") == (.pred == .target) and (.status == "broken") == (.margin > 0) and .target != .label)'
        lines $R/$way | jq -es 'group_by(.image) | all(.[]; (map(.target) | unique | length) == 1)'
        lines $R/$way | jq -es 'any(.[]; .entry > 0 and .status == "robust" and .pred != .label)' # another class does not count
        truth $R/$way/results.json '.targets == {"by": "'$way'"}'
        grep -q "linf eps 4/255, targets: $way, seed 3" $R/$way/table.md
    done
    good verify $R/random
    good verify $R/least-likely
}

@test "the least likely class is that of the smallest logit" {
    python3 - "$SHAPES/test_batch.bin" x.safetensors <<'PY'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()[: 12 * 3073]
x = b"".join(struct.pack("<3072f", *(v / 255 for v in raw[i * 3073 + 1 : (i + 1) * 3073])) for i in range(12))
y = struct.pack("<12q", *(raw[i * 3073] for i in range(12)))
head = json.dumps({"x": {"dtype": "F32", "shape": [12, 3, 32, 32], "data_offsets": [0, len(x)]},
                   "labels": {"dtype": "I64", "shape": [12], "data_offsets": [len(x), len(x) + len(y)]}}).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(head)) + head + x + y)
PY
    good probe "$V" --input x.safetensors --out p.safetensors
    python3 - p.safetensors $R/least-likely/ledger.jsonl <<'PY'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", raw[:8])
at = json.loads(raw[8 : 8 + n])["logits"]
a, b = at["data_offsets"]
z = struct.unpack("<120f", raw[8 + n + a : 8 + n + b])
lines = sorted((l for l in map(json.loads, open(sys.argv[2]).readlines()[1:]) if l["entry"] == 0), key=lambda l: l["image"])
assert len(lines) == 24
for l in lines[:12]:
    row = z[10 * l["image"] : 10 * l["image"] + 10]
    assert l["target"] == min((k for k in range(10) if k != l["label"]), key=lambda k: row[k]), l
PY
}

@test "seeds draw other targets, the same seed the same ones" {
    aim --attack fgsm --targets random --seed 3 --out a
    aim --attack fgsm --targets random --seed 4 --out b
    lines $R/random | jq -s 'map(select(.entry == 0).target)' >was
    lines a | jq -s 'map(select(.entry == 0).target)' | cmp - was
    lines b | jq -s 'map(select(.entry == 0).target)' >other
    never cmp -s other was
}

@test "a file: its classes, its hash in the header, comments and either separator" {
    lines $R/random | jq -r 'select(.entry == 0) | "\(.image) \(.target)"' | sed '3s/ /,/; 5s/ /\t/' >classes
    sed -i '1i # image and class' classes
    aim --attack apgd-ce:steps=10 --attack square:queries=60 --seed 3 --targets classes --out f
    [ "$status" -eq 0 ]
    truth f/results.json '.targets == {"by": "file", "sha256": "'"$(sha256sum classes | cut -d" " -f1)"'"}'
    cmp <(lines f | jq -c 'del(.check)') <(lines $R/random | jq -c 'del(.check)')
    good verify f
}

@test "every attack that can aim runs; the others are refused by name" {
    local linf=(fgsm pgd apgd-ce apgd-dlr apgd-t apgd-malt mt-pgd cw20 fab fab-t square deepfool fmn pma nes smooth-pgd transfer quick paranoid)
    for a in "${linf[@]}"; do
        aim --images 1:2 --attack $a --targets random --dry-run
        [ "$status" -eq 0 ] || fail "$a: $stderr"
    done
    for a in hopskipjump pgd-specformer fgsm-specformer pgd-trades; do
        aim --attack $a --targets random
        [ "$status" -eq 2 ]
        one_error "attack $a cannot aim at a class"
    done
    vt eval "$V" --data "$SHAPES" --images 0:2 --norm l2 --eps 1 --attack ddn:target=3 --targets random
    [ "$status" -eq 2 ]
    one_error "attack ddn: give its target or --targets, not both"
    good eval "$V" --data "$SHAPES" --images 0:2 --norm l2 --eps 1 --attack ddn:steps=5 --attack cw-l2:steps=5,search=1 --targets random
    good eval "$V" --data "$SHAPES" --images 0:2 --norm l0 --eps 20 --attack sigma-zero:steps=5 --attack sparse-rs:queries=20 --targets random
    good eval "$V" --data "$SHAPES" --images 0:2 --threat patch:size=6,count=1 --attack pgd:steps=3 --attack attention-pgd:steps=2 --targets random
    good eval "$V" --data "$SHAPES" --images 0:3 --eps 8/255 --attack pgd:steps=5 --targets random --eight-bit
}

@test "a killed run goes on to the same bytes, another choice of targets does not" {
    cp -r $R/random o
    head -n 18 $R/random/ledger.jsonl >o/ledger.jsonl
    good eval "$V" --data "$SHAPES" --images 0:24 --eps 4/255 --seed 3 --attack apgd-ce:steps=10 --attack square:queries=60 \
        --targets random --no-selftest --out o --resume
    for f in $DETERMINISTIC; do cmp $R/random/$f o/$f; done
    for other in "--targets least-likely" ""; do
        aim --seed 3 --attack apgd-ce:steps=10 --attack square:queries=60 $other --out o --resume
        [ "$status" -eq 1 ] || [ "$status" -eq 2 ]
        one_error targets
    done
}

@test "a file that does not fit the run is refused before anything is written" {
    refused() {
        printf -- "$1" >t
        aim --attack fgsm --targets t --out o
        [ "$status" -eq 2 ] || [ "$status" -eq 1 ]
        one_error "$2"
        [ ! -e o ]
    }
    local all="$(lines $R/random | jq -r "select(.entry == 0 and .image != 11) | \"\\(.image) \\(.target)\"" | tr "\n" "|" | sed "s,|,\\\\n,g")"
    refused "$all" "t: says no target for image 11"
    refused "${all}11 10\n" "line 24: image 11 has the target 10, but the model has the classes 0 to 9"
    label=$(lines $R/random | jq 'select(.entry == 0 and .image == 11).label')
    refused "${all}11 $label\n" "line 24: image 11 has the target $label, which is its label"
    refused "${all}11 0\n11 1\n" "image 11 has two targets"
    refused "0\n" "line 1 is '0', must be an image's index and its target"
    refused "0,1,2\n" "line 1"
    refused "0,x\n" "line 1"
    refused "image,target\n0,1\n" "line 1"
    refused "0,-1\n" "line 1"
    refused "-1,0\n" "line 1"
    refused "0,1.5\n" "line 1"
    refused "99999999999,1\n" "line 1"
    refused "" "holds no targets"
    refused "# none\n" "holds no targets"
    refused "0,1\0\n" "byte 0"
    refused "\xef\xbb\xbf0,1\n" "line 1"
    refused "0;1\n" "line 1 is '0;1'"
    refused "0,1 # so\n" "line 1 is '0,1 # so'"
    refused "0,4294967297\n" "line 1"
    refused "0,\x1b[31mred\n" "line 1 is '0,?[31mred'"
    mkfifo pipe
    aim --attack fgsm --targets pipe --out o
    one_error "pipe that nobody writes to"
    aim --attack fgsm --targets /dev/zero --out o
    one_error "the limit"
    aim --attack fgsm --targets nowhere --out o
    [ "$status" -eq 2 ]
    one_error "nowhere"
    aim --targets random --out o
    [ "$status" -eq 2 ]
    one_error "--targets needs at least one --attack"
    aim --as-published specformer --targets random --out o
    [ "$status" -eq 2 ]
    one_error "--as-published"
    [ ! -e o ]
}

forge() {
    cp -r $R/random o
    sed -i "$1" o/ledger.jsonl
}

@test "targets that were touched are found" {
    forge '2s/"target":[0-9]*/"target":123/'
    vt verify o
    [ "$status" -eq 1 ]
    forge2() { rm -rf o && cp -r $R/random o && jq -c "$1" $R/random/ledger.jsonl >o/ledger.jsonl && seal o; }
    forge2 'if .image == 3 then .target = (.label + 2) % 10 else . end'
    vt verify o
    [ "$status" -eq 1 ]
    says3="$output$stderr"
    [[ $says3 == *"image 3"*target* ]] || fail "$says3"
    forge2 'if .image == 3 and .entry == 1 then .target = (.target + 1) % 10 else . end'
    vt verify o
    [ "$status" -ne 0 ]
    one_error "image 3"
    forge2 'if .image == 3 then del(.target) else . end'
    vt verify o
    [ "$status" -ne 0 ]
    one_error "no target"
    forge2 'if .image == 3 then .target = 100000 else . end'
    vt verify o
    [ "$status" -ne 0 ]
    one_error "must be a class of the model"
    forge2 'if .image == 3 then .target = .label else . end'
    vt verify o
    [ "$status" -ne 0 ]
    one_error "must be another class"
    forge2 'del(.targets)'
    vt verify o
    [ "$status" -ne 0 ]
    one_error "a target, but the header says of none"
}

@test "a union and a comparison tell targeted runs from others" {
    aim --seed 3 --attack fgsm --out plain
    vt merge --worst a=$R/random b=plain
    [ "$status" -eq 2 ]
    one_error "are of another targets"
    vt compare $R/random plain
    [[ $output$stderr == *targets* ]]
}
