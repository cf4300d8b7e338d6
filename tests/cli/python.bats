# SPDX-License-Identifier: MIT
# The Python view: its page, its answers beside the command's, and what it does with what it should refuse.
load helpers

py() { PYTHONPATH=$ROOT/python VITRINE_LIBRARY=$(library)/libvitrine.so.0 /usr/bin/python3 "$@"; }

# The first lines of every script: a model, images, labels, and must(status, text, f).
HEAD='
import ctypes, os, sys, threading, numpy as np, vitrine
m = vitrine.load("weights/shapes10-vit")
raw = np.fromfile("datasets/shapes10/test_batch.bin", np.uint8).reshape(-1, 3073)[:12]
y, x = raw[:, 0].astype(np.int32), (raw[:, 1:] / np.float32(255)).reshape(-1, 3, 32, 32)
def must(kind, text, f):
    try:
        f()
    except kind as e:
        assert text in str(e), (text, str(e))
        assert "\n" not in str(e)
        return e
    raise AssertionError("nothing was raised; wanted " + text)
'
script() { { echo "$HEAD"; cat; } >script.py && py script.py; }

links() { for there in weights datasets recipes; do ln -s "$ROOT/$there" .; done; }

@test "every line of docs/python.md runs as it stands" {
    links
    py -m doctest "$ROOT/docs/python.md"
    [ "$(grep -c '^    >>> ' "$ROOT/docs/python.md")" -ge 25 ]
    never py -m doctest <(sed 's/^    17$/    18/' "$ROOT/docs/python.md") >/dev/null
}

@test "logits and broken images are the command's" {
    links
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 0:12 --eps 4/255 --seed 4 --attack pgd:steps=5 --attack square:queries=50 --out run --no-selftest >/dev/null
    script <<'END'
run = vitrine.read_run("run", frame=False)
for name, spec in ("pgd", "pgd:steps=5"), ("square", "square:queries=50"):
    x_adv, v = vitrine.attack(m, x, y, spec, 4 / 255, seed=4, batch=5)
    assert (v["outcome"] == run[name + ".outcome"]).all() and (v["pred"] == run[name + ".pred"]).all()
    assert np.allclose(v["margin"], run[name + ".margin"], atol=1e-3)
assert (m.logits(x).argmax(1) == run["clean"]).all() and (run["label"] == y).all()
END
}

@test "an ONNX file: logits, exact gradients and verdicts are the command's" {
    links
    ln -s "$ROOT/tests" .
    local n=tests/fixtures/onnx/shapes10_inside.onnx
    "$VITRINE" eval $n --data datasets/shapes10 --images 0:12 --eps 2/255 --seed 4 --attack pgd:steps=5 --attack square:queries=50 --out run --no-selftest >/dev/null
    script <<END
n = vitrine.load("$n")
assert n.shape == (3, 32, 32) and "10 classes" in repr(n)
run = vitrine.read_run("run", frame=False)
assert (n.logits(x).argmax(1) == run["clean"]).all() and (run["label"] == y).all()
for name, spec in ("pgd", "pgd:steps=5"), ("square", "square:queries=50"):
    x_adv, v = vitrine.attack(n, x, y, spec, 2 / 255, seed=4, batch=3)
    assert (v["outcome"] == run[name + ".outcome"]).all() and (v["pred"] == run[name + ".pred"]).all() and v.success.any()
    assert (vitrine.judge(n, x, x_adv, y, 2 / 255).success == v.success).all()
dz = np.eye(10, dtype=np.float32)[y]
dx, h = n.vjp(x, dz), np.float32(2.0**-12)
step = h * np.sign(dx)
d = ((n.logits(x + step).astype(float) - n.logits(x - step)) * dz).sum(1) / 2
# a step of 2^-12 leaves 1e-3 of float32's rounding, and crosses few kinks of the network's relus
assert np.allclose(d, (dx * step).sum((1, 2, 3)), rtol=0.05), (d, (dx * step).sum((1, 2, 3)))
r = vitrine.evaluate("$n", data="datasets/shapes10", images="0:12", attack="pgd:steps=5", eps="2/255", seed=4)
assert r.results["clean"]["correct"] == int((run["clean"] == y).sum())
must(vitrine.Error, "nothing.onnx", lambda: vitrine.load("nothing.onnx"))
must(vitrine.Error, "mean", lambda: vitrine.attack(vitrine.load("tests/fixtures/onnx/shapes10_bare.onnx"), x, y, "fgsm", 0.1))
assert vitrine.load("tests/fixtures/onnx/shapes10_bare.onnx", mean="0.5", std="0.25").logits(x).shape == (12, 10)
END
}

