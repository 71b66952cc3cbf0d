# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether results are eager's, but for what rounding explains (error_bounds.py)."""

import error_bounds
import torch


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, (tuple, list)) else [value]


def with_noise(run, noise):
    from torch_mortise.dynamo import decompositions

    with error_bounds.NoisyCalls(noise, decompositions()):
        return flat(run())


def rounded_once(run):
    """The results of run() with one rounding per op. Eager's own kernels may round more often: convolutions of f16 add in f16."""
    return with_noise(run, error_bounds.Noise(share=0.0))


def rounding_once(run):
    """Two lists: the results of run() with one rounding per op, and how far such roundings move each floating result."""
    centre = rounded_once(run)
    noise, shifts = error_bounds.Noise(), [[] for _ in centre]
    for _ in range(error_bounds.RUNS):
        for c, m, found in zip(centre, with_noise(run, noise), shifts):
            found.append(error_bounds.error_of(m.double(), c.double()))
    return centre, [error_bounds.root_mean_square(found) for found in shifts]


def assert_same(found, expected, run=None, strides=True):
    """Checks that types and integers are equal and that floats are within what roundings explain (error_bounds.py). `run()` computes the
    expected values again without side effects. Without `run` the bound is 64 unit roundoffs of the largest expected number, which is enough
    for sums of up to 64 terms in f32."""
    found, expected = flat(found), flat(expected)
    assert len(found) == len(expected), f"{len(found)} results, expected {len(expected)}"
    for f, e in zip(found, expected):
        assert f.shape == e.shape and f.dtype == e.dtype, f"{f.dtype} {tuple(f.shape)}, expected {e.dtype} {tuple(e.shape)}"
        if strides and e.numel():
            steps = [[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (f, e)]
            assert steps[0] == steps[1], f"strides {steps[0]}, expected {steps[1]}"
        assert e.is_floating_point() or torch.equal(f, e), (f, e)
    measured = None
    for number, (f, e) in enumerate(zip(found, expected)):
        if not e.is_floating_point() or not e.numel():
            continue
        f, wanted = f.detach().double(), e.detach().double()
        away, allowed = error_bounds.error_of(f, wanted), 2 * error_bounds.ulp(wanted, e.dtype)
        if bool((away <= allowed).all()):
            continue
        if run is None:
            assert error_bounds.PRECISION[e.dtype] >= 24, "results of this dtype need `run`"
            size = wanted[wanted.isfinite()].abs().max() if bool(wanted.isfinite().any()) else 0.0
            allowed = allowed + 64 * error_bounds.unit_roundoff(e.dtype) * size
        else:
            measured = measured or rounding_once(run)
            wanted = measured[0][number].double()
            away = torch.minimum(away, error_bounds.error_of(f, wanted))
            allowed = allowed + error_bounds.CONFIDENCE * measured[1][number]
        wrong = ~(away <= allowed)
        if bool(wrong.any()):
            places = [tuple(p) for p in wrong.nonzero()[:4].tolist()]
            raise AssertionError(f"result {number}: {int(wrong.sum())} of {e.numel()} {e.dtype} elements differ: " + "; ".join(
                f"at {p}: {f[p]:.9g}, expected {wanted[p]:.9g} within {allowed[p]:.3g}" for p in places))
