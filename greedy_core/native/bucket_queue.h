// A queue that gives the item with about the largest key: a stack of items for each of 1,024 ranges of keys.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace greedy {

// Ranges of positive floats, 64 to an octave, for the sixteen octaves below `highest`; the first range has everything above, the
// last everything below, and all that is not positive. A step is one to two parts in a hundred: finer than two bits can tell.
class KeyRanges {
 public:
  static constexpr std::int32_t kCount = 1024;
  static constexpr int kShift = 17;

  KeyRanges() = default;
  explicit KeyRanges(std::int32_t top) : top_(top) {}
  void begin(float highest) { top_ = bits(highest); }
  std::int32_t top() const { return top_; }  // the bits of the first range's keys
  std::int32_t operator()(float key) const { return std::clamp(top_ - bits(key), 0, kCount - 1); }

 private:
  // The bits of a positive float are in the order of its value.
  static std::int32_t bits(float key) {
    std::int32_t b;
    std::memcpy(&b, &key, sizeof b);
    return std::max(b, 0) >> kShift;
  }

  std::int32_t top_ = 0;
};

// The same for keys of both signs, 32 to an octave. Where all that is left is worse than the average item, those that are least so come first.
class SignedKeyRanges {
 public:
  void begin(float highest) { top_ = bits(highest); }
  std::int32_t operator()(float key) const {
    const std::int32_t distance = std::clamp(top_ - bits(std::fabs(key)), 0, KeyRanges::kCount / 2 - 1);
    // kCount - 1 - distance for a key that is not positive. Nobody can foretell signs, so there is no branch.
    return distance ^ (-static_cast<std::int32_t>(!(key > 0.0f)) & (KeyRanges::kCount - 1));
  }

 private:
  static std::int32_t bits(float key) {
    std::int32_t b;
    std::memcpy(&b, &key, sizeof b);
    return b >> 18;
  }

  std::int32_t top_ = 0;
};

// Both operations take constant time, and emptying it takes as long as writing 1,024 heads: a heap of as many thousand items as
// a walk meets costs more than their products. Among items of one range the last pushed comes first.
class BucketQueue {
 public:
  void clear() {
    words_.fill(0);
    heads_.fill(-1);
    size_ = 0;
    best_ = kWords;
  }

  bool empty() {
    while (best_ < kWords && words_[best_] == 0) ++best_;
    return best_ == kWords;
  }

  // The range of the item that comes next; the queue must not be empty.
  std::int32_t best() {
    while (words_[best_] == 0) ++best_;
    return static_cast<std::int32_t>(best_ * 64 + static_cast<std::size_t>(__builtin_ctzll(words_[best_])));
  }

  // Makes room for n more items.
  void expect(std::size_t n) {
    if (entries_.size() < size_ + n) entries_.resize(2 * (size_ + n));
  }

  // There must be room.
  void push(std::int32_t range, std::int32_t item) {
    const auto at = static_cast<std::size_t>(range);
    const std::size_t word = at / 64;
    entries_[size_] = {item, heads_[at]};
    heads_[at] = static_cast<std::int32_t>(size_++);
    words_[word] |= std::uint64_t{1} << (at % 64);
    best_ = std::min(best_, word);
  }

  // The items first, first + 1 and so on, to these ranges.
  void push_each(const std::int32_t* ranges, std::size_t n, std::int32_t first) {
    expect(n);
    Entry* const entries = entries_.data() + size_;
    const auto below = static_cast<std::int32_t>(size_);
    std::size_t best = best_;
    for (std::size_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(ranges[i]);
      entries[i] = {first + static_cast<std::int32_t>(i), heads_[at]};
      heads_[at] = below + static_cast<std::int32_t>(i);
      words_[at / 64] |= std::uint64_t{1} << (at % 64);
      best = std::min(best, at / 64);
    }
    best_ = best;
    size_ += n;
  }

  // The queue must not be empty. `range` tells where the item was.
  std::int32_t pop(std::int32_t& range) {
    range = best();
    const auto at = static_cast<std::size_t>(range);
    const Entry entry = entries_[static_cast<std::size_t>(heads_[at])];
    heads_[at] = entry.below;
    if (entry.below < 0) words_[best_] &= words_[best_] - 1;
    return entry.item;
  }

 private:
  static constexpr std::size_t kWords = KeyRanges::kCount / 64;

  struct Entry {
    std::int32_t item;
    std::int32_t below;  // the entry pushed before it to the same range, or -1
  };

  std::array<std::uint64_t, kWords> words_{};  // which ranges have items; the first range is the lowest bit of the first word
  std::array<std::int32_t, KeyRanges::kCount> heads_{};  // the last entry of each range, or -1
  std::vector<Entry> entries_;  // the first size_ of them
  std::size_t size_ = 0;
  std::size_t best_ = kWords;  // no word before it has a bit
};

}  // namespace greedy
