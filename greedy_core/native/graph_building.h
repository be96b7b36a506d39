// Making the graph that walks follow: near items, and of these the ones that lead in different directions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "inner_product.h"

namespace greedy {

// Vectors between which distances are wanted, padded like the rows of an index, and the square of each one's length.
struct Space {
  const float* vectors;
  const float* squares;
  std::int64_t stride;

  float squared_distance(std::int64_t a, std::int64_t b) const {
    float product;
    inner_product_kernel().score_block(vectors + b * stride, stride, vectors + a * stride, 1, &product);
    return squares[a] + squares[b] - 2.0f * product;
  }
  void prefetch(std::int64_t item) const {
    for (std::int64_t t = 0; t < stride; t += kLaneBlock) __builtin_prefetch(vectors + item * stride + t, 0, 3);
  }
};

struct Near {
  float distance;
  std::int32_t id;
};

inline bool nearer(const Near& a, const Near& b) { return a.distance < b.distance || (a.distance == b.distance && a.id < b.id); }

// Of the n members of a group, the `count` nearest to member i, into out; -1 where there are fewer. products[m] = <v_i, v_m>.
inline void nearest_members(const float* products, const float* squares, const std::int32_t* members, std::int64_t n, std::int64_t i,
                            std::int64_t count, std::vector<Near>& near, std::int32_t* out) {
  const auto wanted = static_cast<std::size_t>(count);
  near.clear();
  float worst = std::numeric_limits<float>::infinity();
  const auto cut = [&] {
    std::nth_element(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(wanted) - 1, near.end(), nearer);
    near.resize(wanted);
    worst = near.back().distance;
  };
  for (std::int64_t m = 0; m < n; ++m) {
    const float distance = squares[m] - 2.0f * products[m];
    if (distance > worst || m == i) continue;
    near.push_back({distance, members[m]});
    if (near.size() == 4 * wanted) cut();
  }
  if (near.size() > wanted) cut();
  std::sort(near.begin(), near.end(), nearer);
  for (std::size_t place = 0; place < wanted; ++place) out[place] = place < near.size() ? near[place].id : -1;
}

// Rows of ids by the ids: those that name j are sources[starts[j]] to sources[starts[j + 1]].
struct ReverseEdges {
  std::vector<std::int64_t> starts;
  std::vector<std::int32_t> sources;

  void assign(const std::int32_t* edges, std::int64_t n_rows, std::int64_t degree, std::int64_t n_ids) {
    starts.assign(static_cast<std::size_t>(n_ids) + 1, 0);
    for (std::int64_t e = 0; e < n_rows * degree; ++e) {
      if (edges[e] >= 0) ++starts[static_cast<std::size_t>(edges[e]) + 1];
    }
    for (std::size_t j = 1; j < starts.size(); ++j) starts[j] += starts[j - 1];
    sources.resize(static_cast<std::size_t>(starts.back()));
    std::vector<std::int64_t> ends(starts.begin(), starts.end() - 1);
    for (std::int64_t e = 0; e < n_rows * degree; ++e) {
      if (edges[e] < 0) continue;
      sources[static_cast<std::size_t>(ends[static_cast<std::size_t>(edges[e])]++)] = static_cast<std::int32_t>(e / degree);
    }
  }
};

// What one thread writes to while it builds.
struct BuildScratch {
  std::vector<Near> near;
  std::vector<std::int32_t> kept;
  std::vector<std::int32_t> left;
  std::vector<std::pair<std::int32_t, std::int32_t>> counted;
  std::vector<std::int32_t> others;
};

// Of the items in scratch.near, those that become neighbours of an item, nearest first: one that is nearer to a neighbour than to the item
// is found through that neighbour (the relative-neighbourhood rule). What the rule leaves out takes the places that are left.
inline void keep_neighbours(BuildScratch& scratch, const Space& space, std::int64_t degree, std::int32_t* out) {
  std::vector<Near>& near = scratch.near;
  std::sort(near.begin(), near.end(), nearer);
  near.erase(std::unique(near.begin(), near.end(), [](const Near& a, const Near& b) { return a.id == b.id; }), near.end());
  scratch.kept.clear();
  scratch.left.clear();
  const auto room = static_cast<std::size_t>(degree);
  for (const Near& candidate : near) {
    if (scratch.kept.size() == room) break;
    const bool found_otherwise = std::any_of(scratch.kept.begin(), scratch.kept.end(), [&](std::int32_t kept) {
      return space.squared_distance(candidate.id, kept) < candidate.distance;
    });
    (found_otherwise ? scratch.left : scratch.kept).push_back(candidate.id);
  }
  for (std::size_t i = 0; scratch.kept.size() < room && i < scratch.left.size(); ++i) scratch.kept.push_back(scratch.left[i]);
  for (std::size_t i = 0; i < room; ++i) out[i] = i < scratch.kept.size() ? scratch.kept[i] : -1;
}

inline void add_near(BuildScratch& scratch, const Space& space, std::int64_t item, const std::int32_t* ids, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (ids[i] >= 0) space.prefetch(ids[i]);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (ids[i] >= 0 && ids[i] != item) scratch.near.push_back({space.squared_distance(item, ids[i]), ids[i]});
  }
}

// The items that stand in the same lists as `item`, most often first. Of an item that is in many lists, some are looked at, evenly spread.
// lists: (n_lists, length), -1 where one ends; `in_lists`: which lists an item is in.
inline void listed_together(BuildScratch& scratch, const std::int32_t* lists, std::int64_t length, const ReverseEdges& in_lists,
                            std::int64_t item, std::int64_t most_lists, std::int64_t count, std::int32_t* out) {
  const std::int64_t start = in_lists.starts[static_cast<std::size_t>(item)];
  const std::int64_t n = in_lists.starts[static_cast<std::size_t>(item) + 1] - start;
  const std::int64_t looked_at = std::min(n, most_lists);
  scratch.others.clear();
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const std::int32_t list = in_lists.sources[static_cast<std::size_t>(start + i * n / looked_at)];
    for (std::int64_t place = 0; place < length; ++place) {
      const std::int32_t other = lists[list * length + place];
      if (other >= 0 && other != item) scratch.others.push_back(other);
    }
  }
  std::sort(scratch.others.begin(), scratch.others.end());
  scratch.counted.clear();
  for (std::size_t i = 0, end; i < scratch.others.size(); i = end) {
    end = i + 1;
    while (end < scratch.others.size() && scratch.others[end] == scratch.others[i]) ++end;
    scratch.counted.push_back({-static_cast<std::int32_t>(end - i), scratch.others[i]});
  }
  std::sort(scratch.counted.begin(), scratch.counted.end());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) out[i] = i < scratch.counted.size() ? scratch.counted[i].second : -1;
}

}  // namespace greedy
