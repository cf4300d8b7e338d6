#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Writes the list of ONNX operators in docs/models.md, as the registry has it: `make operators`. --check: exit status 1 if
# it is stale.
import pathlib, re, subprocess, sys
ROOT = pathlib.Path(__file__).resolve().parent.parent
page = ROOT / "docs/models.md"
case = next((a for a in sys.argv[1:] if a[0] != "-"), ROOT / "build/tools/onnx_case")
made = subprocess.run([case, "--operators"], check=True, capture_output=True, text=True).stdout
old = page.read_text()
new = re.sub(r"^Abs, .*?\n\n\|.*?\n(?=\n)", lambda _: made, old, count=1, flags=re.S | re.M)
if made not in new:
    sys.exit("docs/models.md: there is no list of operators that begins with 'Abs, '")
if new != old and "--check" in sys.argv:
    sys.exit("docs/models.md: the list of ONNX operators is stale: make operators")
page.write_text(new)