@test "a function that raises, answers in another shape or shows no gradients" {
    links
    script <<'END'
def boom(x): raise KeyError("mine")
f = lambda logits, vjp=m.vjp, **k: vitrine.own(logits, vjp, classes=10, side=32, **k)
attack = lambda o, a="pgd:steps=3": vitrine.attack(o, x, y, a, 4 / 255)
must(KeyError, "mine", lambda: attack(f(boom)))
must(KeyError, "mine", lambda: f(boom).logits(x))
must(KeyError, "mine", lambda: attack(f(m.logits, lambda x, dz: boom(x))))
must(ValueError, "logits returned [12, 9]", lambda: f(lambda x: m.logits(x)[:, :9]).logits(x))
must(ValueError, "logits returned [1, 10], must be [12, 10]", lambda: f(lambda x: m.logits(x)[:1]).logits(x))
assert must(vitrine.Error, "follows gradients", lambda: attack(f(m.logits, None))).name == "wrong usage"
must(vitrine.Error, "gives no gradients", lambda: f(m.logits, None).vjp(x, np.zeros((12, 10), np.float32)))
must(vitrine.Error, "not finite", lambda: attack(f(lambda x: m.logits(x) * np.nan)))
assert (attack(f(m.logits, None), "square:queries=20")[1]["outcome"] == attack(m, "square:queries=20")[1]["outcome"]).all()
assert (attack(f(m.logits, batch=1))[1]["pred"] == attack(m, "pgd:steps=3")[1]["pred"]).all()
END
}

@test "norms, radii and lists of attacks as Python writes them" {
    links
    script <<'END'
import copy, pickle
a = lambda *args, **k: vitrine.attack(m, x, y, *args, **k)
plain = a("pgd:steps=3", 4 / 255)
for norm in np.inf, float("inf"), "inf", "linf", None:
    got = a("pgd:steps=3", "4/255", norm=norm)
    assert (got[0] == plain[0]).all() and got[1].tobytes() == plain[1].tobytes()
for number, name in (2, "l2"), (1, "l1"), (2.0, "l2"), (0, "l0"):
    one, other = (a("square:queries=20" if name != "l0" else "sparse-rs:queries=20", 12, norm=n)[1] for n in (number, name))
    assert (one["outcome"] == other["outcome"]).all() and (one["l2"] == other["l2"]).all()
assert a(["fgsm", "pgd:steps=3"], 4 / 255)[1].tobytes() == a("fgsm+pgd:steps=3", 4 / 255)[1].tobytes()
must(ValueError, "norm is 3, must be", lambda: a("pgd", 0.1, norm=3))
must(ValueError, "norm is True, must be", lambda: a("pgd", 0.1, norm=True))
must(vitrine.Error, "norm is 'l7'", lambda: a("pgd", 0.1, norm="l7"))
must(ValueError, "eps is '4/0', must be a number, or a fraction", lambda: a("pgd", "4/0"))
must(ValueError, "eps is [0.1], must be", lambda: a("pgd", [0.1]))
must(ValueError, "give eps, or a threat", lambda: a("pgd"))
must(ValueError, "one or the other", lambda: a("pgd", norm="l2", threat="patch:size=8"))
must(vitrine.Error, "unknown attack", lambda: a(["fgsm", "pdg"], 0.1))
for eps, said in (-0.1, "eps is -0.1, must be above 0"), (8, "eps is 8, but linf eps"):
    text = str(must(vitrine.Error, said, lambda: a("pgd", eps)))
    assert text.startswith("eps"), text
r = vitrine.evaluate("weights/shapes10-vit", data="datasets/shapes10", images="0:4", attack="fgsm", eps="1/2", norm=2)
assert r.results["norm"] == "l2"
for handle in m, r:
    for f in copy.copy, copy.deepcopy, pickle.dumps:
        must(TypeError, "cannot be copied or pickled", lambda: f(handle))
type(m).__new__(type(m)).__del__()  # what a copy would begin with
must(ValueError, "the run is closed", lambda: [r.close(), r.entries])
v = plain[1]
assert type(v) is vitrine.Verdicts and v.success.dtype == bool and (v.success == (v["outcome"] == vitrine.BROKEN)).all()
assert v.success.any() and not v.success.all() and type(v["outcome"]) is np.ndarray and v[2:5].success.shape == (3,)
assert [vitrine.OUTCOMES[k] for k in v["outcome"]] == v.outcomes.tolist() and set(v.outcomes) <= set(vitrine.OUTCOMES)
assert pickle.loads(pickle.dumps(v)).tobytes() == v.tobytes()
END
    never grep -n 'Exception ignored' <<<"$output"
}

