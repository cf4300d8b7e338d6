# SPDX-License-Identifier: MIT
"""A model in this process, for vitrine --oracle: the other side of docs/oracle.md in one file.

    import vitrine_oracle
    vitrine_oracle.serve_torch(net, classes=10, shape=(3, 32, 32))        # any torch.nn.Module or callable
    vitrine_oracle.serve_jax(fn, classes=10, shape=(3, 32, 32))           # any function of a batch
    vitrine_oracle.serve(logits, vjp, classes=10, shape=(3, 32, 32))      # a pair of plain functions on numpy arrays

Images come as float32 [rows, channels, height, width] in [0, 1]: mean and std are the model's own business. Needs Python
3.7 and numpy. Standard input and output are the connection. Where vitrine started this process (it sets VITRINE_ORACLE), what
is printed after this file was imported goes to standard error, so import it first; elsewhere importing it changes nothing.
"""

import array
import copy
import errno
import hashlib
import json
import mmap
import os
import pickle
import socket
import stat
import struct
import sys
import time

import numpy as np

PROTOCOL = 1
MAGIC = 0x31525456
HELLO, SHARE, LOGITS, VJP, LOGITS64, ERROR = range(1, 7)
KEEP = 1
HEAD = struct.Struct("<IIIIIIQ")  # magic, op, id, rows, flags, zero, bytes
TEXT_MOST = 65536
BATCH_MOST = 1024
SIZES = 8, 16, 32, 64  # of a batch on a processor, one of which is measured to be the best
SECONDS = 2.0  # that this takes at most
_ends = None


def take_over():
    """Standard input and output, where they are a connection: from now on prints go to standard error. The connection's
    two descriptors, the same ones each time; None: there is none."""
    global _ends
    if _ends:
        return _ends
    try:
        kinds = [os.fstat(fd).st_mode for fd in (0, 1)]
    except OSError:
        return None
    if not all(stat.S_ISSOCK(k) or stat.S_ISFIFO(k) for k in kinds):
        return None
    _ends = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return _ends


if os.environ.pop("VITRINE_ORACLE", None):  # vitrine's child: prints while a model is loaded must not break the conversation
    take_over()


def say(text):
    print("vitrine_oracle: " + text, file=sys.stderr, flush=True)


def one_line(why):
    """An exception as a sentence without ends of lines."""
    return "; ".join(part for part in ("%s: %s" % (type(why).__name__, why)).split("\n") if part.strip())


class Refused(Exception):
    """What was asked is no question of the protocol."""


