#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which numbered items the texts of the four papers have: theorems, definitions, lemmas, assumptions, propositions,
corollaries, algorithms, tables, figures; one a line, "PAPER kind number".

    papers_items.py TEXTS                  prints them
    papers_items.py TEXTS LIST             exit 1, and names them, if LIST (docs/papers.items) lacks one

TEXTS is a folder outside the repository: the texts of the papers, or somebody's notes on them, under the names of FILES and
of COMPANIONS below (which holds three papers, told by its numbered headings). The papers are not ours to pass on, so LIST is
what the repository keeps; tests/cli/papers.bats wants a row in docs/papers for every line of it. LIST may hold more than
notes name, and does: notes leave out what they do not discuss."""
import os
import re
import sys

PAPERS = ("SpecFormer", "l_p-AttGD", "OC", "UAM")
FILES = {"specformer.txt": "SpecFormer", "lp-attgd.txt": "l_p-AttGD", "oc.txt": "OC", "uam.txt": "UAM", "specformer.md": "SpecFormer"}
COMPANIONS = "companion-papers.md"
SECTIONS = {"1": "OC", "2": "l_p-AttGD", "3": "UAM", "4": "SpecFormer"}  # its headings
KINDS = {"theorem": r"Theorems?|Thm\.?", "definition": r"Definitions?", "lemma": r"Lemmas?", "assumption": r"Assumptions?",
         "proposition": r"Propositions?|Prop\.?", "corollary": r"Corollary|Cor\.?", "algorithm": r"Algorithms?|Alg\.?",
         "table": r"Tables?", "figure": r"Figures?|Figs?\.?"}
NUMBER = r"(?:0\.[A-Z]\.\d+|\d+(?:\.\d+)*|\(?[A-Z]\d+\)?|[A-Z](?![A-Za-z0-9.]))"
LIST = re.compile(rf"({NUMBER})((?:(?:,| and| to|-| or|, and) ?(?:Table |Fig\. )?{NUMBER})*)")


def expand(first, rest):
    """The numbers of "2 to 6 and 8"."""
    out = [first.strip("()")]
    for word, number in re.findall(rf"(,? ?and|,|to|-|or) ?(?:Table |Fig\. )?({NUMBER})", rest):
        number = number.strip("()")
        if word in ("to", "-") and number.isdigit() and out[-1].isdigit():
            out += [str(i) for i in range(int(out[-1]) + 1, int(number))]
        out.append(number)
    return out


def items(text):
    """(kind, number) of every mention in a text."""
    for kind, words in KINDS.items():
        for m in re.finditer(rf"\b(?:{words}) +", text):
            found = LIST.match(text, m.end())
            for number in expand(*found.groups()) if found else ():
                yield kind, number


def texts(folder):
    """(paper, text) pairs."""
    for name, paper in FILES.items():
        path = os.path.join(folder, name)
        if os.path.exists(path):
            yield paper, open(path, encoding="utf-8").read()
    path = os.path.join(folder, COMPANIONS)
    if os.path.exists(path):
        for part in re.split(r"^# (?=\d)", open(path, encoding="utf-8").read(), flags=re.M)[1:]:
            if part[0] in SECTIONS:
                yield SECTIONS[part[0]], part


def key(line):
    paper, kind, number = line.split(" ", 2)
    return PAPERS.index(paper), list(KINDS).index(kind), [(len(p), p) for p in re.split(r"[.]", number)]


def main(folder, listed=None):
    found = {f"{paper} {kind} {number}" for paper, text in texts(folder) for kind, number in items(text)}
    if not found:
        sys.exit(f"{folder}: holds no text of the papers")
    if listed is None:
        print("\n".join(sorted(found, key=key)))
        return
    have = {line for line in open(listed, encoding="utf-8").read().splitlines() if line and line[0] != "#"}
    lacking = sorted(found - have, key=key)
    for line in lacking:
        print(f"{listed}: lacks {line}, which {folder} names")
    print(f"{len(found)} items in {folder}, {len(have)} in {listed}, {len(lacking)} lacking")
    sys.exit(1 if lacking else 0)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