@test "targets, patches, 8 bits, and the judge on points of other programs" {
    links
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 0:12 --threat patch:size=12 --attack pgd:steps=5 --out run --no-selftest >/dev/null
    script <<'END'
x_adv, v = vitrine.attack(m, x, y, "pgd:steps=5", threat="patch:size=12")
assert (v["outcome"] == vitrine.read_run("run", frame=False)["pgd.outcome"]).all() and v.success.any()
assert vitrine.judge(m, x, x_adv, y, threat="patch:size=12").success[v.success].all()
small = vitrine.judge(m, x, x_adv, y, threat="patch:size=4")
assert (small["outcome"][v.success] == vitrine.INVALID).all()
to = (y + 1) % 10
x_adv, v = vitrine.attack(m, x, y, "pgd:steps=20", "16/255", targets=to)
assert v.success.any() and (v["pred"][v.success] == to[v.success]).all()
x_adv, v = vitrine.attack(m, x, y, "pgd:steps=5", "12/255", eight_bit=True)
assert v.success.any() and (np.rint(x_adv * 255) / np.float32(255) == x_adv).all()
theirs = np.clip(x + np.float32(8 / 255) * np.sign(m.vjp(x, -np.eye(10, dtype=np.float32)[y])), 0, 1)
assert theirs.dtype == np.float32 and np.abs(theirs.astype(float) - x).max() > 8 / 255
for threads in 1, 2:
    v = vitrine.judge(m, x, theirs, y, 8 / 255, threads=threads)
    assert set(v.outcomes) == {"robust", "broken"} and (v["linf"] > 8 / 255).any()
    assert "invalid" in vitrine.judge(m, x, theirs, y, 8 / 255, allowance=0, threads=threads).outcomes
all = vitrine.attacks()
assert vitrine.norms() == ["linf", "l2", "l1", "l0"] and all["pgd"]["gradients"] and not all["square"]["gradients"]
assert all["fgsm"]["norms"] and all["pgd"]["options"]["steps"]["type"] == "integer"
END
    python_attacks=$(PYTHONPATH=$ROOT/python VITRINE_LIBRARY=$(library)/libvitrine.so.0 /usr/bin/python3 -c 'import vitrine; print(*vitrine.attacks())')
    [ "$python_attacks" = "$("$VITRINE" list attacks | sed -n 's/^\([a-z][a-z0-9-]*\)  *[a-zA-Z].*/\1/p' | grep -vx -e under -e bounds | xargs)" ]
}