class Connection:
    """Bytes over a socket or two pipes; memory that vitrine shares, where it does."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        try:
            self.socket = socket.socket(fileno=os.dup(reader))
            self.socket.setblocking(True)
        except OSError:
            self.socket = None  # a pipe: vitrine is behind ssh
        self.memory = None
        self.rows = 0
        self.passed = []

    def some(self, n):
        if self.socket is None:
            return os.read(self.reader, n)
        data, control, _, _ = self.socket.recvmsg(n, socket.CMSG_SPACE(4))
        for level, kind, value in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(value[: len(value) - len(value) % fds.itemsize])
                self.passed += list(fds)
        return data

    def read(self, n, may_end=False):
        """Exactly n bytes; None where the other side has gone and that is allowed."""
        parts, left = [], n
        while left:
            data = self.some(min(left, 1 << 20))
            if not data:
                if may_end and left == n:
                    return None
                raise Refused("the conversation ended in the middle of a question")
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def write(self, data):
        view = memoryview(data).cast("B")
        while len(view):
            view = view[os.write(self.writer, view) :]

    def answer(self, op, question, data=b"", flags=0):
        data = memoryview(data).cast("B") if len(data) else b""
        self.write(HEAD.pack(MAGIC, op, question, 0, flags, 0, len(data)))
        self.write(data)


def layout(rows, pixels, classes):
    """Offsets in shared memory: x, dx, z, dz, z64, and all of it."""
    up = lambda n: (n + 63) // 64 * 64
    x = 0
    dx = up(rows * pixels * 4)
    z = 2 * dx
    dz = z + up(rows * classes * 4)
    z64 = dz + up(rows * classes * 4)
    return x, dx, z, dz, z64, z64 + up(rows * classes * 8)


class Packer:
    """Leaves rows that nobody asks for out of a batch, where that does not change a bit of the others.

    A batch of R rows is computed as one of fewer only after noise images have had the same bits in both, each row at another
    place than before: on a processor that is a property of the two sizes, not of the images. Logits alone and logits
    with vjp are tried each for themselves. A trial waits until as many rows as it costs have been computed for nobody."""

    TRIES = 2

    def __init__(self, logits, vjp, classes):
        self.whole_logits, self.whole_vjp, self.classes = logits, vjp, classes
        self.same = {}  # (rows, fewer, keep): the bits are
        self.idle = 0  # rows computed for nobody, that no trial has used up
        self.at, self.size = None, 0  # of the kept batch: where its rows stood, and how many were computed
        self.warned = False

    def answers(self, x, dz, keep):
        z = np.array(self.whole_logits(x, keep))
        return [z] + ([np.array(self.whole_vjp(dz))] if keep and self.whole_vjp else [])

    def trial(self, shape, rows, fewer, keep):
        draw = np.random.RandomState(rows * BATCH_MOST + fewer)
        for _ in range(self.TRIES):
            x = draw.random_sample((rows,) + shape).astype(np.float32)
            dz = draw.standard_normal((rows, self.classes)).astype(np.float32)
            some = draw.permutation(rows)[:fewer]
            whole = self.answers(x, dz, keep)
            try:
                few = self.answers(x[some], dz[some], keep)
            except Exception:  # a model that takes one number of rows alone
                return False
            if not all(a[some].tobytes() == b.tobytes() for a, b in zip(whole, few)):
                return False
        return True

    def fits(self, shape, rows, fewer, keep):
        key, cost = (rows, fewer, keep), self.TRIES * (rows + fewer)
        if key not in self.same and self.idle >= cost:
            self.idle -= cost
            self.same[key] = self.trial(shape, rows, fewer, keep)
        return self.same.get(key, False)

    def size_of(self, shape, rows, asked, keep):
        """Not every number of rows: each has to be tried."""
        for n in range(max(asked, 1), rows):
            if (n <= 8 or n % 4 == 0) and self.fits(shape, rows, n, keep):
                return n
        return rows

    def place_matters(self, shape, rows, keep):
        key = rows, rows, keep
        if rows > 1 and key not in self.same:
            self.same[key] = self.trial(shape, rows, rows, keep)
        return rows > 1 and not self.same[key]

    def place_said(self, shape, rows, keep):
        matters = self.place_matters(shape, rows, keep)
        if matters and not self.warned:
            self.warned = True
            say("in a batch of %d an image's last bits depend on its place, so that they may differ between "
                "runs of several threads, or resumed ones; another batch= may be free of that" % rows)
        return matters

    def logits(self, x, keep, mask):
        at, rows, shape = np.flatnonzero(mask), len(mask), x.shape[1:]
        if len(at) < rows and not self.place_said(shape, rows, keep):
            self.idle += rows - len(at)
            size = self.size_of(shape, rows, len(at), keep)
        else:
            size = rows
        if keep:
            self.at, self.size = at, size
        if size == rows:
            return self.whole_logits(x, keep)
        few = np.zeros((size,) + shape, np.float32)
        few[: len(at)] = x[at]
        return self.spread(self.whole_logits(few, keep), at, rows)

    def vjp(self, dz, mask):
        if self.size == len(mask):
            return self.whole_vjp(dz)
        if mask.sum() != mask[self.at].sum():
            raise Refused("a vjp of a row that was not kept")
        few = np.zeros((self.size, self.classes), np.float32)
        few[: len(self.at)] = dz[self.at]
        return self.spread(self.whole_vjp(few), self.at, len(mask))

    @staticmethod
    def spread(few, at, rows):
        few = np.asarray(few)
        whole = np.zeros((rows,) + few.shape[1:], few.dtype)
        whole[at] = few[: len(at)]
        return whole


def whole_labels(value, classes):
    """The labels that a model gave as u32; Refused: they are no whole numbers from 0 to classes - 1."""
    value = np.asarray(value)
    if value.dtype.kind not in "iu" or (value.size and not (0 <= value.min() and value.max() < classes)):
        raise Refused("the model's labels must be whole numbers from 0 to %d" % (classes - 1))
    return value.astype(np.uint32)


class Server:
    def __init__(self, connection, logits, vjp, logits64, hello, pack=False, measured=False):
        self.measured = measured  # the usual size of a batch is, where vitrine asks for that
        self.io, self.logits, self.vjp, self.logits64, self.hello = connection, logits, vjp, logits64, hello
        self.shape = (hello["channels"], hello["height"], hello["width"])
        self.pixels, self.classes = int(np.prod(self.shape)), hello["classes"]
        self.labels = hello.get("labels", False)
        self.packer = Packer(logits, vjp, self.classes) if pack and not hello["random"] and not self.labels else None
        self.kept = 0  # rows of the batch that was kept
        self.views = None

    def share(self, rows):
        fds, self.io.passed = self.io.passed, []
        x, dx, z, dz, z64, size = layout(rows, self.pixels, self.classes)
        self.views = None
        try:
            if rows and len(fds) == 1 and os.fstat(fds[0]).st_size == size:
                self.io.memory = mmap.mmap(fds[0], size)
                at = lambda offset, kind, *shape: np.frombuffer(
                    self.io.memory, kind, int(np.prod(shape)), offset
                ).reshape(shape)
                self.views = {
                    "x": at(x, np.float32, rows, *self.shape),
                    "dx": at(dx, np.float32, rows, *self.shape),
                    "z": at(z, np.float32, rows, self.classes),
                    "dz": at(dz, np.float32, rows, self.classes),
                    "z64": at(z64, np.float64, rows, self.classes),
                    "labels": at(z, np.uint32, rows),
                }
                self.io.rows = rows
        finally:
            for fd in fds:
                os.close(fd)

    def take(self, op, rows, size):
        """The rows of a question, those that nobody asks for zero, and which were asked for."""
        if not 0 < rows <= self.hello["batch"] or (self.views is not None and rows > self.io.rows):
            raise Refused("a batch of another size than was greeted with")
        shape = (self.classes,) if op == VJP else self.shape
        each = int(np.prod(shape)) * 4
        if size < rows:
            raise Refused("a message of another length than its rows have")
        mask = np.frombuffer(self.io.read(rows), np.uint8) != 0
        asked = int(mask.sum())
        if size != rows + (0 if self.views is not None else asked * each):
            raise Refused("a message of another length than its rows have")
        if self.views is not None:
            return self.views["dz" if op == VJP else "x"][:rows], mask
        data = np.zeros((rows,) + shape, np.float32)
        data[mask] = np.frombuffer(self.io.read(asked * each), np.float32).reshape((asked,) + shape)
        return data, mask

    def give(self, op, question, name, value, mask, kind):
        value = np.asarray(value)
        want = (len(mask),) + (self.shape if op == VJP else () if self.labels else (self.classes,))
        if value.shape != want:
            raise Refused("the model answered with shape %s, must be %s" % (value.shape, want))
        if self.views is not None:
            self.views[name][: len(mask)] = value
            return self.io.answer(op, question)
        self.io.answer(op, question, np.ascontiguousarray(value[mask], kind))

    def seconds(self, rows):
        """Of the processor, and by the clock: what logits and vjps of so many noise images cost. On a busy machine the clock
        is against long calls."""
        draw = np.random.RandomState(rows)
        x = draw.random_sample((rows,) + self.shape).astype(np.float32)
        dz = draw.standard_normal((rows, self.classes)).astype(np.float32)
        spent, began = time.process_time(), time.perf_counter()
        self.logits(x, self.vjp is not None)
        if self.vjp:
            self.vjp(dz)
        return time.process_time() - spent, time.perf_counter() - began

    def cheapest(self, cost):
        """The smallest size that costs hardly more an image than the cheapest, of those in which its place does not matter."""
        while cost:
            n = min(n for n in cost if cost[n] <= 1.1 * min(cost.values()))
            if not (self.packer and self.packer.place_matters(self.shape, n, True)):
                return n
            del cost[n]
        return SIZES[0]

    def best_size(self):
        """Of SIZES; the smallest where the model is too slow to be measured, or fails."""
        began, cost = time.perf_counter(), {}
        try:
            self.seconds(1)
            each = self.seconds(1)[1]
            for size in 8 * SIZES:
                if time.perf_counter() - began + size * each > SECONDS:
                    break
                spent, passed = self.seconds(size)
                cost[size] = min(cost.get(size, np.inf), spent / size)
                each = passed / size
            usual = self.cheapest(dict(cost))
        except Exception:  # a model that takes one number of rows alone: the first question shows it
            return SIZES[0]
        if len(cost) > 1:
            say("batches of %d, unless --batch or batch= says another number (an image costs %s)" % (
                usual, ", ".join("%.3g ms in %d" % (1e3 * cost[n], n) for n in sorted(cost))))
        return usual

    def one(self, op, question, rows, flags, size):
        if op == HELLO:
            if size > TEXT_MOST:
                raise Refused("a greeting of more than %d bytes" % TEXT_MOST)
            asked = json.loads(self.io.read(size).decode() or "{}")
            usual = {"usual": self.best_size() if asked.get("measure") else SIZES[0]} if self.measured else {}
            self.io.answer(HELLO, question, json.dumps(dict(self.hello, protocol=PROTOCOL, **usual)).encode())
        elif op == SHARE:
            if size or not 0 < rows <= BATCH_MOST:
                raise Refused("no memory to share")
            self.share(rows)
            self.io.answer(SHARE, question, flags=self.views is not None)
        elif op == LOGITS:
            x, mask = self.take(op, rows, size)
            keep = bool(flags & KEEP)
            z = self.packer.logits(x, keep, mask) if self.packer else self.logits(x, keep)
            if keep:
                self.kept = rows
            if self.labels:
                z = whole_labels(z, self.classes)
            self.give(op, question, "labels" if self.labels else "z", z, mask, np.uint32 if self.labels else np.float32)
        elif op == VJP and self.hello["vjp"]:
            dz, mask = self.take(op, rows, size)
            if rows != self.kept:
                raise Refused("a vjp of what was not kept")
            dx = self.packer.vjp(dz, mask) if self.packer else self.vjp(dz)
            self.give(op, question, "dx", dx, mask, np.float32)
        elif op == LOGITS64 and self.hello["logits64"]:
            x, mask = self.take(op, rows, size)
            self.give(op, question, "z64", self.logits64(x), mask, np.float64)
        else:
            raise Refused("no question that is known")

    def run(self):
        while True:
            head = self.io.read(HEAD.size, may_end=True)
            if head is None:
                return
            magic, op, question, rows, flags, zero, size = HEAD.unpack(head)
            try:
                if magic != MAGIC or zero:
                    raise Refused("no message of the protocol")
                self.one(op, question, rows, flags, size)
            except BrokenPipeError:
                return
            except Exception as why:  # the sentence goes to vitrine, the whole story to standard error
                self.io.answer(ERROR, question, one_line(why).encode()[:600])
                raise


def listening(path):
    """A socket there. One that a killed server left is taken over, one that answers is not."""
    s = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)  # no other user may ask
    try:
        if os.path.exists(path) and stat.S_ISSOCK(os.lstat(path).st_mode):
            with socket.socket(socket.AF_UNIX) as old:
                if old.connect_ex(path) != errno.ECONNREFUSED:
                    raise SystemExit("unix:%s: another process answers there: stop it, or take another path" % path)
            os.unlink(path)
        s.bind(path)
    except OSError as why:
        raise SystemExit("unix:%s: cannot listen there: %s" % (path, why.strerror or why))
    finally:
        os.umask(mask)
    return s


def listen(address):
    """unix:PATH or tcp:PORT of this machine: one conversation after another."""
    if address.startswith("unix:"):
        s = listening(address[5:])
    else:
        s = socket.create_server(("127.0.0.1", int(address.split(":", 1)[1])))
    s.listen(8)
    print("listening at %s" % address, file=sys.stderr)
    while True:
        talk, _ = s.accept()
        yield talk


def serve(logits, vjp=None, *, classes, shape, batch=8, name="model", sha256="", logits64=None, random=False,
          independent=False, precision="float32", library="", device="", note="", address=None, pack=False, labels=False):
    """Answers vitrine until it goes away.

    logits(x, keep): x [rows, *shape] float32 -> [rows, classes]; keep: a vjp of this very batch may follow.
    vjp(dz): dz [rows, classes] -> [rows, *shape], the product of dz with the Jacobian of the batch that was kept last.
    batch: rows at most; None: 64, and where vitrine has no --batch, of 8, 16, 32 and 64 the best as measured on this model, in
    2 seconds at most. Where rows depend on each other's number, every batch is computed whole. logits64(x): the same as logits in double, or None. random: asked again it answers otherwise. independent: the bits of
    a row never depend on the other rows or on their number. pack: rows that nobody asks for are left out of a batch wherever a
    trial shows the bits of the others to stay as they are (class Packer); for models that answer any number of rows.
    labels: logits(x, keep) gives classes alone, whole numbers [rows]; only attacks that need no more run."""
    if labels and (vjp or logits64):
        raise ValueError("a model of labels alone has neither vjp nor logits64")
    channels, height, width = shape
    hello = dict(name=name, classes=classes, channels=channels, height=height, width=width, batch=batch or SIZES[-1],
                 vjp=vjp is not None, logits64=logits64 is not None, random=random, independent=independent,
                 precision=precision, library=library, device=device, note=note)
    if sha256:
        hello["sha256"] = sha256
    if labels:
        hello["labels"] = True
    if address:
        for talk in listen(address):
            try:
                Server(Connection(talk.fileno(), talk.fileno()), logits, vjp, logits64, hello, pack, not batch).run()
            except Exception as why:
                print("%s: %s" % (type(why).__name__, why), file=sys.stderr)
            talk.close()
    if take_over() is None:
        raise SystemExit("start this as the command of vitrine eval --oracle 'python3 %s', or give serve an address" % sys.argv[0])
    Server(Connection(*_ends), logits, vjp, logits64, hello, pack, not batch).run()


def tensor_bytes(value):
    """Of a tensor of any type; of what else a state dict may hold, its pickle."""
    import torch

    if not isinstance(value, torch.Tensor) or value.is_quantized or value.is_sparse:
        return pickle.dumps(value, 4)
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def state_sha256(state):
    """Of a torch state dict: names, types, shapes and bytes of its tensors, in the order of the names."""
    h = hashlib.sha256()
    for key in sorted(state):
        t = state[key]
        h.update(("%s %s %s\n" % (key, getattr(t, "dtype", type(t)), tuple(getattr(t, "shape", ())))).encode())
        h.update(tensor_bytes(t))
    return h.hexdigest()


def logits_in(answer, tensor):
    """The tensor in a model's answer that is taken for its logits, and which that is: what it calls logits, else the first
    in it, however deep it lies; None: there is none."""
    if isinstance(answer, tensor):
        return answer, "the first tensor in it is"
    named = answer.get("logits") if isinstance(answer, dict) else getattr(answer, "logits", None)
    if isinstance(named, tensor):
        return named, "its 'logits' is" if isinstance(answer, dict) else "its .logits is"
    parts = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, (tuple, list)) else ()
    found = [logits_in(part, tensor) for part in parts]
    found = [f for f in found if f]
    return next((f for f in found if "logits" in f[1]), found[0] if found else None)


def logits_of(answer, tensor, said):
    """The logits in a model's answer: itself, or logits_in it. said: a list, not empty once it was said which."""
    if isinstance(answer, tensor):
        return answer
    found = logits_in(answer, tensor)
    if not found:
        raise Refused("the model answered with a %s, which holds no tensor" % type(answer).__name__)
    if not said:
        said.append(found[1])
        say("the model answers with a %s: %s taken for the logits" % (type(answer).__name__, found[1]))
    return found[0]


