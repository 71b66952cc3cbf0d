# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small dense linear algebra, unrolled into elementwise ops and products: decompositions for matrices of up to `LARGEST` rows. Larger
matrices run in eager, where LAPACK works on blocks. The order of steps, the pivots and the signs are LAPACK's."""

import torch

from .core import decomposes

aten = torch.ops.aten
LARGEST = 12


def too_large(*matrices):
    return any(m.is_complex() or not isinstance(n, int) or n > LARGEST for m in matrices for n in m.shape[-2:])


def substituted(a, b, upper, unit):
    """Solves a x = b by substitution, for a triangular [..., n, n] and b [..., n, k]."""
    n = a.shape[-1]
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*batch, n, n), b.expand(*batch, *b.shape[-2:])
    rows = {}
    for i in reversed(range(n)) if upper else range(n):
        row = b[..., i : i + 1, :]
        if rows:
            first, last = min(rows), max(rows) + 1
            known = torch.cat([rows[j] for j in range(first, last)], -2)
            row = row - (a[..., i, first:last].unsqueeze(-1) * known).sum(-2, keepdim=True)
        rows[i] = row if unit else row / a[..., i : i + 1, i : i + 1]
    return torch.cat([rows[i] for i in range(n)], -2) if n else b.clone()


@decomposes(aten.linalg_solve_triangular.default)
def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    if too_large(a):
        return NotImplemented
    if left:
        return substituted(a, b, upper, unitriangular)
    return substituted(a.mT, b.mT, not upper, unitriangular).mT


@decomposes(aten.triangular_solve.default)
def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    if too_large(a):
        return NotImplemented
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    used, is_upper = (a.mT, not upper) if transpose else (a, upper)
    return substituted(used, b, is_upper, unitriangular), a.expand(*batch, *a.shape[-2:]).clone()


# ---- Cholesky ----------------------------------------------------------------------------------------


def cholesky_columns(a):
    """The lower factor, and the order of the first leading minor that is not positive, or 0."""
    n = a.shape[-1]
    rows = torch.arange(n)
    info = torch.zeros(a.shape[:-2], dtype=torch.int32)
    columns = []
    for j in range(n):
        column = a[..., :, j]
        if columns:
            done = torch.stack(columns, -1)
            column = column - (done * done[..., j : j + 1, :]).sum(-1)
        square = column[..., j : j + 1]
        info = torch.where((info == 0) & ~(square[..., 0] > 0), j + 1, info).to(torch.int32)
        root = square.sqrt()
        column = torch.where(rows == j, root, column / root)
        columns.append(torch.where(rows >= j, column, 0))
    return (torch.stack(columns, -1) if n else a.clone()), info


@decomposes(aten.linalg_cholesky_ex.default)
def cholesky_ex(a, *, upper=False, check_errors=False):
    if check_errors or too_large(a):
        return NotImplemented
    factor, info = cholesky_columns(a.mT if upper else a)
    return (factor.mT if upper else factor), info


@decomposes(aten.cholesky.default)
def cholesky(a, upper=False):
    if too_large(a):
        return NotImplemented
    factor = cholesky_columns(a.mT if upper else a)[0]
    return factor.mT if upper else factor


@decomposes(aten.cholesky_solve.default)
def cholesky_solve(b, factor, upper=False):
    if too_large(factor):
        return NotImplemented
    lower = factor.mT if upper else factor
    return substituted(lower.mT, substituted(lower, b, False, False), True, False)


@decomposes(aten.cholesky_inverse.default)
def cholesky_inverse(factor, upper=False):
    return cholesky_solve(torch.eye(factor.shape[-1], dtype=factor.dtype).expand(factor.shape), factor, upper)


# ---- LU ------------------------------------------------------------------------------------------------


