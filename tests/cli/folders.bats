#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Class folders as others lay them out: splits by any name, the order of classes, which images, Tiny ImageNet.
load helpers

# F2, F3, F12: models of so many classes and folders flat/K of pictures that they are right on.
setup_file() {
    load helpers
    local n
    for n in 2 3 12; do /usr/bin/python3 "$ROOT/tests/fixtures/folders.py" "$VITRINE" "$BATS_FILE_TMPDIR/$n" $n 4; done
    export F2=$BATS_FILE_TMPDIR/2 F3=$BATS_FILE_TMPDIR/3 F12=$BATS_FILE_TMPDIR/12
}

# lay DIR NAME...: flat/0, flat/1, ... of $F as DIR/NAME
lay() {
    local dir=$1 k=0 name
    shift
    mkdir -p "$dir"
    for name; do cp -r "$F/flat/$k" "$dir/$name" && k=$((k + 1)); done
}
# named NAME...: m/ holds the model with a config.json that gives its outputs these names
named() {
    mkdir -p m && cp "$F/m.safetensors" m/model.safetensors
    printf '%s\n' "$@" | jq -R . | jq -s '{id2label: (to_entries | map({key: (.key | tostring), value}) | from_entries)}' >m/config.json
}

@test "split folders of any name are splits, never classes" {
    F=$F2
    local pair
    for pair in training_set/training_set:test_set/test_set Train:Test training:validation train:dev seg_train:seg_test \
        "Training Data:Testing Data" train2017:val2017 trainset:holdout; do
        rm -rf d
        lay "d/${pair%:*}" cats dogs
        lay "d/${pair#*:}" cats dogs
        rm "d/${pair#*:}"/*/3.png
        good eval "$F/m.safetensors" --data d
        says "6 / 6"
        good eval "$F/m.safetensors" --data d --split TRAIN
        says "8 / 8"
    done
    good eval "$F/m.safetensors" --data d --split val --out r
    truth r/results.json '.data.split == "val" and .clean.total == 6'
    bad 1 "has no folder test or val, so there is no test split" "trainset: give --split train" "--class-order FILE" \
        -- eval "$F/m.safetensors" --data "$(rm -r d/holdout && echo d)"
    lay d/eval a b && lay d/valid a b
    bad 2 "several folders for the val split, eval and valid" -- eval "$F/m.safetensors" --data d
    # splits without class folders are no classes either, unless a file says so
    rm -r d && lay d valid invalid
    bad 1 "d/valid: holds no class folder" "if this is a class: --class-order FILE" -- eval "$F/m.safetensors" --data d
    printf 'valid\ninvalid\n' >order
    vt eval "$F/m.safetensors" --data d --class-order order
    judge_ok "8 / 8" "in the order of --class-order FILE"
    bad 2 "CIFAR has the splits train and test, and no val" -- eval "$W" --data "$D" --split val
}
judge_ok() { [ "$status" = 0 ] && says "$@" || fail "$status: $output$stderr"; }

@test "folders that hold as many folders as there are classes are versions of one data set: one of them is named" {
    F=$F3
    local c s
    for c in fog snow; do for s in 1 2 3 4 5; do lay C/$c/$s a b c; done; done
    bad 1 "C has 2 classes, but the model" "it holds corruptions: give --corruption, one of fog, snow, and --severity)" -- eval "$F/m.safetensors" --data C
    bad 1 "C/fog has 5 classes" "as --data C/fog/1" -- eval "$F/m.safetensors" --data C/fog
    good eval "$F/m.safetensors" --data C/snow/5
    says "12 / 12"
    # ImageNet-C's own way
    good eval "$F/m.safetensors" --data C --corruption fog --severity 3 --out r
    says "corruption fog, severity 3 of 5" "12 / 12"
    good verify r
    good eval "$F/m.safetensors" --data C --corruption all --severity 2 --out all
    [ "$(ls all | tr '\n' ' ')" = "corruptions.csv corruptions.json fog-2 snow-2 " ]
    rm -r C/fog/4
    bad 2 "C/fog/4: is not there: fog has no severity 4" -- eval "$F/m.safetensors" --data C --corruption fog --severity 4
    bad 2 "--corruption is '../C/fog', but C has fog, snow" -- eval "$F/m.safetensors" --data C --corruption ../C/fog --severity 1
    bad 2 "there is no val split" -- eval "$F/m.safetensors" --data C --corruption fog --severity 1 --split val
    lay P/art a b c && lay P/photo a b c && lay P/sketch a b c
    bad 2 "its folders (art, photo) may be splits or versions of one data set" "name one, as --data P/art, or give --class-order text" -- eval "$F/m.safetensors" --data P
    good eval "$F/m.safetensors" --data P --class-order text
    says "/ 36"
    mkdir Q && cp -r P Q/P && lay Q/P/test a b c
    bad 1 "Q has 1 classes" "is a folder in it meant: P?" -- eval "$F/m.safetensors" --data Q
}

@test "numbers as class folders: as text or as numbers is asked, unless names or both orders agree" {
    F=$F12
    cp -r "$F/flat" d
    bad 2 "11 stands before 2 as text: give --class-order text (torchvision's ImageFolder) or number" -- eval "$F/m.safetensors" --data d
    good eval "$F/m.safetensors" --data d --class-order number --out r
    says "48 / 48" "class folders in the order of --class-order number"
    truth r/results.json '.data.head.present == [0,1,10,11,2,3,4,5,6,7,8,9]'
    good verify r
    bad 2 "made with another data" -- eval "$F/m.safetensors" --data d --class-order text --out r --resume
    good eval "$F/m.safetensors" --data d --class-order text
    says "/ 48"
    never grep -q "48 / 48" <<<"$output"
    named {0..11}
    good eval m --data d
    says "48 / 48" "labels by the model's own class names"
    local k
    for k in {0..9}; do mv d/$k d/0$k; done
    good eval "$F/m.safetensors" --data d
    says "48 / 48"
}

@test "--class-order FILE: one class a line in the model's order; what it lacks or has too much is named" {
    F=$F3
    lay d b c a
    bad_order() { printf "$1" >order && bad 2 "$2" -- eval "$F/m.safetensors" --data d --class-order order; }
    printf 'b\nc\na\n' >order
    good eval "$F/m.safetensors" --data d --class-order order --out r
    says "12 / 12"
    mkdir far && cd far
    good verify ../r
    cd ..
    bad_order 'b\nc\n' "order: does not name the class folder 'a' of d"
    bad_order 'b\nc\na\nx\n' "order: names the class 'x', of which d has no folder"
    # all outputs of the model, of which the data have some
    rm -r d/c
    printf 'b\nc\na\n' >order
    good eval "$F/m.safetensors" --data d --class-order order
    says "8 / 8" "2 classes on a head of 3 classes: all outputs are compared"
    lay e b c a && cp -r e/c d/c
    bad_order 'b\nc\na\nb\n' "order: names the class 'b' twice"
    bad 2 "--class-order is 'none', must be text, number, or a file with one class a line" -- eval "$F/m.safetensors" --data d --class-order none
    bad 2 "the class folder a of d is no number" -- eval "$F/m.safetensors" --data d --class-order number
    bad 2 "--class-order is for class folders" -- eval "$W" --data "$D" --class-order text
}

@test "labels by the model's own names, where folders have them" {
    F=$F3
    lay d truck "Air Plane" bird
    named truck air_plane BIRD
    good eval m --data d --out r
    says "12 / 12" "labels by the model's own class names, not by the order of the folders"
    good verify r
    jq '{label_names: ["t", "p", "b"], label_descriptions: {t: "truck, lorry", p: "air plane", b: "bird, fowl"}}' <<<null >m/config.json
    good eval m --data d
    says "12 / 12"
    # of more outputs than folders too, then all are compared or those present
    rm -r "d/Air Plane"
    good eval m --data d
    says "8 / 8" "2 classes on a head of 3 classes: all outputs are compared"
    good eval m --data d --restrict-classes
    says "8 / 8" "(restricted)"
    # names that agree in part, at another place: which is the third?
    rm -r d && lay d x y bird
    bad 2 "calls its output 2 'b', which is class folder 0 here, but it has no name 'x'" "--class-order FILE" -- eval m --data d
    good eval m --data d --class-order "$(printf 'x\ny\nbird\n' >order && echo order)"
    says "12 / 12"
    # other names altogether: said, in the order of the folders
    rm -r d && lay d 0a 0b 0c
    vt eval m --data d
    judge 0 "labels by the order of the folders (0a first): the model's own names (t first) are others"
    says "12 / 12"
    named LABEL_0 LABEL_1 LABEL_2
    good eval m --data d
}

@test "--images spread:N takes all classes, A:B says how many it holds; pictures that are not read are counted" {
    F=$F12
    lay d c{a..l}
    vt eval "$F/m.safetensors" --data d --images 0:9 --out r
    judge 0 "these 9 images hold 3 of 12 classes (--images spread:9 takes them from all)"
    good eval "$F/m.safetensors" --data d --images spread:24 --out s
    truth s/results.json '.clean.total == 24 and .images == "1:2,3:4,5:6,7:8,9:10,11:12,13:14,15:16,17:18,19:20,21:22,23:24,25:26,27:28,29:30,31:32,33:34,35:36,37:38,39:40,41:42,43:44,45:46,47:48"'
    good verify s
    good eval "$F/m.safetensors" --data d --images spread:48 --out s --resume
    vt eval "$F/m.safetensors" --data d --images spread:4
    judge 0 "these 4 images hold 4 of 12 classes"
    good eval "$W" --data "$D" --images spread:10
    says "10 / 10"
    bad 2 "--images is 'spread:49', must be spread:N with N from 1 to 48" -- eval "$F/m.safetensors" --data d --images spread:49
    bad 2 "must be spread:N" -- eval "$F/m.safetensors" --data d --images spread:x
    cp d/ca/0.png d/x.png
    touch d/ca/a.webp d/cb/b.WEBP d/cb/c.heic d/cb/notes.txt && rm d/cl/*
    vt eval "$F/m.safetensors" --data d
    judge 0 ".webp 2, .heic 1 (convert them to PNG)" "1 class folder holds no pictures (cl)" "1 picture beside the class folders has no class and was left out"
    says "44 / 44"
}

@test "--images FILE: a list of paths below the split" {
    F=$F3
    lay d/val a b c
    printf 'a/0.png\nval/b/1.png\n./c/2.png\n# one by its number\n11\n' >list
    good eval "$F/m.safetensors" --data d --images list --out r
    truth r/results.json '.images == "0:1,5:6,10:12"'
    good verify r
    echo x/0.png >list
    bad 2 "list: line 1 is 'x/0.png', which is no image of the test split of d" -- eval "$F/m.safetensors" --data d --images list
    echo 0.png >list
    bad 2 "line 1 is '0.png', which is no image" -- eval "$F/m.safetensors" --data d --images list
    mv d/val/a/0.png d/val/a/only.png && echo only.png >list
    good eval "$F/m.safetensors" --data d --images list
    says "1 / 1"
    # points of another tool in the order of its own list
    mkdir points && cp d/val/b/1.png points/1.png && cp d/val/a/only.png points/2.png
    printf 'val/b/1.png\na/only.png\n' >list
    good verify --adv points --indices list --weights "$F/m.safetensors" --data d --eps 1/255
    says "2 robust" "0 violations"
    printf 'a/only.png\nb/1.png\n' >list
    vt verify --adv points --indices list --weights "$F/m.safetensors" --data d --eps 1/255
    judge 1 "2 of 2 points violate"
    echo b/9.png >list
    bad 2 "--indices: 'b/9.png' is not an image number, nor an image of d" -- verify --adv points --indices list --weights "$F/m.safetensors" --data d --eps 1/255
    printf 'a/only.png\n3\n' >list
    bad 2 "image 3 is listed twice" -- eval "$F/m.safetensors" --data d --images list
}

@test "Tiny ImageNet as it is published: val by its annotations, test has no labels" {
    F=$F3
    local w=(n01443537 n01629819 n01641577) k j
    mkdir -p t/val/images t/test/images
    for k in 0 1 2; do
        mkdir -p t/train/${w[k]}/images
        for j in 0 1 2; do
            cp "$F/flat/$k/$j.png" t/train/${w[k]}/images/${w[k]}_$j.png
            cp "$F/flat/$k/$j.png" t/val/images/val_$((3 * j + k)).png
            cp "$F/flat/$k/$j.png" t/test/images/test_$((3 * j + k)).png
            printf 'val_%d.png\t%s\t0\t0\t31\t31\n' $((3 * j + k)) ${w[k]} >>t/val/val_annotations.txt
        done
    done
    vt eval "$F/m.safetensors" --data t --out r
    judge 0 "test has no class folders, so val was read"
    says "9 / 9"
    [ "$(tail -n +2 r/ledger.jsonl | jq -c .label | tr '\n' ' ')" = "0 0 0 1 1 1 2 2 2 " ]
    good eval "$F/m.safetensors" --data t --split train
    says "9 / 9"
    good eval "$F/m.safetensors" --data t/val
    says "9 / 9"
    # the same data set as its pictures in class folders
    for k in 0 1 2; do
        mkdir -p u/${w[k]}/images
        for j in 0 1 2; do cp t/val/images/val_$((3 * j + k)).png u/${w[k]}/images/; done
    done
    good eval "$F/m.safetensors" --data u --out s
    [ "$(jq .data.sha256 r/results.json)" = "$(jq .data.sha256 s/results.json)" ]
    cp t/val/images/val_0.png t/val/images/x.png
    bad 1 "names the classes of 9 pictures, but t/val/images holds 10" -- eval "$F/m.safetensors" --data t
    echo nonsense >>t/val/val_annotations.txt
    bad 1 "val_annotations.txt: line 10 is not NAME, a tab, CLASS" -- eval "$F/m.safetensors" --data t
    rm t/val/val_annotations.txt
    bad 1 "t/test: has no class folders, but images alone, and no val_annotations.txt" -- eval "$F/m.safetensors" --data t
}

@test "a trained checkpoint knows the names of its outputs, and so does a copy" {
    F=$F12
    cp -r "$F/flat" d && mkdir e && cp -r d e/train
    printf 'model:\n  dim: 16\n  depth: 1\n  heads: 2\n  patch: 8\n  image: 32\nepochs: 1\nbatch: 12\n' >r.yaml
    vt train r.yaml --data e --out t
    [ "$status" = 0 ]
    good eval t/model.safetensors --data d --out a
    never grep -q '"head"' a/ledger.jsonl
    named {0..11}
    good convert m copy.safetensors
    good eval copy.safetensors --data d
    says "48 / 48"
}

@test "wnids that are followed by a word are wnids" {
    "$VITRINE" new --set dim=16 depth=1 heads=2 patch=8 image=32 classes=1000 --seed 0 -o big.safetensors >/dev/null
    F=$F2
    lay d n02085620-Chihuahua n02085782-Japanese_spaniel
    good eval big.safetensors --data d --out r
    [ "$(tail -n +2 r/ledger.jsonl | jq -c .label | sort -u | tr '\n' ' ')" = "151 152 " ]
    lay e n02085620x dog
    bad 1 "not named by ImageNet's wnids: --class-order FILE with the names of all outputs" -- eval big.safetensors --data e
}

@test "a class that is missing in the test split: labels by the folders of the train split" {
    F=$F3
    lay d/train a b c && lay d/test a b c && rm -r d/test/b
    good eval "$F/m.safetensors" --data d --out r
    says "8 / 8" "labels by the class folders of the train split" "2 classes on a head of 3 classes"
    truth r/results.json '.data.head.present == [0,2]'
    good verify r
    mkdir -p e && mv d/test e/
    bad 1 "e has 2 classes, but the model" "has 3 (--class-order FILE with the names of all outputs" -- eval "$F/m.safetensors" --data e
    mv d/train d/test && mkdir d/train && cp -r e/test/a d/train/
    good eval "$F/m.safetensors" --data d # the test split has all, whatever the other has
    says "12 / 12"
    never grep -q "train split" <<<"$output"
}

@test "names of classes beside the weights in a .pth: class_to_idx, CLASSES and the like" {
    F=$F3
    lay d truck "Air Plane" bird
    PYTHONPATH=$ROOT/tests/fixtures /usr/bin/python3 - "$F/m.safetensors" <<'END'
import json, struct, sys
import numpy as np
from torch_zip import Tensor, save
b = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
w = {k: Tensor(np.frombuffer(b[8 + n:][v["data_offsets"][0]:v["data_offsets"][1]], "f4").reshape(v["shape"]))
     for k, v in json.loads(b[8:8 + n]).items() if k != "__metadata__"}
names = ["truck", "air_plane", "bird"]
forms = {"to": {"class_to_idx": {k: i for i, k in enumerate(names)}}, "from": {"idx_to_class": dict(enumerate(names))},
         "text": {"id2label": {str(i): k for i, k in enumerate(names)}}, "meta": {"meta": {"dataset_meta": {"classes": tuple(names)}}},
         "list": {"args": {"class_names": names}}, "twice": {"class_to_idx": {"truck": 0, "air_plane": 0, "bird": 1}},
         "few": {"classes": names[:2]}, "number": {"classes": 3}}
for form, more in forms.items():
    save(form + ".pth", dict(more, state_dict=w))
END
    local f read=(--heads 2 --mean 0.5 --std 0.5)
    for f in to from text meta list; do
        assumes eval $f.pth --data d "${read[@]}"
        says "12 / 12" "labels by the model's own class names"
    done
    for f in twice few number; do
        assumes eval $f.pth --data d "${read[@]}"
        says "/ 12"
        never grep -q "12 / 12" <<<"$output"
    done
}
