// dWedge: wedge sampling without the dice (Lorenzen and Pham 2020).
//
// Dimension t is given its share of the samples, s_t ~ |w_t| * sum_j |h_jt|. Its items are read by falling |h_jt|,
// each taking ceil(s_t |h_jt| / sum_j |h_jt|) samples with the sign of h_jt w_t, until the share is used up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "item_scores.h"

namespace baselines {

struct WedgeEntry {
  std::int32_t item;
  float value;
};

// The `length` entries of a column with the largest absolute values, largest first, ties by item.
inline void fill_wedge_list(const float* column, std::int64_t n_items, std::int64_t length, WedgeEntry* list,
                            double* column_sum) {
  std::vector<WedgeEntry> entries(static_cast<std::size_t>(n_items));
  double sum = 0.0;
  for (std::int64_t j = 0; j < n_items; ++j) {
    entries[j] = WedgeEntry{static_cast<std::int32_t>(j), column[j]};
    sum += std::fabs(column[j]);
  }
  const auto before = [](const WedgeEntry& a, const WedgeEntry& b) {
    const float x = std::fabs(a.value), y = std::fabs(b.value);
    return x > y || (x == y && a.item < b.item);
  };
  if (length < n_items) std::nth_element(entries.begin(), entries.begin() + length, entries.end(), before);
  std::sort(entries.begin(), entries.begin() + length, before);
  std::copy(entries.begin(), entries.begin() + length, list);
  *column_sum = sum;
}

struct Dwedge {
  const WedgeEntry* lists;  // n_dims x length
  std::int64_t length;
  std::int64_t n_dims;
  const double* column_sums;
  std::int64_t samples;
  std::int64_t budget;
  ItemScores scores;

  explicit Dwedge(std::int64_t n_items) : scores(n_items) {}

  void screen(const float* query, std::vector<std::int32_t>& found) {
    double mass = 0.0;
    for (std::int64_t t = 0; t < n_dims; ++t) mass += std::fabs(query[t]) * column_sums[t];
    if (mass <= 0.0) return;
    for (std::int64_t t = 0; t < n_dims; ++t) {
      const double weight = std::fabs(query[t]) * column_sums[t] / mass;
      if (weight <= 0.0) continue;
      const double share = std::ceil(weight * static_cast<double>(samples));
      const double rate = share / column_sums[t];
      const WedgeEntry* list = lists + t * length;
      if (t + 1 < n_dims) __builtin_prefetch(list + length, 0, 3);
      const bool flipped = query[t] < 0.0f;
      double used = 0.0;
      for (std::int64_t i = 0; i < length && used < share; ++i) {
        const double wanted = std::fabs(list[i].value) * rate;
        auto taken = static_cast<double>(static_cast<std::int64_t>(wanted));  // ceil() is a call on plain x86-64
        if (taken < wanted) taken += 1.0;
        if (taken <= 0.0) break;  // only zeros follow
        used += taken;
        scores.add(list[i].item, static_cast<float>((list[i].value < 0.0f) != flipped ? -taken : taken));
      }
    }
    scores.take_best(budget, found);
  }
};

}  // namespace baselines
