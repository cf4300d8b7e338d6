# SPDX-License-Identifier: MIT
"""What vitrine costs above the model in another process: processor and wall time of 200 batches of 64 vjps, asked by a PGD
of `vitrine eval --oracle`, over those of a bare PyTorch loop of the same vjps (a ResNet-20 with random weights, one thread;
start and end cancel: 250 steps less 50; steps that move every image, so that each is one forward and one vjp). On a quiet machine:

    python3 bench/oracle_overhead.py build/vitrine datasets/shapes10
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = """
import sys
sys.path[:0] = [%r, %r]
import vitrine_oracle
import numpy as np, torch
from resnet import ResNet20
torch.set_num_threads(1), torch.manual_seed(0)
net = ResNet20()
""" % (os.path.join(HERE, "..", "python"), os.path.join(HERE, "..", "python", "examples"))
CHILD = COMMON + "vitrine_oracle.serve_torch(net, classes=10, shape=(3, 32, 32), batch=64)\n"
LOOP = COMMON + """
raw = np.fromfile(sys.argv[1] + "/test_batch.bin", np.uint8).reshape(-1, 3073)[:64]
x = torch.tensor(raw[:, 1:].reshape(-1, 3, 32, 32)).float() / 255
net.eval()
for p in net.parameters():
    p.requires_grad_(False)
for k in range(int(sys.argv[2])):
    t = x.clone().requires_grad_(True)
    z = net(t)
    dz = torch.softmax(z.detach(), 1)
    dz[range(64), z.argmax(1)] -= 1
    torch.autograd.grad(z, t, dz)[0].numpy()
"""


def spent(command):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.time() - began


def both(run):
    few, many = run(50), run(250)
    return many[0] - few[0], many[1] - few[1]


def main(vitrine, data):
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as d:
        child, loop, labelled = os.path.join(d, "child.py"), os.path.join(d, "loop.py"), os.path.join(d, "data")
        for path, text in ((child, CHILD), (loop, LOOP)):
            with open(path, "w") as f:
                f.write(text)
        # the network's own answers as labels, so that all 64 images are attacked to the end
        oracle = "%s %s" % (sys.executable, child)
        ask = [vitrine, "eval", "--oracle", oracle, "--images", "0:64", "--batch", "64", "--no-selftest", "--quiet"]
        os.mkdir(labelled)
        with open(os.path.join(data, "test_batch.bin"), "rb") as f:
            raw = bytearray(f.read(64 * 3073))
        subprocess.run(ask + ["--data", data, "--out", os.path.join(d, "o")], check=True, stdout=subprocess.DEVNULL)
        import json

        with open(os.path.join(d, "o", "ledger.jsonl")) as f:
            for line in map(json.loads, f.readlines()[1:]):
                raw[3073 * line["image"]] = line["pred"]
        for name in ("test_batch.bin", "data_batch_1.bin"):
            with open(os.path.join(labelled, name), "wb") as f:
                f.write(raw)
        pgd = ["--data", labelled, "--eps", "1/255", "--exhaustive", "--attack"]
        for _ in range(3):
            a = both(lambda n: spent(ask + pgd + ["pgd:alpha=1e-4,steps=%d" % n]))
            b = both(lambda n: spent([sys.executable, loop, labelled, str(n)]))
            print("vitrine and child %.2f s of processor, %.2f s; bare loop %.2f, %.2f; ratio %.3f, %.3f"
                  % (a + b + (a[0] / b[0], a[1] / b[1])), flush=True)


main(sys.argv[1], sys.argv[2])
