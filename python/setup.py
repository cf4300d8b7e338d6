# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say of a wheel: its platform, and the files that tools/wheel.py lays beside this one."""
import os

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

if not os.path.exists("vitrine/lib"):
    raise SystemExit("the library is not here: `make wheel` builds it, and the wheel")


class Platform(Distribution):
    def has_ext_modules(self):
        return True


class AnyPython(bdist_wheel):
    """ctypes asks for no ABI of Python's: one wheel for all versions."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(distclass=Platform, cmdclass={"bdist_wheel": AnyPython}, packages=["vitrine"], py_modules=["vitrine_oracle"],
      scripts=["bin/vitrine"],
      package_data={"vitrine": ["py.typed", "bin/*", "lib/*.so*", "lib/glibc-hwcaps/*/*", "libexec/vitrine/*/*"]},
      data_files=[(folder, [os.path.join(folder, name) for name in names]) for folder, _, names in os.walk("share") if names])
