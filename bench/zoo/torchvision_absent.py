# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets timm be imported without torchvision, whose wheels do not fit the CPU build of PyTorch.

timm imports names of torchvision for data sets and image transforms. Here such a name is a class that no object is an instance of, and
calling it raises ImportError, so that a model that needs torchvision cannot be built, and nothing else changes."""

import importlib.abc
import importlib.machinery
import sys
import types


class Absent(type):
    def __getattr__(cls, name):
        return absent(f"{cls.__name__}.{name}") if not name.startswith("__") else type.__getattribute__(cls, name)

    def __call__(cls, *arguments, **keywords):
        raise ImportError(f"{cls.__name__} is needed, and torchvision is not installed")


def absent(name):
    return type.__call__(Absent, name, (), {})


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{self.__name__}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torchvision" else None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass


def install():
    """Behind every real finder: an installed torchvision is used."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