@test "tensors of torch are taken, and given back" {
    links
    if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then # a stand-in with what is used of it
        cat >torch.py <<'END'
import numpy
class Device(str): type = property(lambda self: self.split(":")[0])
class Tensor:
    def __init__(self, a, device="cpu"): self.a, self.device = a, Device(device)
    def detach(self): return self
    def numpy(self): return self.a
    def __dlpack__(self, **k): return self.a.__dlpack__()
    def __dlpack_device__(self): return 1, 0
    shape = property(lambda self: self.a.shape)
def from_numpy(a): return Tensor(a)
asarray = from_numpy
END
    fi
    script <<'END'
sys.path.insert(0, ".")
import torch
t, labels = torch.from_numpy(x.copy()), torch.from_numpy(y.astype(np.int64))
assert type(m.logits(t)) is torch.Tensor and (m.logits(t).numpy() == m.logits(x)).all()
dz = np.eye(10, dtype=np.float32)[y]
assert (m.vjp(t, torch.from_numpy(dz)).numpy() == m.vjp(x, dz)).all()
adv, v = vitrine.attack(m, t, labels, "pgd:steps=3", "4/255")
same, w = vitrine.attack(m, x, y, "pgd:steps=3", "4/255")
assert type(adv) is torch.Tensor and (adv.numpy() == same).all() and v.tobytes() == w.tobytes()
assert vitrine.judge(m, t, adv, labels, "4/255").success[v.success].all()
mine = vitrine.own(lambda x: torch.from_numpy(m.logits(x)), lambda x, dz: torch.from_numpy(m.vjp(x, dz)), 10, shape=(3, 32, 32))
assert (vitrine.attack(mine, x, y, "pgd:steps=3", "4/255")[1]["pred"] == w["pred"]).all()
class Mine(torch.Tensor): pass
mine = Mine(x.copy()) if torch.__file__.startswith(os.getcwd()) else t.as_subclass(Mine)
assert isinstance(m.logits(mine), torch.Tensor) and (m.logits(mine).numpy() == m.logits(x)).all()
class Elsewhere(torch.Tensor):
    device = type("D", (), {"type": "cuda", "__str__": lambda self: "cuda:0"})()
    def __dlpack_device__(self): return 2, 0
away = Elsewhere.__new__(Elsewhere)
must(TypeError, "x is on the device cuda:0: give x.cpu()", lambda: m.logits(away))
grey = vitrine.own(lambda x: np.stack([x.mean((1, 2, 3)), 1 - x.mean((1, 2, 3))], 1), None, 2, shape=(1, 28, 28))
g = np.full((3, 28, 28), 0.45, np.float32)
one, v = vitrine.attack(grey, g, [1, 1, 1], "square:queries=50", 0.2)
two, w = vitrine.attack(grey, g[:, None], [1, 1, 1], "square:queries=50", 0.2)
assert one.shape == g.shape and (one == two[:, 0]).all() and v.success.all() and (grey.logits(g) == grey.logits(g[:, None])).all()
must(ValueError, "must be [n, 1, 28, 28]", lambda: grey.logits(g[:, :, :27]))
must(ValueError, "must be [n, 3, 32, 32]", lambda: m.logits(x[:, 0]))
END
}

@test "arrays of other libraries are taken by DLPack, and given back by the array API standard" {
    links
    script <<'END'
class Space:
    @staticmethod
    def asarray(a): return Other(a)
class Other: # all that the two standards promise, and nothing of numpy's
    def __init__(self, a, device=1): self._a, self._device = a, device
    shape, dtype, device = (property(lambda self, k=k: getattr(self._a, k, "gpu:0")) for k in ("shape", "dtype", "device"))
    def __dlpack__(self, **k): return self._a.__dlpack__()
    def __dlpack_device__(self): return self._device, 0
    def __array_namespace__(self, **k): return Space
    def __array__(self, *k): raise AssertionError("asked as numpy's")
adv, v = vitrine.attack(m, Other(x.copy()), Other(y.copy()), "pgd:steps=3", "4/255")
same, w = vitrine.attack(m, x, y, "pgd:steps=3", "4/255")
assert type(adv) is Other and (adv._a == same).all() and v.tobytes() == w.tobytes()
assert type(m.logits(adv)) is Other and (m.logits(adv)._a == m.logits(same)).all()
assert (m.vjp(Other(x.copy()), Other(m.logits(x)))._a == m.vjp(x, m.logits(x))).all()
assert vitrine.judge(m, Other(x.copy()), adv, y, "4/255").success[v.success].all()
must(TypeError, "x is on the device gpu:0", lambda: m.logits(Other(x, device=2)))
must(TypeError, "x is float64, must be float32", lambda: m.logits(Other(x.astype(float))))
class Half(Other):
    def __dlpack__(self, **k): raise BufferError("no such type")
must(TypeError, "x is float32, which numpy cannot view: no such type", lambda: m.logits(Half(x)))
assert type(m.logits(list(x))) is np.ndarray and type(vitrine.attack(m, list(x), list(y), "fgsm", 0.01)[0]) is np.ndarray
END
}

