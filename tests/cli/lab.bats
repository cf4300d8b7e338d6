#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# vitrine lab: the command, its files, and what labs find.
load helpers

@test "list labs: every lab with its paper and its options" {
    good list labs
    says "attgd " "arXiv 2410.14581" "part " "all|local|joint|margin|rates (default all)" "seeds " "2 to 10000 (default 100)" \
        "vitrine lab NAME --key value"
    good help lab
    says "Usage: vitrine lab LAB [OPTIONS]" "--set OPTION=VALUE" "vitrine list labs"
    [ "$(awk '{if (length > m) m = length} END {print m}' <<<"$output")" -le 120 ]
}

@test "a lab prints seed, tables, claims, a verdict and its time; on the terminal alone without --out" {
    good lab attgd --part joint --seed 7 --threads 1
    says "lab attgd: " "arXiv 2410.14581" "seed 7, part=joint" "== joint: " "claim by claim" "supports      W and v descending" \
        "verdict: of 3 claims of the paper this run supports 1, weakens 1, does not test 1" " s, 1 thread"
    [ -z "$(ls)" ]
}

@test "joint: tokens, machines and norms of the golden run stand in the table" {
    good lab attgd --part joint
    output=$(tr -s " " <<<"$output")
    says "1.75 (1, 0) -0.08180 -0.06274 -0.07767 0.19851 0.02551 0.45918" \
        "2 (1, 0) -0.08392 -0.06750 -0.07944 0.19454 0.02551 0.45918" \
        "3 (0, 0) 0.10982 -0.03228 -0.06664 0.19687 -0.18315 0.42125" \
        "+2.2e-16, as the code 1.75 1500 0.00827 0.00020 6.699 20.070" \
        "+2.2e-16, as the code 2 2000 0.00381 0.00032 6.455 19.649" \
        "+2.2e-16, as the code 3 20000 0.00273 0.00242 5.832 17.767"
}

@test "--out: lab.json, tables.txt and run.json; times are in run.json alone, threads change nothing" {
    good lab attgd --part local --seeds 3 --threads 1 --out one
    says "one: lab.json, tables.txt, run.json, local.svg"
    good lab attgd --threads 3 --part=local --set seeds=3 --out three
    cmp one/lab.json three/lab.json
    cmp one/tables.txt three/tables.txt
    cmp one/local.svg three/local.svg
    [ "$(ls one | tr '\n' ' ')" = "lab.json local.svg run.json tables.txt " ]
    # tables.txt is what the terminal showed, without the two lines of time and files
    diff <(head -n -2 <<<"$output") one/tables.txt
    truth one/lab.json '.lab == "attgd" and .seed == 0 and .options == "part=local,seeds=3,quick=0"'
    truth one/lab.json '.results.local.problems == 3 and (.claims | length) == 5'
    truth one/lab.json '[.. | objects | keys[]] | any(. == "seconds" or . == "threads" or . == "host") | not'
    truth one/run.json '.command[1] == "lab" and .seconds > 0 and .threads == 1 and (.sha256 | length) == 64'
    good lab attgd --part local --seeds 3 --seed 1 --out other
    ! cmp -s one/lab.json other/lab.json
}

@test "nothing is overwritten" {
    good lab attgd --part joint --out o
    sums o >before
    bad 2 "o is not an empty folder" "nothing is overwritten" -- lab attgd --part joint --out o
    sums o | cmp - before
    mkdir p && touch p/joint.svg
    bad 2 "p is not an empty folder" -- lab attgd --part joint --out p
    mkdir q
    good lab attgd --part joint --out q
    bad 1 "exists and is not a folder" -- lab attgd --part joint --out before
    bad 1 "cannot be made" -- lab attgd --part joint --out /proc/x
}

