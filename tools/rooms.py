#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Lists the folders of src in docs/ARCHITECTURE.md: purpose, plug-in families (from the Makefile), headers.
# `make rooms` rewrites the list; --check: exit status 1 if stale; src/io: what each header there says it is.
import pathlib, re, sys
PURPOSE = dict(line.split(": ", 1) for line in """\
base: status and memory, files, text, JSON, YAML, options, random numbers, statistics, tables of text
linalg: matrix products (OpenBLAS, oneDNN, small kernels, bfloat16), singular values
parallel: threads, fibers, work queues, child processes, teams of ranks
tensors: reads and writes safetensors, .pth, .npy and .npz; checks every length and offset
data: data sets, folders, images: decoding, resizing, classes, splits
nn: layers and losses, forward and backward in one file
graph: networks of ONNX files: reader, operators (a file each), forward and backward
certify: certified radii: bounds of a graph over a box or a ball of inputs, Lipschitz bounds
models: what a network is: configuration, parameter table, architectures, presets
checkpoint: from a file to a model: tensor names, maps, settings and their provenance
models/net: what a network computes: sessions, blocks, attention variants
spec: VNN-LIB specifications of networks: reader, search, witnesses, VNN-COMP's lists
models/export: native networks as ONNX files
inference: what surrounds a network: batches, classifiers, defences, known cheats
remote: external models: the protocol, both of its sides
attacks: attacks, the oracle, balls, patches, the 8-bit grid
eval: one evaluation: options, loop, ledger, verification, cost estimate
eval/report: reports, comparisons and pages, from a finished ledger
eval/doctor: finds the settings with which a checkpoint was trained
selftest: tests whether the gradients that attacks followed can be trusted
train: recipes, the training loop, objectives, optimisers, penalties
api: implements include/vitrine.h
cli: the commands, their help and completion
mpi: ranks over MPI, for vitrine-mpi alone
research/numeric: eigenvalues of operators that are known by their products
research/lab: small experiments of the papers
research/analysis: attention, Lipschitz constants, features, flatness, spectra
research/table: a paper's table: manifest, jobs, published numbers, report
research/cli: the commands of these three""".splitlines())
page, begin, end = pathlib.Path("docs/ARCHITECTURE.md"), "<!-- make rooms: begin -->\n", "<!-- make rooms: end -->"
headers = {room: sorted(pathlib.Path("src", room).glob("*.h")) for room in PURPOSE}
if sys.argv[1:] not in ([], ["--check"]):
    for h in headers[sys.argv[1].removeprefix("src/").rstrip("/")]:
        print(h.stem, "-", re.sub(r"\s*\n \* ?", " ", re.search(r"/\* (?!SPDX)(.*?)(\. |\.?\s*\*/)", h.read_text(), re.S)[1]))
    sys.exit()
if unknown := {str(f.parent)[4:] for f in pathlib.Path("src").rglob("*.[ch]")} - PURPOSE.keys():
    sys.exit(f"tools/rooms.py: no purpose for {', '.join(sorted(unknown))}")
plugins = re.findall(r",src/([a-z/]+)/([a-z]+_)\b", pathlib.Path("Makefile").read_text())
files = {room: [f"{p}*" for r, p in plugins if r == room] + [h.stem for h in headers[room]] for room in PURPOSE}
rows = [f"- **src/{room}**: {PURPOSE[room]}.\n  `{' '.join(files[room])}`\n" for room in PURPOSE]
before, after = (old := page.read_text()).split(begin)
if (new := before + begin + "".join(rows) + end + after.split(end)[1]) != old:
    sys.exit(f"{page}: the list of folders is stale: make rooms") if sys.argv[1:] else page.write_text(new)
