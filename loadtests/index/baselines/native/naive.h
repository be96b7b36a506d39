// Naive-MIPS as the paper times it: inner products in double, one addition after the other, and a full sort.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace baselines {

// `items` is n_items x n_dims in double, `order` has n_items places and receives all items, best first.
inline void naive_full_sort(const double* items, std::int64_t n_items, std::int64_t n_dims, const double* query,
                            std::vector<double>& products, std::vector<std::int32_t>& order) {
  products.resize(static_cast<std::size_t>(n_items));
  order.resize(static_cast<std::size_t>(n_items));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t j = 0; j < n_items; ++j) {
    double sum = 0.0;
    for (std::int64_t t = 0; t < n_dims; ++t) sum += query[t] * items[j * n_dims + t];
    products[j] = sum;
  }
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return products[a] > products[b] || (products[a] == products[b] && a < b);
  });
}

inline void naive_batch(const double* items, std::int64_t n_items, std::int64_t n_dims, const double* queries,
                        std::int64_t n_queries, std::int64_t top_k, std::int32_t* out, float* scores) {
  std::vector<double> products;
  std::vector<std::int32_t> order;
  for (std::int64_t q = 0; q < n_queries; ++q) {
    naive_full_sort(items, n_items, n_dims, queries + q * n_dims, products, order);
    for (std::int64_t i = 0; i < top_k; ++i) {
      const bool found = i < n_items;
      out[q * top_k + i] = found ? order[i] : -1;
      scores[q * top_k + i] = found ? static_cast<float>(products[order[i]]) : 0.0f;
    }
  }
}

}  // namespace baselines
