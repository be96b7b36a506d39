// PCA-MIPS: a complete tree of median splits along principal components (Bachrach et al. 2014), after eq. 2.
//
//   level 0                 component 0, pivot of the root
//   level 1          component 1, two pivots, one for each node
//   ...
//   leaf = one bit for each level, the root's bit first
//
// Neighbourhood boosting also reads the leaves whose code differs from the query's in one bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "inner_product.h"

namespace baselines {

// `projections` is depth x n_items. Writes the items in the order of the leaves, the pivots (2^depth places, heap
// numbering, the root is 1) and the first position of every leaf (2^depth + 1 places).
inline void grow_pca_tree(const float* projections, std::int64_t n_items, int depth, std::int32_t* order,
                          float* pivots, std::int64_t* leaf_start) {
  const std::int64_t n_leaves = std::int64_t{1} << depth;
  std::vector<std::int64_t> start{0, n_items};
  for (std::int64_t j = 0; j < n_items; ++j) order[j] = static_cast<std::int32_t>(j);
  for (int level = 0; level < depth; ++level) {
    const float* projection = projections + level * n_items;
    const std::int64_t n_nodes = std::int64_t{1} << level;
    std::vector<std::int64_t> split;
    for (std::int64_t node = 0; node < n_nodes; ++node) {
      const std::int64_t begin = start[node], end = start[node + 1], middle = begin + (end - begin) / 2;
      float pivot = 0.0f;
      if (begin < end) {
        std::nth_element(order + begin, order + middle, order + end, [&](std::int32_t a, std::int32_t b) {
          return projection[a] < projection[b] || (projection[a] == projection[b] && a < b);
        });
        pivot = projection[order[middle]];
      }
      pivots[n_nodes + node] = pivot;
      split.push_back(begin);
      split.push_back(middle);
    }
    split.push_back(n_items);
    start.swap(split);
  }
  std::copy(start.begin(), start.end(), leaf_start);
  for (std::int64_t leaf = 0; leaf < n_leaves; ++leaf) {
    std::sort(order + leaf_start[leaf], order + leaf_start[leaf + 1]);
  }
}

struct PcaTree {
  const float* directions;  // grown x stride: the components without the coordinates that eq. 2 appends
  std::int64_t stride;
  int grown;  // levels that there are
  int depth;  // levels that are gone down: a node on the last of them is a leaf
  const float* pivots;
  const std::int64_t* leaf_start;
  float radius;      // of the sphere on which the transformed items lie: the query is scaled to it
  bool boost;        // read the neighbouring leaves too
  bool root_pivots;  // compare with the root's pivot at every level, as the code published with the paper does

  std::int64_t leaf_of(const float* query) {
    double square = 0.0;
    for (std::int64_t t = 0; t < stride; ++t) square += static_cast<double>(query[t]) * query[t];
    const float scale = square > 0.0 ? static_cast<float>(radius / std::sqrt(square)) : 0.0f;
    projected_.resize(static_cast<std::size_t>(depth));
    greedy::inner_product_kernel().score_block(directions, stride, query, depth, projected_.data());
    std::int64_t node = 1;
    for (int level = 0; level < depth; ++level) {
      const float pivot = pivots[root_pivots ? 1 : node];
      node = 2 * node + (projected_[level] * scale >= pivot ? 1 : 0);
    }
    return node - (std::int64_t{1} << depth);
  }

  void screen(const float* query, std::vector<std::int32_t>& found) {
    const std::int64_t leaf = leaf_of(query);
    read(leaf, found);
    if (!boost) return;
    for (int bit = 0; bit < depth; ++bit) read(leaf ^ (std::int64_t{1} << bit), found);
  }

 private:
  void read(std::int64_t leaf, std::vector<std::int32_t>& found) const {
    const int below = grown - depth;
    for (std::int64_t i = leaf_start[leaf << below]; i < leaf_start[(leaf + 1) << below]; ++i) {
      found.push_back(static_cast<std::int32_t>(i));
    }
  }

  std::vector<float> projected_;
};

}  // namespace baselines
