#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a wheel: the Python package with libvitrine, the command, the libraries that they need, and their licences.

    tools/wheel.py [--stored] OUT FOLDER [LEVEL=FOLDER ...]

OUT gets vitrine-*.whl; OUT/stage, what it was made of. FOLDER is one that make fills (BUILD): vitrine and
release/libvitrine.so.0, for any processor; LEVEL is x86-64-v3 or x86-64-v4, built for these. --stored: not compressed.
The platform is computed from the versioned symbols that the files need: manylinux_2_N runs where glibc is 2.N or later.
Carried libraries get names of their own, so that no other library of the process takes their place; what a manylinux
system has (PEP 600) is not carried. Needs Debian's dpkg, gcc, binutils, patchelf, python3-setuptools, python3-wheel."""
import hashlib
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# the C library and the runtime of gcc, which every glibc system has (PEP 600)
SYSTEM = re.compile(r"(lib(c|m|mvec|dl|rt|pthread|util|gcc_s|stdc\+\+)|ld-linux[-a-z0-9_]*)\.so\.\d+")
# The newest versions that the runtime of gcc has on systems of that glibc: 2.N, GLIBCXX_3.4.x, CXXABI_1.3.x, GCC_x
RUNTIME = [(28, 24, 11, 7), (31, 28, 12, 7), (34, 29, 13, 7), (35, 30, 13, 12), (39, 33, 15, 14)]


class Refused(Exception):
    """One sentence for the user."""


def output(*command):
    """What a command prints; Refused: it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    except FileNotFoundError:
        raise Refused("%s is not installed: tools/deps.sh --install python" % command[0]) from None
    if done.returncode:
        raise Refused("%s: %s" % (" ".join(command[:3]), (done.stderr or done.stdout).strip().split("\n")[-1]))
    return done.stdout


def needed(path):
    """Names of the libraries that a file asks the loader for."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path))


def closure(paths):
    """{name: file} of all libraries that these files need and that are to be carried."""
    found, todo = {}, list(paths)
    while todo:
        path = todo.pop()
        places = dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", path), re.M))
        for name in needed(path):
            if SYSTEM.fullmatch(name) or name in found:
                continue
            if name not in places:
                raise Refused("%s needs %s, which is not on this machine" % (path, name))
            found[name] = os.path.realpath(places[name])
            todo.append(found[name])
    return found


def platform_of(paths):
    """manylinux_2_N_MACHINE: the oldest glibc that has what these files ask of it and of gcc's runtime."""
    least = 17
    for path in paths:
        for kind, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)", output("readelf", "-V", path)):
            n = [int(x) for x in version.split(".")]
            if kind == "GLIBC":
                least = max(least, n[1])
                continue
            column = ("GLIBCXX", "CXXABI", "GCC").index(kind) + 1
            wanted = n[0] if kind == "GCC" else n[2] if len(n) > 2 else 0
            fits = [row[0] for row in RUNTIME if row[column] >= wanted]
            if not fits:
                raise Refused("%s needs %s_%s: no system of tools/wheel.py's table has it" % (path, kind, version))
            least = max(least, fits[0])
    return "manylinux_2_%d_%s" % (least, os.uname().machine)


def put(source, target, mode=0o644):
    """A copy, in folders made for it."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, mode)


def package_of(path):
    """(Debian package, its source's version, its source) of a file."""
    for p in (path, re.sub("^/usr", "", path)):  # a file of a merged /usr goes by its old name
        try:
            package = output("dpkg", "-S", p).split("\n")[0].rsplit(": ", 1)[0].split(",")[0]
        except Refused:
            continue
        return output("dpkg-query", "-W", "-f", "${Package} ${source:Version} ${source:Package}", package).split(" ")
    raise Refused("%s is of no Debian package: its licence is not known" % path)


def put_licences(stage, libraries):
    """The copyright file of each library's package, the licences that these refer to, vitrine's, and a list of it all."""
    licences, rows, common = os.path.join(stage, "licences"), [], set()
    put(os.path.join(HERE, "LICENSE"), os.path.join(licences, "LICENSE"))
    for name, (source, carried) in sorted(libraries.items()):
        package, version, origin = package_of(source)
        rows.append("%s\t%s\t%s\t%s" % (carried, package, version, origin))
        notice = os.path.join("/usr/share/doc", package, "copyright")
        if not os.path.exists(notice):
            raise Refused("%s, the licence of %s, is not there" % (notice, name))
        put(notice, os.path.join(licences, "copyright." + package))
        with open(notice, encoding="utf-8", errors="replace") as f:
            common.update(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])", f.read()))
    for name in sorted(common):
        if os.path.exists("/usr/share/common-licenses/" + name):
            put("/usr/share/common-licenses/" + name, os.path.join(licences, "common." + name))
    with open(os.path.join(licences, "LIBRARIES"), "w", encoding="utf-8") as f:
        f.write("Libraries in vitrine/lib, unchanged but for their names and where they look for each other. Their sources are\n"
                "Debian's (`apt-get source SOURCE=VERSION`, snapshot.debian.org); copyright.PACKAGE is the licence of each, and\n"
                "what it calls /usr/share/common-licenses/X is common.X.\n\nfile\tpackage\tversion\tsource\n")
        f.write("\n".join(rows) + "\n")


