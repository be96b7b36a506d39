// The best of many items without sorting them: a histogram of their keys finds the cut, one pass makes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace greedy {

// The buckets of a histogram over the eight octaves below the highest key, 32 to an octave: the bits of a positive float are in
// the order of its value. A key below them, or not positive, falls into the last bucket.
class Buckets {
 public:
  static constexpr std::int32_t kCount = 256;

  explicit Buckets(float highest) : top_(bits(highest)) {}
  std::int32_t operator()(float key) const { return std::min(top_ - bits(key), kCount - 1); }
  // The lowest key of the buckets up to b.
  float edge(std::int32_t b) const {
    if (b >= std::min(top_, kCount - 1)) return -std::numeric_limits<float>::infinity();
    const std::int32_t word = (top_ - b) << kShift;
    float key;
    std::memcpy(&key, &word, sizeof key);
    return key;
  }

 private:
  static std::int32_t bits(float key) {
    std::int32_t b;
    std::memcpy(&b, &key, sizeof b);
    return std::max(b, 0) >> kShift;
  }

  static constexpr int kShift = 18;

  std::int32_t top_;
};

template <class Key>
class BestCandidates {
 public:
  // Moves the `count` items with the largest keys, ties by id, to the end of `chosen`, and leaves the others in `ids`; keys[i]
  // belongs to ids[i]. The order of what is chosen is that of the keys if asked, otherwise open.
  void take(std::vector<std::int32_t>& ids, const std::vector<Key>& keys, std::size_t count, bool ordered,
            std::vector<std::int32_t>& chosen) {
    taken_.clear();
    if (ids.size() <= count) {
      for (std::size_t i = 0; i < ids.size(); ++i) taken_.push_back({keys[i], ids[i]});
      ids.clear();
    } else if (count > 0) {
      cut(ids, keys, count);
    }
    if (ordered) std::sort(taken_.begin(), taken_.end(), ranks_before);
    for (const Keyed& item : taken_) chosen.push_back(item.id);
  }

 private:
  struct Keyed {
    Key key;
    std::int32_t id;
  };

  static bool ranks_before(const Keyed& a, const Keyed& b) { return a.key > b.key || (a.key == b.key && a.id < b.id); }

  // Leaves the best `count` in taken_.
  void cut(std::vector<std::int32_t>& ids, const std::vector<Key>& keys, std::size_t count) {
    Key highest = keys[0];
    for (Key key : keys) highest = std::max(highest, key);
    const Buckets bucket(static_cast<float>(highest));
    std::array<std::uint32_t, Buckets::kCount> histogram{};
    for (Key key : keys) ++histogram[static_cast<std::size_t>(bucket(static_cast<float>(key)))];

    // Buckets before `cut` are taken whole; of `cut` itself, only the best.
    std::int32_t cut = 0;
    std::size_t before = 0;
    while (before + histogram[static_cast<std::size_t>(cut)] < count) before += histogram[static_cast<std::size_t>(cut++)];
    const float part = bucket.edge(cut);
    const float whole = cut > 0 ? bucket.edge(cut - 1) : std::numeric_limits<float>::infinity();
    // Nobody can foretell where an item goes: it is written to all three places, and stays in one.
    taken_.resize(keys.size());
    if (boundary_.size() < keys.size()) boundary_.resize(keys.size());
    std::size_t n_taken = 0, n_boundary = 0, n_left = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto key = static_cast<float>(keys[i]);
      const bool in_part = key >= part, in_whole = key >= whole;
      taken_[n_taken] = boundary_[n_boundary] = {keys[i], ids[i]};
      ids[n_left] = ids[i];
      n_taken += in_whole;
      n_boundary += in_part && !in_whole;
      n_left += !in_part;
    }
    const auto rest = static_cast<std::ptrdiff_t>(count - before);
    const auto end = boundary_.begin() + static_cast<std::ptrdiff_t>(n_boundary);
    std::nth_element(boundary_.begin(), boundary_.begin() + (rest - 1), end, ranks_before);
    taken_.resize(n_taken);
    taken_.insert(taken_.end(), boundary_.begin(), boundary_.begin() + rest);
    ids.resize(n_left);
    for (auto item = boundary_.begin() + rest; item != end; ++item) ids.push_back(item->id);
  }

  std::vector<Keyed> boundary_;  // and room for more
  std::vector<Keyed> taken_;
};

}  // namespace greedy