def double_copy(model, shape, said):
    """A copy of a Module in double, if it answers for an image in double; else None, and a line that says why."""
    import torch

    x = torch.full((1,) + tuple(shape), 0.5)
    try:
        with torch.no_grad():
            model(x)  # weights that are made of others (weight_norm) are made anew without gradients, and can be copied then
            double = copy.deepcopy(model).double()
            z = logits_of(double(x.double()), torch.Tensor, said)
        if z.dtype == torch.float64:
            return double
        why = "it answers in %s" % z.dtype
    except Exception as failed:
        why = one_line(failed)
    say("the model has no copy in double, so its own precision judges (%.200s); double=False does without the try" % why)
    return None


def serve_torch(model, *, classes, shape, device="cpu", double=None, batch=None, **more):
    """model: a torch.nn.Module, which is put into eval mode, or any callable of a batch, whose answer is a tensor of logits,
    or an object, tuple or dict that holds one. double: a copy in double, for verdicts; None: one is made where the model
    is a Module on the CPU and can be copied so, which is tried on one image; False: none. Autocast is off; TF32 is left as
    it is set and said. batch: None is 64, and on the CPU the size that is measured to be the best (serve)."""
    import torch

    module = isinstance(model, torch.nn.Module)
    cpu = torch.device(device).type == "cpu"
    said = []
    if module:
        model = model.to(device).eval()
        for p in model.parameters():
            p.requires_grad_(False)
        more.setdefault("sha256", state_sha256(model.state_dict()))
    if double is None and module and cpu:
        double = double_copy(model, shape, said)
    kept = {}

    def logits(x, keep):
        t = torch.tensor(x, device=device)
        with torch.autocast(torch.device(device).type, enabled=False), torch.set_grad_enabled(keep):
            if keep:
                t.requires_grad_(True)
            z = logits_of(model(t), torch.Tensor, said)
            if keep:
                kept["x"], kept["z"] = t, z
            return z.detach().float().cpu().numpy()

    def vjp(dz):
        dz = torch.tensor(dz, device=device, dtype=kept["z"].dtype)
        (dx,) = torch.autograd.grad(kept["z"], kept["x"], dz, retain_graph=True)
        return dx.float().cpu().numpy()

    def logits64(x):
        with torch.no_grad():
            z = double(torch.tensor(x, device=device).double())
            return logits_of(z, torch.Tensor, said).cpu().numpy()

    tf32 = torch.device(device).type == "cuda" and (
        torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    )
    more.setdefault("library", "torch " + torch.__version__)
    more.setdefault("precision", "float32, TF32" if tf32 else "float32")
    more.setdefault("pack", cpu)
    where = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else "cpu"
    more.setdefault("device", where[:59])
    serve(logits, vjp, classes=classes, shape=shape, logits64=logits64 if double else None,
          batch=batch or (None if cpu else 64), **more)


def serve_jax(fn, *, classes, shape, **more):
    """fn: a function of a batch [rows, *shape] that jax can differentiate."""
    import jax

    kept = {}
    plain = jax.jit(fn)

    def logits(x, keep):
        if not keep:
            return np.asarray(plain(np.array(x)), np.float32)
        z, kept["vjp"] = jax.vjp(fn, jax.numpy.array(x))
        kept["dtype"] = z.dtype
        return np.asarray(z, np.float32)

    def vjp(dz):
        (dx,) = kept["vjp"](jax.numpy.array(dz, kept["dtype"]))
        return np.asarray(dx, np.float32)

    more.setdefault("batch", 8 if jax.default_backend() == "cpu" else 64)
    more.setdefault("library", "jax " + jax.__version__)
    more.setdefault("device", str(jax.devices()[0])[:59])
    serve(logits, vjp, classes=classes, shape=shape, **more)