@test "the package's types hold under mypy --strict, and catch wrong calls" {
    here mypy
    cat >user.py <<'END'
import numpy as np
import numpy.typing as npt
import vitrine
x: npt.NDArray[np.float32] = np.zeros((2, 3, 32, 32), np.float32)
with vitrine.load("w", heads=3) as m:
    z: npt.NDArray[np.float32] = m.logits(x)
    x_adv, v = vitrine.attack(m, x, [1, 2], ["pgd", "fgsm"], "8/255", norm=np.inf)
    back: npt.NDArray[np.float32] = x_adv
    broken: int = int(v.success.sum())
    vitrine.attack(m, x, [1, 2], 3, 0.1)
    vitrine.attack("w", x, [1, 2], "pgd", 0.1)
    word: str = m.logits(x)
    m.logits(3)
vitrine.own(lambda x: x, 5, 10, side=32)
END
    status=0
    MYPYPATH=$ROOT/python mypy --strict --cache-dir=cache -p vitrine >said 2>&1 || fail "$(cat said)"
    MYPYPATH=$ROOT/python mypy --strict --cache-dir=cache user.py >said 2>&1 || status=$?
    [ "$status" = 1 ]
    [ "$(sed -n 's/^user.py:\([0-9]*\): error.*/\1/p' said | uniq | xargs)" = "10 11 12 13 14" ] || fail "$(cat said)"
}

@test "arrays of another type, shape or range are refused before anything is computed" {
    links
    script <<'END'
must(TypeError, "float64, must be float32", lambda: m.logits(x.astype(float)))
must(TypeError, "uint8", lambda: m.logits(raw[:, 1:].reshape(-1, 3, 32, 32)))
must(ValueError, "must be [n, 3, 32, 32]", lambda: m.logits(x[0]))
must(ValueError, "must be [n, 3, 32, 32]", lambda: m.logits(x[:0]))
must(ValueError, "must be [n, 3, 32, 32]", lambda: m.logits(x.transpose(0, 2, 3, 1)))
assert (m.logits(np.asfortranarray(x)) == m.logits(x)).all() and (m.logits(x[::2]) == m.logits(x)[::2]).all()
must(ValueError, "cotangent is [12, 9]", lambda: m.vjp(x, np.zeros((12, 9), np.float32)))
must(ValueError, "must be 12 whole numbers", lambda: vitrine.attack(m, x, y[:5], "pgd", 0.01))
must(ValueError, "float64", lambda: vitrine.attack(m, x, y.astype(float), "pgd", 0.01))
must(ValueError, "beyond 32 bits", lambda: vitrine.attack(m, x, y.astype(np.int64) + 2**32, "pgd", 0.01))
must(vitrine.Error, "labels[0] is 105", lambda: vitrine.attack(m, x, y + 100, "pgd", 0.01))
must(vitrine.Error, "must be in [0,1]", lambda: vitrine.attack(m, x * 255, y, "pgd", 0.01))
must(vitrine.Error, "unknown attack", lambda: vitrine.attack(m, x, y, "nothing", 0.01))
must(vitrine.Error, "nowhere", lambda: vitrine.load("nowhere"))
must(vitrine.Error, "unknown option 'head'", lambda: vitrine.load("weights/shapes10-vit", head=2))
must(vitrine.Error, "unknown option 'atack'", lambda: vitrine.evaluate("weights/shapes10-vit", data="datasets/shapes10", atack="pgd"))
must(vitrine.Error, "holds no run", lambda: vitrine.read_run("nowhere"))
must(vitrine.Error, "nowhere.yaml", lambda: vitrine.train("nowhere.yaml", data="datasets/shapes10", out="o"))
m.close()
must(ValueError, "closed", lambda: m.logits(x))
m.close()
END
}

