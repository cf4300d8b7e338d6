#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The planted bugs of tests/mutants/ROOM.txt.

    mutants.py check              # every record fits the tree
    mutants.py names [NAME ...]   # NAME<tab>TESTS<tab>SENTENCE of all, or of these
    mutants.py apply NAME TREE    # plants one in a copy of the tree; prints the files that it changes
    mutants.py in FILE ...        # names of those in these files

A record is a line "NAME: SENTENCE", a line "killed by TEST ..." and one or more changes: "in FILE", then lines "-old" and
"+new". The old text, lines joined, must occur once in the file, however it is spaced and broken into lines; it may begin and
end inside a line. Records are separated by an empty line; lines that begin with "#" are comments."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Bad(Exception):
    pass


def record(lines, where):
    """One record's lines as a dictionary."""
    name, colon, why = lines[0].partition(": ")
    if not colon or len(lines) < 4 or not lines[1].startswith("killed by "):
        raise Bad(f"{where}: a record is 'NAME: SENTENCE', 'killed by TEST ...', 'in FILE', '-old', '+new'")
    changes = []
    for line in lines[2:]:
        if line.startswith("in "):
            changes.append([line[3:], [], []])
        elif line[:1] in "-+" and line and changes:
            if line[0] == "-" and changes[-1][2]:  # another place in the same file
                changes.append([changes[-1][0], [], []])
            changes[-1][1 if line[0] == "-" else 2].append(line[1:])
        else:
            raise Bad(f"{where}: {name}: a line begins with 'in ', '-' or '+', not '{line[:20]}'")
    return {"name": name, "why": why, "tests": lines[1].split()[2:], "where": where,
            "changes": [(f, "\n".join(old), "\n".join(new)) for f, old, new in changes]}


def records(root=ROOT):
    folder, out = os.path.join(root, "tests", "mutants"), []
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".txt"):
            continue
        with open(os.path.join(folder, file), encoding="utf-8") as f:
            lines = f.read().split("\n")
        start = None
        for i, line in enumerate(lines + [""]):
            if line and not line.startswith("#"):
                start = i if start is None else start
            elif start is not None and not line:
                out.append(record(lines[start:i], f"tests/mutants/{file}:{start + 1}"))
                start = None
    return out


def read(root, path):
    try:
        with open(os.path.join(root, path), encoding="utf-8") as f:
            return f.read()
    except OSError:
        return None


def places(old, text):
    """Where the old text occurs, as (begin, end); blanks count only between two words."""
    tokens = re.findall(r"\w+|[^\w\s]", old)
    pattern = "".join((r"\s+" if a[-1:].isalnum() and b[:1].isalnum() else r"\s*") * bool(a) + re.escape(b)
                      for a, b in zip([""] + tokens, tokens))
    return [m.span() for m in re.finditer(pattern, text)] if tokens else []


def faults(r, root):
    """What does not fit the tree, a sentence each."""
    for test in r["tests"]:
        if not any(f"test_{test}.c" in files for top in ("unit", "golden") for _, _, files in os.walk(
                os.path.join(root, "tests", top))):
            yield f"{r['where']}: {r['name']} is killed by test_{test}, which is not there"
    if not r["tests"]:
        yield f"{r['where']}: {r['name']} names no test that kills it"
    for path, old, new in r["changes"]:
        text = read(root, path)
        if text is None:
            yield f"{r['where']}: {r['name']} is in {path}, which is not there"
        elif len(places(old, text)) != 1:
            yield f"{r['where']}: {r['name']}: its old text occurs {len(places(old, text))} times in {path}, not once"
        elif old == new:
            yield f"{r['where']}: {r['name']} changes nothing"


def check(root):
    bad, names = [], set()
    for r in records(root):
        bad += faults(r, root)
        if r["name"] in names:
            bad.append(f"{r['where']}: {r['name']} stands twice")
        names.add(r["name"])
    return bad


def plant(name, tree):
    for r in records():
        if r["name"] != name:
            continue
        for path, old, new in r["changes"]:
            text = read(tree, path)
            if text is None or len(places(old, text)) != 1:
                raise Bad(f"{name}: its old text does not occur once in {path}")
            with open(os.path.join(tree, path), "w", encoding="utf-8") as f:
                begin, end = places(old, text)[0]
                f.write(text[:begin] + new + text[end:])
        print(*sorted({path for path, _, _ in r["changes"]}))
        return
    raise Bad(f"there is no mutant {name}")


def main():
    command, args = sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]
    try:
        if command == "check":
            bad = check(args[0] if args else ROOT)
            print("\n".join(bad), end="\n" if bad else "")
            return 1 if bad else 0
        if command == "names":
            for r in records():
                if not args or r["name"] in args:
                    print(r["name"], " ".join(r["tests"]), r["why"], sep="\t")
        elif command == "in":
            for r in records():
                if any(path in args for path, _, _ in r["changes"]):
                    print(r["name"])
        elif command == "apply" and len(args) == 2:
            plant(*args)
        else:
            print(__doc__)
            return 2
    except Bad as e:
        print(e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