def eliminated(a, pivot=True):
    """(LU, pivots counted from 1, info), row by row, with the largest element of each column as the pivot."""
    m, n = a.shape[-2:]
    rows, columns = torch.arange(m), torch.arange(n)
    pivots, info = [], torch.zeros(a.shape[:-2], dtype=torch.int32)
    for k in range(min(m, n)):
        if pivot:
            best = a[..., k:, k].abs().argmax(-1, keepdim=True) + k
            a = a.gather(-2, swapped(rows.expand(*a.shape[:-2], m), k, best).unsqueeze(-1).expand(a.shape))
        else:
            best = torch.full((*a.shape[:-2], 1), k)
        pivots.append(best + 1)
        top = a[..., k : k + 1, k]
        info = torch.where((info == 0) & (top[..., 0] == 0), k + 1, info).to(torch.int32)
        share = torch.where((rows > k) & (top != 0), a[..., :, k] / top, 0)
        rest = a - share.unsqueeze(-1) * torch.where(columns > k, a[..., k, :], 0).unsqueeze(-2)
        below = (rows > k).unsqueeze(-1) & (columns == k) & (top != 0).unsqueeze(-1)
        a = torch.where(below, share.unsqueeze(-1), rest)
    shape = (*a.shape[:-2], min(m, n))
    return a, (torch.cat(pivots, -1) if pivots else torch.zeros(shape)).to(torch.int32), info


def swapped(order, k, other):
    """`order` [..., m] with the elements at k and at `other` [..., 1] exchanged."""
    place = torch.arange(order.shape[-1])
    first, second = order[..., k : k + 1], order.gather(-1, other)
    return torch.where(place == k, second, torch.where(place == other, first, order))


def permutation(pivots, m):
    order = torch.arange(m).expand(*pivots.shape[:-1], m)
    for k in range(pivots.shape[-1]):
        order = swapped(order, k, pivots[..., k : k + 1].to(torch.int64) - 1)
    return order


def unpacked(lu):
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = lu[..., :, :k].tril(-1) + torch.eye(m, k, dtype=lu.dtype)
    return lower, lu[..., :k, :].triu()


@decomposes(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(a, *, pivot=True, check_errors=False):
    return NotImplemented if check_errors or not pivot or too_large(a) else eliminated(a)


@decomposes(aten.linalg_lu.default)
def lu(a, *, pivot=True):
    if not pivot or too_large(a):
        return NotImplemented
    packed, pivots, _ = eliminated(a)
    return matrix_of(permutation(pivots, a.shape[-2]), a.dtype), *unpacked(packed)


def matrix_of(order, dtype):
    """The matrix P with P[order[i], i] = 1."""
    m = order.shape[-1]
    return (torch.arange(m).unsqueeze(-1) == order.unsqueeze(-2)).to(dtype)


@decomposes(aten.lu_unpack.default)
def lu_unpack(packed, pivots, unpack_data=True, unpack_pivots=True):
    if too_large(packed):
        return NotImplemented
    none = torch.empty(0, dtype=packed.dtype)
    p = matrix_of(permutation(pivots, packed.shape[-2]), packed.dtype) if unpack_pivots else none
    return (p, *unpacked(packed)) if unpack_data else (p, none, none.clone())


@decomposes(aten.linalg_lu_solve.default)
def lu_solve(packed, pivots, b, *, left=True, adjoint=False):
    if too_large(packed):
        return NotImplemented
    if not left:
        return lu_solve(packed, pivots, b.mT, left=True, adjoint=not adjoint).mT
    batch = torch.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    n = packed.shape[-1]
    b = b.expand(*batch, *b.shape[-2:])
    order = permutation(pivots, n).expand(*batch, n)

    def rows(value, places):
        return value.gather(-2, places.unsqueeze(-1).expand(value.shape))

    if not adjoint:
        return substituted(packed, substituted(packed, rows(b, order), False, True), True, False)
    x = substituted(packed.mT, substituted(packed.mT, b, False, False), True, True)
    return rows(x, order.argsort(-1))


@decomposes(aten._linalg_solve_ex.default)
def solve_ex(a, b, *, left=True, check_errors=False):
    if check_errors or too_large(a):
        return NotImplemented
    vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and tuple(b.shape) == tuple(a.shape[:-1]))
    packed, pivots, info = eliminated(a)
    result = lu_solve(packed, pivots, b.unsqueeze(-1) if vector else b, left=left)
    return (result.squeeze(-1) if vector else result), packed, pivots, info


@decomposes(aten.linalg_inv_ex.default)
def inv_ex(a, *, check_errors=False):
    if check_errors or too_large(a):
        return NotImplemented
    packed, pivots, info = eliminated(a)
    return lu_solve(packed, pivots, torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)), info


