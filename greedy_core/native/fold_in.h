// The vector of somebody who met some items, with all items held fixed: the least squares of implicit ALS.
//
//   (G + r I + U'(C - I) U) x = U'c        U the rows of what was met, c how certain each meeting is, G = H'H
//
// Whoever has a vector x0 already keeps it as far as the new meetings allow: x = x0 + z, the same system for z with
// e = c - (C - I) U x0 in place of c. (Exact if x0 was folded in from nothing; its own history would hold it a little more.)
//
// With few rows the inverse P of G + r I, made when the model was built, leaves a system as large as the number of rows:
//   z = P U' y,  (I + (C - I) U P U') y = e                                        (Woodbury, pushed through)
// With many the matrix is formed and factorised (Cholesky). Everything is done in double, and every sum is taken in one
// order, so the same question gives the same bits on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace greedy {

// What a model folds in with, both (n_dims, n_dims) and symmetric; they belong to the caller.
struct FoldInSystem {
  const double* gram = nullptr;     // G + r I
  const double* inverse = nullptr;  // of it
  std::int64_t n_dims = 0;
};

// Belongs to a thread: nothing is allocated once it is warm.
struct FoldInScratch {
  std::vector<double> rows, weighted, matrix, turned, wanted, solution;
};

inline void add_scaled(double* __restrict to, const double* __restrict row, double factor, std::int64_t n) {
  for (std::int64_t t = 0; t < n; ++t) to[t] += factor * row[t];
}

// Four rows in one pass over `to`, added one after the other.
inline void add_scaled_4(double* __restrict to, const double* __restrict a, const double* __restrict b, const double* __restrict c,
                         const double* __restrict d, const double* factors, std::int64_t n) {
  for (std::int64_t t = 0; t < n; ++t) {
    to[t] = (((to[t] + factors[0] * a[t]) + factors[1] * b[t]) + factors[2] * c[t]) + factors[3] * d[t];
  }
}

// to += sum_i factors[i * step] * rows[i], rows of n values, `stride` apart.
inline void add_rows(double* to, const double* rows, std::int64_t stride, std::int64_t n_rows, const double* factors,
                     std::int64_t step, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 4 <= n_rows; i += 4) {
    const double four[4] = {factors[i * step], factors[(i + 1) * step], factors[(i + 2) * step], factors[(i + 3) * step]};
    const double* first = rows + i * stride;
    add_scaled_4(to, first, first + stride, first + 2 * stride, first + 3 * stride, four, n);
  }
  for (; i < n_rows; ++i) add_scaled(to, rows + i * stride, factors[i * step], n);
}

// Solves a system of n equations in place, rows swapped where that keeps it stable. False if it has no one solution.
inline bool solve_general(double* matrix, double* side, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t best = k;
    for (std::int64_t i = k + 1; i < n; ++i) {
      if (std::abs(matrix[i * n + k]) > std::abs(matrix[best * n + k])) best = i;
    }
    if (!(std::abs(matrix[best * n + k]) > 0.0)) return false;
    if (best != k) {
      for (std::int64_t t = k; t < n; ++t) std::swap(matrix[best * n + t], matrix[k * n + t]);
      std::swap(side[best], side[k]);
    }
    for (std::int64_t i = k + 1; i < n; ++i) {
      const double factor = matrix[i * n + k] / matrix[k * n + k];
      if (factor == 0.0) continue;
      add_scaled(matrix + i * n + k + 1, matrix + k * n + k + 1, -factor, n - k - 1);
      side[i] -= factor * side[k];
    }
  }
  for (std::int64_t k = n - 1; k >= 0; --k) {
    for (std::int64_t t = k + 1; t < n; ++t) side[k] -= matrix[k * n + t] * side[t];
    side[k] /= matrix[k * n + k];
  }
  return true;
}

// Solves a symmetric positive system of n equations in place; only the upper triangle is read. False if it is not positive.
inline bool solve_positive(double* matrix, double* side, std::int64_t n) {
  for (std::int64_t k = 0; k < n; ++k) {
    double* row = matrix + k * n;
    if (!(row[k] > 0.0)) return false;
    const double root = std::sqrt(row[k]);
    for (std::int64_t t = k; t < n; ++t) row[t] /= root;
    side[k] /= row[k];
    for (std::int64_t i = k + 1; i < n; ++i) add_scaled(matrix + i * n + i, row + i, -row[i], n - i);
    add_scaled(side + k + 1, row + k + 1, -side[k], n - k - 1);
  }
  for (std::int64_t k = n - 1; k >= 0; --k) {
    for (std::int64_t t = k + 1; t < n; ++t) side[k] -= matrix[k * n + t] * side[t];
    side[k] /= matrix[k * n + k];
  }
  return true;
}

inline void load_rows(FoldInScratch& scratch, const float* rows, std::int64_t stride, std::int64_t n_dims, const std::int32_t* ids,
                      std::int64_t n) {
  scratch.rows.resize(static_cast<std::size_t>(n * n_dims));
  for (std::int64_t i = 0; i < n; ++i) {
    const float* row = rows + ids[i] * stride;
    for (std::int64_t t = 0; t < n_dims; ++t) scratch.rows[i * n_dims + t] = row[t];
  }
}

