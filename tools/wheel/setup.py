# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""setuptools for a folder whose binaries are built already; wheel.py puts it beside a pyproject.toml."""

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class Prebuilt(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def get_tag(self):
        """A plugin has nothing to do with Python's ABI; the extension of torch-mortise has the stable one."""
        tag = super().get_tag()
        return tag if self.py_limited_api else ("py3", "none", tag[2])


setup(distclass=Prebuilt, cmdclass={"bdist_wheel": Wheel})
