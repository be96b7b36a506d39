// The best of many items without sorting them: a histogram of their keys finds the cut, one pass makes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace greedy {

constexpr std::int32_t kBucketCount = 1024;

// Which of kBucketCount buckets a key from low to high falls into; a larger key into none below.
template <class Key>
class Buckets {
 public:
  Buckets(Key low, Key high) : low_(low), scale_(high > low ? kBucketCount / (high - low) : 0) {}
  std::int32_t operator()(Key key) const {
    return std::min(kBucketCount - 1, static_cast<std::int32_t>((key - low_) * scale_));
  }

 private:
  Key low_;
  Key scale_;
};

template <>
class Buckets<std::int32_t> {
 public:
  Buckets(std::int32_t low, std::int32_t high) : low_(static_cast<std::uint32_t>(low)) {
    while (place(high) >= static_cast<std::uint32_t>(kBucketCount)) ++shift_;
  }
  std::int32_t operator()(std::int32_t key) const { return static_cast<std::int32_t>(place(key)); }

 private:
  std::uint32_t place(std::int32_t key) const { return (static_cast<std::uint32_t>(key) - low_) >> shift_; }

  std::uint32_t low_;
  int shift_ = 0;
};

template <class Key>
class BestCandidates {
 public:
  // Moves the `count` items with the largest keys, ties by id, to the end of `chosen`, and leaves the others in `ids`; keys[i]
  // belongs to ids[i] and is used up. The order of what is chosen is that of the keys if asked, otherwise open.
  void take(std::vector<std::int32_t>& ids, std::vector<Key>& keys, std::size_t count, bool ordered,
            std::vector<std::int32_t>& chosen) {
    const std::size_t first = chosen.size();
    taken_.clear();
    if (ids.size() <= count) {
      for (std::size_t i = 0; i < ids.size(); ++i) keep(keys[i], ids[i], ordered, chosen);
      ids.clear();
    } else if (count > 0) {
      cut(ids, keys, count, ordered, chosen);
    }
    if (!ordered) return;
    std::sort(taken_.begin(), taken_.end(), ranks_before);
    for (std::size_t i = 0; i < taken_.size(); ++i) chosen[first + i] = taken_[i].second;
  }

 private:
  using Keyed = std::pair<Key, std::int32_t>;

  static bool ranks_before(const Keyed& a, const Keyed& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  }

  void keep(Key key, std::int32_t id, bool ordered, std::vector<std::int32_t>& chosen) {
    chosen.push_back(id);
    if (ordered) taken_.emplace_back(key, id);
  }

  void cut(std::vector<std::int32_t>& ids, const std::vector<Key>& keys, std::size_t count, bool ordered,
           std::vector<std::int32_t>& chosen) {
    Key low = keys[0], high = keys[0];
    for (Key key : keys) {
      low = std::min(low, key);
      high = std::max(high, key);
    }
    const Buckets<Key> bucket(low, high);
    histogram_.assign(kBucketCount, 0);
    for (Key key : keys) ++histogram_[static_cast<std::size_t>(bucket(key))];

    // Buckets above `cut` are taken whole; of `cut` itself, only the best.
    std::int32_t cut = kBucketCount - 1;
    std::size_t above = 0;
    while (above + histogram_[static_cast<std::size_t>(cut)] < count) above += histogram_[static_cast<std::size_t>(cut--)];
    boundary_.clear();
    std::size_t left = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::int32_t b = bucket(keys[i]);
      if (b > cut) {
        keep(keys[i], ids[i], ordered, chosen);
      } else if (b == cut) {
        boundary_.emplace_back(keys[i], ids[i]);
      } else {
        ids[left++] = ids[i];
      }
    }
    const std::size_t rest = count - above;
    std::nth_element(boundary_.begin(), boundary_.begin() + static_cast<std::ptrdiff_t>(rest - 1), boundary_.end(), ranks_before);
    for (std::size_t i = 0; i < boundary_.size(); ++i) {
      if (i < rest) {
        keep(boundary_[i].first, boundary_[i].second, ordered, chosen);
      } else {
        ids[left++] = boundary_[i].second;
      }
    }
    ids.resize(left);
  }

  std::vector<std::uint32_t> histogram_;
  std::vector<Keyed> boundary_;
  std::vector<Keyed> taken_;
};

}  // namespace greedy