// What the meetings ask for beyond what the prior says of them already.
inline void want(FoldInScratch& scratch, std::int64_t n_dims, const double* certain, std::int64_t n, const float* prior) {
  scratch.wanted.assign(certain, certain + n);
  if (prior == nullptr) return;
  for (std::int64_t i = 0; i < n; ++i) {
    double said = 0.0;
    for (std::int64_t t = 0; t < n_dims; ++t) said += scratch.rows[i * n_dims + t] * prior[t];
    scratch.wanted[i] -= (certain[i] - 1.0) * said;
  }
}

inline bool fold_in_few(FoldInScratch& scratch, const FoldInSystem& system, const double* certain, std::int64_t n, double* out) {
  const std::int64_t n_dims = system.n_dims;
  const std::vector<double>& rows = scratch.rows;
  scratch.weighted.assign(static_cast<std::size_t>(n * n_dims), 0.0);  // U P
  scratch.turned.resize(static_cast<std::size_t>(n * n_dims));         // U', so that sums run along rows
  for (std::int64_t i = 0; i < n; ++i) {
    add_rows(scratch.weighted.data() + i * n_dims, system.inverse, n_dims, n_dims, rows.data() + i * n_dims, 1, n_dims);
    for (std::int64_t t = 0; t < n_dims; ++t) scratch.turned[t * n + i] = rows[i * n_dims + t];
  }
  scratch.matrix.assign(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = scratch.matrix.data() + i * n;
    add_rows(row, scratch.turned.data(), n, n_dims, scratch.weighted.data() + i * n_dims, 1, n);
    for (std::int64_t j = 0; j < n; ++j) row[j] *= certain[i] - 1.0;
    row[i] += 1.0;
  }
  if (!solve_general(scratch.matrix.data(), scratch.wanted.data(), n)) return false;
  add_rows(out, scratch.weighted.data(), n_dims, n, scratch.wanted.data(), 1, n_dims);
  return true;
}

inline bool fold_in_many(FoldInScratch& scratch, const FoldInSystem& system, const double* certain, std::int64_t n, double* out) {
  const std::int64_t n_dims = system.n_dims;
  const std::vector<double>& rows = scratch.rows;
  scratch.weighted.resize(static_cast<std::size_t>(n * n_dims));  // (C - I) U
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t t = 0; t < n_dims; ++t) scratch.weighted[i * n_dims + t] = (certain[i] - 1.0) * rows[i * n_dims + t];
  }
  scratch.matrix.assign(system.gram, system.gram + n_dims * n_dims);
  for (std::int64_t t = 0; t < n_dims; ++t) {
    add_rows(scratch.matrix.data() + t * n_dims + t, rows.data() + t, n_dims, n, scratch.weighted.data() + t, n_dims, n_dims - t);
  }
  add_rows(out, rows.data(), n_dims, n, scratch.wanted.data(), 1, n_dims);
  return solve_positive(scratch.matrix.data(), out, n_dims);
}

// Writes the vector of somebody who met the items `ids`, all different, each as certain as said (above 0), and had the
// vector `prior` before, or none. False if the numbers cannot be solved with.
inline bool fold_in(FoldInScratch& scratch, const FoldInSystem& system, const float* rows, std::int64_t stride, const std::int32_t* ids,
                    const double* certain, std::int64_t n, const float* prior, float* out) {
  load_rows(scratch, rows, stride, system.n_dims, ids, n);
  scratch.solution.assign(static_cast<std::size_t>(system.n_dims), 0.0);
  want(scratch, system.n_dims, certain, n, prior);
  // Where both take about the same time.
  const bool few = 8 * n <= 3 * system.n_dims;
  double* solution = scratch.solution.data();
  if (!(few ? fold_in_few(scratch, system, certain, n, solution) : fold_in_many(scratch, system, certain, n, solution))) return false;
  for (std::int64_t t = 0; t < system.n_dims; ++t) {
    out[t] = static_cast<float>(prior == nullptr ? solution[t] : prior[t] + solution[t]);
    if (!std::isfinite(out[t])) return false;
  }
  return true;
}

// Writes the mean of rows, each weighted (above 0).
inline void weighted_mean(FoldInScratch& scratch, const float* rows, std::int64_t stride, std::int64_t n_dims, const std::int32_t* ids,
                          const double* weights, std::int64_t n, float* out) {
  load_rows(scratch, rows, stride, n_dims, ids, n);
  scratch.solution.assign(static_cast<std::size_t>(n_dims), 0.0);
  add_rows(scratch.solution.data(), scratch.rows.data(), n_dims, n, weights, 1, n_dims);
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += weights[i];
  for (std::int64_t t = 0; t < n_dims; ++t) out[t] = static_cast<float>(scratch.solution[t] / sum);
}

}  // namespace greedy
