// k-means MIPS: clusters of the transformed items, of which a query reads the best few (Auvolat et al. 2015).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "inner_product.h"

namespace baselines {

struct Clusters {
  const float* centres;  // n_clusters x stride: unit vectors without the coordinates that the transform appends
  std::int64_t stride;
  std::int64_t n_clusters;
  const std::int64_t* cluster_start;
  std::int64_t probes;

  void screen(const float* query, std::vector<std::int32_t>& found) {
    nearness_.resize(static_cast<std::size_t>(n_clusters));
    order_.resize(static_cast<std::size_t>(n_clusters));
    greedy::inner_product_kernel().score_block(centres, stride, query, n_clusters, nearness_.data());
    for (std::int64_t c = 0; c < n_clusters; ++c) order_[c] = static_cast<std::int32_t>(c);
    const auto nearer = [this](std::int32_t a, std::int32_t b) {
      return nearness_[a] > nearness_[b] || (nearness_[a] == nearness_[b] && a < b);
    };
    const std::int64_t chosen = std::min(probes, n_clusters);
    if (chosen < n_clusters) std::nth_element(order_.begin(), order_.begin() + chosen, order_.end(), nearer);
    for (std::int64_t i = 0; i < chosen; ++i) {
      for (std::int64_t at = cluster_start[order_[i]]; at < cluster_start[order_[i] + 1]; ++at) {
        found.push_back(static_cast<std::int32_t>(at));
      }
    }
  }

 private:
  std::vector<float> nearness_;
  std::vector<std::int32_t> order_;
};

}  // namespace baselines
