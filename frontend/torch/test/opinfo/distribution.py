# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Do random results have eager's distribution? `DRAWS` calls of each are compared by four numbers of every result: the mean, the mean
square, a sum with fixed signs, and one element, which cover first and second moments, the elements' order and their correlation. The calls
are independent, so each number is a sample of its own distribution. If the distributions are equal, the two empirical distribution
functions differ by more than t with a probability of at most e * exp(-DRAWS * t^2) (Wei and Dudley 2012, the two-sample
Dvoretzky-Kiefer-Wolfowitz inequality), even if the elements of one result depend on each other. `LIMIT` is the t at which all `TESTS`
comparisons of a run together raise a false alarm with a probability of at most `FALSE_ALARM`. Seeds are fixed."""

import math
from unittest import mock

import torch

from error_bounds import CONFIDENCE, unit_roundoff

FALSE_ALARM, TESTS, DRAWS = 1e-9, 100_000, 400
LIMIT = math.sqrt(math.log(math.e * TESTS / FALSE_ALARM) / DRAWS)
SEED = 20_000


NAMES = "means", "mean squares", "signed sums", "middle elements"


def numbers(result):
    """The four numbers of one result, and for each the size of what was added up. NaN counts as the largest number."""
    x = result.detach().double().flatten().nan_to_num(nan=1e300, posinf=1e290, neginf=-1e290)
    signs = torch.randint(0, 2, x.shape, generator=torch.Generator().manual_seed(1)) * 2 - 1
    square, middle = (x / max(float(x.abs().max()), 1e140) * 1e140).square().mean(), x[x.numel() // 2]
    return torch.stack([torch.stack([x.mean(), square, (x * signs).sum(), middle]),
                        torch.stack([x.abs().mean(), square, x.abs().sum(), middle.abs()])])


def distance(one, other, shifts=(0.0, 0.0)):
    """The distance of two empirical distribution functions (Kolmogorov-Smirnov), after each number of `one` and of `other` was shifted by
    at most its entry in `shifts`."""

    def above(x, y, shift):
        x, order = x.sort()
        share = torch.searchsorted(y.sort().values, x + torch.as_tensor(shift).expand_as(x)[order], right=True).double() / y.numel()
        return float((torch.arange(1, x.numel() + 1) / x.numel() - share).max())

    return max(above(one, other, shifts[0]), above(other, one, shifts[1]))


def drawn(call):
    """For DRAWS calls, per result: its dtype, the numbers (4, DRAWS) and their sizes. Prevents OpInfo's functions from fixing the seed."""
    state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(SEED)
    with mock.patch("torch.testing._internal.common_methods_invocations.wrapper_set_seed", lambda op, *a, **k: op(*a, **k)):
        made = [[(r.dtype, numbers(r)) for r in call() if r.numel()] for _ in range(DRAWS)]
    torch.default_generator.set_state(state)
    return [(results[0][0], *torch.stack([n for _, n in results], -1)) for results in zip(*made)]


def differs(ours, theirs, moved=None):
    """Why the results of the two calls have different distributions, or None. `moved`: eager's call with operands that are moved by a
    rounding each."""
    shaken = None
    for number, (found, expected) in enumerate(zip(drawn(ours), drawn(theirs))):
        (dtype, *ours_drawn), (_, *theirs_drawn) = found, expected
        for kind, (name, x, x_size, y, y_size) in enumerate(zip(NAMES, *ours_drawn, *theirs_drawn)):
            # The arithmetic on random numbers may round differently: a few units relative to the size of what is added up in the same draw.
            share = 4 * unit_roundoff(dtype) if dtype.is_floating_point else 0.0
            if distance(x, y, (share * x_size, share * y_size)) > LIMIT and moved is not None:
                # Or more, where rounding an operand does so: in the same draws, because the seed is the same.
                shaken = shaken or drawn(moved)
                apart = ((shaken[number][1][kind] - y).abs() / y_size).nan_to_num(0, 0, 0)
                share = max(share, CONFIDENCE * float(apart.square().mean().sqrt()))
            if (apart := distance(x, y, (share * x_size, share * y_size))) > LIMIT:
                return (f"result {number}: the {name} of {DRAWS} draws are distributed otherwise (Kolmogorov-Smirnov distance "
                        f"{apart:.3f}, at most {LIMIT:.3f}; medians {float(x.median()):.5g} and eager's {float(y.median()):.5g}; "
                        f"seed {SEED})")
    return None