def lay_libraries(stage, programs):
    """Lays programs {where: (file, mode)} into the package, and what they need into vitrine/lib, and points all at it.
    Returns {name: (file, name in the wheel)} of the carried libraries."""
    lib, package = os.path.join(stage, "vitrine", "lib"), os.path.join(stage, "vitrine")
    libraries = {}
    for name, source in closure(p for p, _ in programs.values()).items():
        with open(source, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()[:8]
        stem, so, rest = name.partition(".so")
        libraries[name] = source, "%s-%s%s%s" % (stem, digest, so, rest)
        put(source, os.path.join(lib, libraries[name][1]), 0o755)
    for where, (source, mode) in programs.items():
        put(source, os.path.join(package, where), mode)
        output("strip", "--strip-unneeded", os.path.join(package, where))
    carried = [os.path.join(lib, c) for _, c in libraries.values()]
    for path in carried + [os.path.join(package, where) for where in programs]:
        way = "$ORIGIN/" + os.path.relpath(lib, os.path.dirname(path))
        renamed = [w for n in needed(path) if n in libraries for w in ("--replace-needed", n, libraries[n][1])]
        named = ["--set-soname", os.path.basename(path)] if path in carried else []
        # one kind of change a call: patchelf 0.14 confuses the names of several
        for change in named, renamed, ["--set-rpath", way]:
            if change:
                output("patchelf", *change, path)
    # what Python opens: asks the loader for libvitrine.so.0, which takes the best of glibc-hwcaps. glibc 2.41 opens
    # nothing that wants an executable stack, as a library without code of its own does unless told
    output("gcc", "-shared", "-nostdlib", "-Wl,--no-as-needed,--enable-new-dtags,-z,noexecstack,-rpath,$ORIGIN", "-o",
           os.path.join(lib, "libvitrine-best.so"), os.path.join(lib, "libvitrine.so.0"))
    return libraries


def programs_of(base, levels):
    """{place in the package: (file, mode)} of the command and the library, for any processor and for each level."""
    found = {}
    for level, folder in [("", base)] + levels:
        command, library = os.path.join(folder, "vitrine"), os.path.join(folder, "release", "libvitrine.so.0")
        for path in (command, library):
            if not os.path.exists(path):
                raise Refused("%s is not there: `make all shared` builds it" % path)
        found[os.path.join("libexec/vitrine", level, "vitrine") if level else "bin/vitrine"] = command, 0o755
        found[os.path.join("lib/glibc-hwcaps" if level else "lib", level, "libvitrine.so.0")] = library, 0o755
    return found


def build(stage, out, tag, stored):
    """Runs setuptools in the stage; returns the wheel's path."""
    options = ["--plat-name", tag] + (["--compression=stored"] if stored else [])
    script = "import sys\nfrom setuptools import build_meta\nprint(build_meta.build_wheel(sys.argv[1], {'--build-option': sys.argv[2:]}))"
    done = subprocess.run(["/usr/bin/python3", "-c", script, os.path.abspath(out)] + options, cwd=stage, capture_output=True, text=True)
    if done.returncode:
        raise Refused("setuptools: %s" % (done.stderr.strip() or done.stdout.strip()).split("\n")[-1])
    return os.path.join(out, done.stdout.strip().split("\n")[-1])


def main(words):
    stored = "--stored" in words
    words = [w for w in words if w != "--stored"]
    if len(words) < 2 or any(w.startswith("-") for w in words):
        raise Refused("usage: tools/wheel.py [--stored] OUT FOLDER [LEVEL=FOLDER ...]")
    out, base, levels = words[0], words[1], [w.split("=", 1) for w in words[2:]]
    programs = programs_of(base, [tuple(w) for w in levels])
    stage = os.path.join(out, "stage")
    shutil.rmtree(stage, ignore_errors=True)
    os.makedirs(stage)
    # what `make install` puts below share/: manual pages, completions, recipes, and the package
    output(os.path.join(HERE, "tools", "install.sh"), programs["bin/vitrine"][0], "/usr", os.path.abspath(os.path.join(stage, "installed")))
    shutil.move(os.path.join(stage, "installed/usr/share"), stage)
    shutil.rmtree(os.path.join(stage, "installed"))
    for name in os.listdir(os.path.join(stage, "share/vitrine/python")):
        shutil.move(os.path.join(stage, "share/vitrine/python", name), stage)
    os.rmdir(os.path.join(stage, "share/vitrine/python"))
    for name in ("pyproject.toml", "setup.py"):
        put(os.path.join(HERE, "python", name), os.path.join(stage, name))
    put(os.path.join(HERE, "python/bin/vitrine"), os.path.join(stage, "bin/vitrine"), 0o755)
    libraries = lay_libraries(stage, programs)
    put_licences(stage, libraries)
    package = os.path.join(stage, "vitrine")
    tag = platform_of([os.path.join(package, p) for p in programs] + [os.path.join(package, "lib", c) for _, c in libraries.values()])
    wheel = build(stage, out, tag, stored)
    print("%s: %.1f MB, %d libraries carried" % (wheel, os.path.getsize(wheel) / 1e6, len(libraries)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as e:
        print("tools/wheel.py: %s" % e, file=sys.stderr)
        sys.exit(2)
