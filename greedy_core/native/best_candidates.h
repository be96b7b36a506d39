// Keeps the best of many candidates without sorting them: a histogram finds the cut, one pass makes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "query_scratch.h"

namespace greedy {

// Candidates by key descending, ties by id.
inline bool key_ranks_before(const std::pair<double, std::int32_t>& a, const std::pair<double, std::int32_t>& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

// Cuts scratch.candidates[from..] and their keys to the best `count`; their order is left open. All those keys are >= low.
inline void keep_best(QueryScratch& scratch, std::size_t from, std::size_t count, double low) {
  constexpr std::int32_t kBuckets = 1024;
  auto& ids = scratch.candidates;
  auto& keys = scratch.keys;
  if (ids.size() - from <= count) return;

  double high = low;
  for (std::size_t i = from; i < keys.size(); ++i) high = std::max(high, keys[i]);
  const double scale = high > low ? kBuckets / (high - low) : 0.0;
  const auto bucket = [=](double key) {
    return std::min(kBuckets - 1, static_cast<std::int32_t>((key - low) * scale));
  };
  auto& histogram = scratch.histogram;
  histogram.assign(kBuckets, 0);
  for (std::size_t i = from; i < keys.size(); ++i) ++histogram[static_cast<std::size_t>(bucket(keys[i]))];

  // Buckets above `cut` are kept whole; of `cut` itself, only the best.
  std::int32_t cut = kBuckets - 1;
  std::size_t above = 0;
  while (above + static_cast<std::size_t>(histogram[static_cast<std::size_t>(cut)]) < count) {
    above += static_cast<std::size_t>(histogram[static_cast<std::size_t>(cut--)]);
  }
  auto& boundary = scratch.boundary;
  boundary.clear();
  std::size_t kept = from;
  for (std::size_t i = from; i < keys.size(); ++i) {
    const std::int32_t b = bucket(keys[i]);
    if (b > cut) {
      keys[kept] = keys[i];
      ids[kept++] = ids[i];
    } else if (b == cut) {
      boundary.emplace_back(keys[i], ids[i]);
    }
  }
  const std::size_t rest = count - above;
  std::nth_element(boundary.begin(), boundary.begin() + static_cast<std::ptrdiff_t>(rest - 1), boundary.end(),
                   key_ranks_before);
  for (std::size_t i = 0; i < rest; ++i) {
    keys[kept] = boundary[i].first;
    ids[kept++] = boundary[i].second;
  }
  keys.resize(kept);
  ids.resize(kept);
}

// Puts candidates[from..] into the greedy order.
inline void sort_candidates(QueryScratch& scratch, std::size_t from) {
  auto& boundary = scratch.boundary;
  boundary.clear();
  for (std::size_t i = from; i < scratch.keys.size(); ++i) boundary.emplace_back(scratch.keys[i], scratch.candidates[i]);
  std::sort(boundary.begin(), boundary.end(), key_ranks_before);
  for (std::size_t i = from; i < scratch.keys.size(); ++i) {
    scratch.keys[i] = boundary[i - from].first;
    scratch.candidates[i] = boundary[i - from].second;
  }
}

}  // namespace greedy
