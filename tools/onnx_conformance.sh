#!/bin/bash
# SPDX-License-Identifier: MIT
# ONNX's own cases through src/graph, forward in float and double and gradients: node cases and those of PyTorch, of
# Debian's libonnx-testdata (12: 1.12, 13: 1.17), which is installed if it is not there and this is root. The last line is
# "passed N, failed N, refused N"; exit status 1 if one failed. Refused ones say why.
#
#     tools/onnx_conformance.sh [FOLDER]    FOLDER: of node, pytorch-converted, ... (/usr/share/libonnx-testdata/data)
set -e
cd "$(dirname "$0")/.."
data=${1:-/usr/share/libonnx-testdata/data}
if [ ! -d "$data/node" ] && [ $# = 0 ]; then
    [ "$(id -u)" = 0 ] || { echo "$0: no cases here: apt-get install libonnx-testdata" >&2; exit 2; }
    apt-get install -y libonnx-testdata >/dev/null
fi
[ -d "$data/node" ] || { echo "$0: $data has no folder 'node'" >&2; exit 2; }
make --no-print-directory onnx-case >/dev/null
exec build/tools/onnx_case "$data"/node/* "$data"/pytorch-*/*
