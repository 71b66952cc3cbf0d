# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small networks through torch.compile on the stand-in for HIP, with a fault at each call of HIP in turn. Run by figure rocm-stand-in, a
process for each network: rocm_faults.py NETWORK. Prints a line of JSON.

First the network is compiled and called without a fault. Then, for each call of HIP that one call of the compiled network makes, the
network is called while that call fails, once with each of five error codes. It has to raise an error that names the device and the
function, or to return the right result; the next call has to return it, too, and the stand-in may complain of no handle or memory that was
given back. Then the same for each call of HIP while a network of layers is compiled anew, with the codes by turns. With
MORTISE_TEST_LASTING, a code after which HIP refuses everything: one call in the middle fails with it, and the next one has to say so."""

import ctypes
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "frontend" / "torch" / "test")]

# A value of each kind: of arguments, of memory, of code, of resources, unknown.
PASSING = (1, 2, 209, 701, 999)
LASTING = (3, 214, 700, 719)
MISUSE = ("no longer", "freed", "was written", "unloaded")


class StandIn:
    def __init__(self):
        library = ctypes.CDLL(os.environ["MORTISE_ROCM_DRIVER"])
        self.settings, self.configure_, self.report_, self.problems_ = (
            os.environ.get("MORTISE_TEST_HIP_STAND_IN", ""), library.standInConfigure, library.standInReport, library.standInProblems)
        self.report_.restype = self.problems_.restype = ctypes.c_char_p

    def configure(self, more=""):
        self.configure_(f"{self.settings} {more}".encode())

    def calls(self):
        return self.report_().decode().splitlines()[1:]

    def problems(self, misuse_only):
        lines = self.problems_().decode().splitlines()
        return [line for line in lines if not misuse_only or any(word in line for word in MISUSE)]


def networks():
    import torch
    import test_networks as nets
    from conftest import Small
    from torch.nn.functional import normalize

    ids = torch.randint(0, 200, (2, 7))
    return {
        "layers": lambda: (Small().eval(), (torch.randn(4, 8),), lambda f, x: f(x)),
        "bert": lambda: (nets.small_bert(), (ids,), lambda f, i: f(input_ids=i).last_hidden_state),
        "embedding": lambda: (nets.small_bert(), (ids,), lambda f, i: normalize(f(input_ids=i).last_hidden_state.sum(1), dim=1)),
        "gpt2": lambda: (nets.small_gpt2(), (ids,), lambda f, i: f(i, use_cache=False).logits),
        "vit": lambda: (nets.small_vit(), (torch.randn(1, 3, 32, 32),), lambda f, x: f(x).logits),
        "resnet": lambda: (nets.small_resnet(), (torch.randn(1, 3, 64, 64),), lambda f, x: f(x).logits),
        "llama": lambda: (nets.small_llama(), (ids,), lambda f, i: f(i, use_cache=False).logits),
    }


NAMES = ("layers", "bert", "embedding", "gpt2", "vit", "resnet", "llama")


class Sweep:
    def __init__(self, name):
        import torch

        torch.manual_seed(0)
        self.stand_in, self.name = StandIn(), name
        self.model, self.inputs, self.run = networks()[name]()
        with torch.no_grad():
            self.want = self.run(self.model, *self.inputs)
        self.result = {"network": name, "calls": 0, "passed": 0, "failed": 0, "survived": 0, "problems": [], "functions": {}}
        self.compiled = None

    def compile(self):
        import torch
        import torch_mortise

        torch._dynamo.reset()
        torch_mortise.reset()
        self.compiled = torch.compile(self.model, backend="mortise", options={"device": "rocm", "require": "100% on rocm"})

    def call(self):
        """What is wrong with the result; empty where nothing is."""
        import torch

        with torch.no_grad():
            got = self.run(self.compiled, *self.inputs)
        if torch.allclose(got, self.want, rtol=2e-3, atol=2e-4):
            return ""
        return f"differs from eager by {(got - self.want).abs().max().item()}"

    def judge(self, number, code, body):
        """A call of `body` in which that call of HIP fails. Whether there was one."""
        self.stand_in.configure(f"fail=*:{number}:{code}")
        survived, wrong = False, ""
        try:
            wrong = body()
            survived = not wrong
        except Exception as error:  # the judgement is of its text
            text = str(error)
            if "rocm" not in text or "hip" not in text:
                wrong = f"an error that names neither the device nor the call: {type(error).__name__}: {text[:300]}"
        calls = self.stand_in.calls()
        function = calls[number - 1] if len(calls) >= number else ""
        if not function:
            return False
        misuse = self.stand_in.problems(misuse_only=True)
        self.stand_in.configure()
        if not wrong and misuse:
            wrong = misuse[0]
        if not wrong and code in PASSING:
            try:
                wrong = self.call()
                wrong = wrong and f"the next call {wrong}"
            except Exception as error:
                wrong = f"the next call raises {type(error).__name__}: {str(error)[:300]}"
        self.result["survived"] += survived
        self.result["passed" if not wrong else "failed"] += 1
        self.result["functions"][function] = self.result["functions"].get(function, 0) + 1
        if wrong and len(self.result["problems"]) < 20:
            self.result["problems"].append(f"{self.name}: {function}, call {number}, error {code}: {wrong}")
        return True

    def without_fault(self):
        self.compile()
        self.call()  # compiles, and packs
        self.stand_in.configure()
        wrong = self.call() or next(iter(self.stand_in.problems(misuse_only=False)), "")
        self.result["calls"] = len(self.stand_in.calls())
        self.result["passed" if not wrong else "failed"] += 1
        if wrong:
            self.result["problems"].append(f"{self.name}: without a fault: {wrong}")

    def sweep(self):
        self.without_fault()
        for number in range(1, self.result["calls"] + 1):
            for code in PASSING:
                if not self.judge(number, code, self.call):
                    self.result["problems"].append(f"{self.name}: call {number} of {self.result['calls']} was not made again")
        if self.name == "layers":  # each call of HIP while a network is compiled
            self.stand_in.configure()
            self.compile()
            self.call()
            for number in range(1, len(self.stand_in.calls()) + 1):
                self.compile()
                if not self.judge(number, PASSING[number % len(PASSING)], self.call):
                    break  # a later compilation needs fewer calls, since the device is started

    def lose(self):
        """The device is lost in the middle of a call: afterwards every call says so."""
        self.without_fault()
        code = int(os.environ["MORTISE_TEST_LASTING"])
        self.judge(max(1, self.result["calls"] // 2), code, self.call)
        try:
            self.call()
            self.result["problems"].append(f"{self.name}: error {code}: a call after the device was lost returned")
            self.result["failed"] += 1
        except Exception:
            self.result["passed"] += 1


def main():
    sweep = Sweep(sys.argv[1])
    sweep.lose() if "MORTISE_TEST_LASTING" in os.environ else sweep.sweep()
    print(json.dumps(sweep.result))


if __name__ == "__main__":
    main()