@test "options: flags and --set, ranges, unknown ones with the lab's own" {
    bad 2 "vitrine lab needs LAB" -- lab
    bad 2 "unknown lab 'attdg'" "did you mean 'attgd'?" -- lab attdg
    bad 2 "unknown lab 'x-y-z'" "attgd" -- lab x-y-z --seed 1
    bad 2 "lab attgd has no option 'seds'" "did you mean 'seeds'?" "its options are: part, seeds, quick" -- lab attgd --seds 3
    bad 2 "lab attgd has no option 'model'" "its options are: part, seeds, quick" -- lab attgd --model self
    bad 2 "lab attgd has no option 'thread'" "did you mean 'threads'?" -- lab attgd --thread 2
    bad 2 "no option 'full'" "its options are: part" -- lab attgd --set full=1
    bad 2 "name the lab before its options" -- lab --quick attgd
    bad 2 "--set takes key=value" "'seeds'" -- lab attgd --set seeds
    bad 2 "lab attgd: option seeds is 1" "between 2 and 10000" -- lab attgd --seeds 1
    bad 2 "option seeds is 'many'" -- lab attgd --set seeds=many
    bad 2 "option part is 'everything'" "all|local|joint|margin|rates" -- lab attgd --part everything
    bad 2 "--seeds needs a value" -- lab attgd --seeds
    bad 2 "--quick takes no value" -- lab attgd --quick=yes
    bad 2 "--threads is 0" -- lab attgd --threads 0
    bad 2 "--seed is '-'" -- lab attgd --seed -
    bad 2 "unexpected operand 'joint'" -- lab attgd joint
    [ -z "$(ls)" ]
    # the last of an option counts, whichever way it is given
    good lab attgd --set part=local --seeds 5 --part joint --set seeds=4
    says "part=joint,seeds=4,quick=0"
}

@test "figures: one SVG a part" {
    vt lab attgd --quick --seeds 2 --out o
    [ "$status" = 0 ]
    says "o: lab.json, tables.txt, run.json, local.svg, joint.svg, rates.svg"
    for f in local joint rates; do xmllint --noout "o/$f.svg"; done
    grep -q 'dashed: probability of the selected token' o/joint.svg
}

@test "an interrupted or failed lab leaves no file behind" {
    "$VITRINE" lab attgd --part local --seeds 10000 --threads 1 --out o >out 2>err &
    local pid=$!
    until compgen -G "o/.vitrine-*" >/dev/null; do kill -0 $pid 2>/dev/null && sleep 0.1 || fail "$(cat err)" || return; done
    kill -INT $pid
    wait $pid && status=0 || status=$?
    [ "$status" = 1 ] && grep -q "vitrine: interrupted" err || fail "status $status, $(cat err)"
    [ -z "$(ls -A o)" ]
    (ulimit -f 2 && exec "$VITRINE" lab attgd --part joint --out p >/dev/null 2>err) || status=$?
    [ "$status" = 1 ] && grep -q "p/joint.svg: cannot be written" err && [ -z "$(ls p)" ] || fail "$(cat err) $(ls p)"
}

@test "local, 100 problems: the own machine is the nearest of each row; p = 2 is at .0066 +- .001" {
    vt lab attgd --part local --out o # half a minute on a busy machine, so that progress may be on stderr
    [ "$status" = 0 ] || fail "$stderr"
    truth o/lab.json '.results.local.same_tokens.mean as $t | [range(3)] | all(. as $p | $t[$p] | min == .[$p])'
    truth o/lab.json '.results.local.same_tokens.mean[1][1] - 0.0066 | . <= 0.001 and . >= -0.001'
    # the published figure: about .21, .185 and .005 for p = 3
    truth o/lab.json '.results.local.different_tokens.mean[2] | (.[0] - 0.22 | fabs) < 0.05 and (.[1] - 0.185 | fabs) < 0.05 and (.[2] - 0.005 | fabs) < 0.002'
}

@test "margin: every column is largest on the diagonal" {
    vt lab attgd --part margin --quick --seed 5 --out o
    [ "$status" = 0 ] || fail "$stderr"
    truth o/lab.json '.results.margin.margin as $m | [range(5)] | all(. as $k | [$m[][$k]] | max == $m[$k][$k])'
    truth o/lab.json '.results.margin.p == [1.1, 1.25, 1.5, 2, 3]'
}