def swap_sign(pivots, dtype):
    odd = (pivots != torch.arange(1, pivots.shape[-1] + 1)).sum(-1) % 2
    return (1 - 2 * odd).to(dtype)


@decomposes(aten._linalg_det.default)
def det(a):
    if too_large(a):
        return NotImplemented
    packed, pivots, _ = eliminated(a)
    return packed.diagonal(0, -2, -1).prod(-1) * swap_sign(pivots, a.dtype), packed, pivots


@decomposes(aten._linalg_slogdet.default)
def slogdet(a):
    if too_large(a):
        return NotImplemented
    packed, pivots, _ = eliminated(a)
    diagonal = packed.diagonal(0, -2, -1)
    sign = diagonal.sign().prod(-1) * swap_sign(pivots, a.dtype)
    return sign, diagonal.abs().log().sum(-1), packed, pivots


# ---- QR ------------------------------------------------------------------------------------------------


@decomposes(aten.geqrf.default)
def geqrf(a):
    """R in the upper triangle, the reflectors I - tau v v^T below: the first element of v, a 1 on the diagonal, is not stored."""
    if too_large(a):
        return NotImplemented
    m, n = a.shape[-2:]
    rows, columns, taus = torch.arange(m), torch.arange(n), []
    for k in range(min(m, n)):
        column = a[..., :, k]
        head = column[..., k : k + 1]
        tail = torch.where(rows > k, column, 0)
        square = (tail * tail).sum(-1, keepdim=True)
        size = (head * head + square).sqrt()
        beta = torch.where(head >= 0, -size, size)
        flat = square == 0
        tau = torch.where(flat, 0, (beta - head) / torch.where(flat, 1, beta))
        v = torch.where(rows == k, 1, tail / torch.where(flat, 1, head - beta))
        product = (v.unsqueeze(-1) * a).sum(-2, keepdim=True)
        reflected = a - tau.unsqueeze(-1) * v.unsqueeze(-1) * product
        stored = torch.where(rows == k, torch.where(flat, head, beta), torch.where(rows > k, v, column))
        a = torch.where(columns == k, stored.unsqueeze(-1), torch.where(columns > k, reflected, a))
        taus.append(tau)
    return a, torch.cat(taus, -1) if taus else torch.zeros(*a.shape[:-2], 0, dtype=a.dtype)


def reflect(packed, taus, value, order):
    """Applies the reflectors in `order` to `value` from the left."""
    rows = torch.arange(packed.shape[-2])
    for k in order:
        v = torch.where(rows == k, 1, torch.where(rows > k, packed[..., :, k], 0)).unsqueeze(-1)
        value = value - taus[..., k : k + 1].unsqueeze(-1) * v * (v * value).sum(-2, keepdim=True)
    return value


@decomposes(aten.linalg_householder_product.default)
def householder_product(packed, taus):
    if too_large(packed):
        return NotImplemented
    m, n = packed.shape[-2:]
    start = torch.eye(m, n, dtype=packed.dtype).expand(*packed.shape[:-2], m, n)
    return reflect(packed, taus, start, reversed(range(taus.shape[-1]))).clone()


@decomposes(aten.ormqr.default)
def ormqr(packed, taus, other, left=True, transpose=False):
    if too_large(packed, other):
        return NotImplemented
    count = range(taus.shape[-1])
    if left:
        return reflect(packed, taus, other, count if transpose else reversed(count)).clone()
    return reflect(packed, taus, other.mT, reversed(count) if transpose else count).mT.clone()


@decomposes(aten.linalg_qr.default)
def qr(a, mode="reduced"):
    if too_large(a):
        return NotImplemented
    m, n = a.shape[-2:]
    k = min(m, n)
    packed, taus = geqrf(a)
    if mode == "r":
        return torch.empty(0, dtype=a.dtype), packed[..., :k, :].triu()
    wide = m if mode == "complete" else k
    start = torch.eye(m, wide, dtype=a.dtype).expand(*a.shape[:-2], m, wide)
    q = reflect(packed, taus, start, reversed(range(k)))
    return q.clone(), packed[..., :wide, :].triu()