@test "calls of Python see each image; what they raise ends the run, which can be gone on from" {
    links
    script <<'END'
class Enough(Exception): pass
seen = []
def told(entry, v):
    seen.append((entry, int(v["image"])))
    if len(seen) == 15: raise Enough("enough")
go = lambda **k: vitrine.evaluate("weights/shapes10-vit", data="datasets/shapes10", images="0:12", attack="pgd:steps=3",
                                  eps="4/255", out="run", resume=True, threads=1, **k)
must(Enough, "enough", lambda: go(on_verdict=told))
left = vitrine.read_run("run", frame=False)
assert (left["pgd.outcome"] == -1).any()
texts = []
r = go(on_verdict=lambda entry, v: seen.append((entry, int(v["image"]))), say=texts.append)
assert len(set(seen)) == len(seen) and len([s for s in seen if s[0] == 0]) == 12
v = r.verdicts("pgd")
assert (v["outcome"] >= 0).all() and texts
broken = v["image"][v["outcome"] == vitrine.BROKEN]
point = r.adversarial("pgd", int(broken[0]))
assert point.shape == (3, 32, 32) and 0 < np.abs(point - x[broken[0]]).max() <= 4 / 255
must(KeyError, "0 of the entries", lambda: r.verdicts("fgsm"))
END
}

@test "Ctrl-C ends an attack" {
    links
    { echo "$HEAD"; cat; } >script.py <<'END'
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler) # a parent may have had it ignored
def interrupt():
    while threading.active_count() < 3: time.sleep(0.01) # main, this one and the attack's
    os.kill(os.getpid(), signal.SIGINT)
try:
    threading.Thread(target=interrupt, daemon=True).start()
    vitrine.attack(m, x, y, "square:queries=10000000", 1 / 255)
except KeyboardInterrupt:
    print("ended")
END
    [ "$(PYTHONPATH=$ROOT/python VITRINE_LIBRARY=$(library)/libvitrine.so.0 timeout 60 /usr/bin/python3 script.py)" = ended ]
}

@test "signals wait while logits are computed, and are taken behind them" {
    links
    script <<'END'
import signal
signal.signal(signal.SIGINT, signal.default_int_handler) # a parent may have had it ignored
held = lambda: signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
call, ended = vitrine._library.call, []
def call_interrupted(*args): # the signal comes just before the library computes
    assert held()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    call(*args)
    ended.append(args[0])
vitrine._library.call = call_interrupted
try:
    m.logits(x)
    raise AssertionError("the signal was lost")
except KeyboardInterrupt:
    assert ended == ["logits"] and not held()
END
}

@test "a library that is not there is a sentence" {
    run env PYTHONPATH="$ROOT/python" VITRINE_LIBRARY=/nowhere/lib.so /usr/bin/python3 -c 'import vitrine'
    [ "$status" = 1 ]
    grep -q "ImportError: vitrine's library cannot be loaded" <<<"$output"
}

@test "a run is a pandas frame where pandas is installed" {
    links
    "$VITRINE" eval weights/shapes10-vit --data datasets/shapes10 --images 0:6 --eps 4/255 --attack fgsm --out run --no-selftest >/dev/null
    if ! /usr/bin/python3 -c 'import pandas' 2>/dev/null; then # a stand-in that keeps what it was given
        echo 'class DataFrame(dict): columns = property(lambda self: list(self))' >pandas.py
    fi
    script <<'END'
sys.path.insert(0, ".")
f = vitrine.read_run("run")
import pandas
assert type(f) is pandas.DataFrame and "fgsm.outcome" in f.columns and len(f["image"]) == 6
assert type(vitrine.read_run("run", frame=False)) is dict
END
}
