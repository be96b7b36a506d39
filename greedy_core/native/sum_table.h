// The sum of the products that a query has seen of each item.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "inner_product.h"

namespace greedy {

// Sums are fixed-point, so that they do not depend on the order of the lists; the lowest bit is a flag. All sums are zero between
// queries. Entries are collected first and added later, so that their sums can be prefetched across the ends of lists.
class SumTable {
 public:
  void begin(std::int64_t n_items) {
    if (sums_.size() < static_cast<std::size_t>(n_items)) sums_.resize(static_cast<std::size_t>(n_items), 0);
    in_sight.clear();
    n_noted_ = n_added_ = 0;
  }

  // Sets an excluded item's flag before any entry is added, so that `add` never puts the item in sight.
  void exclude(std::int32_t j) { sums_[static_cast<std::size_t>(j)] = kInSight; }

  // Makes room for notes of so many entries.
  void expect(std::int64_t entries) {
    const std::size_t size = n_noted_ + static_cast<std::size_t>(entries + std::max<std::int64_t>(kChunk, kSpare));
    if (ids_.size() < size) {
      ids_.resize(2 * size);
      products_.resize(2 * size);
    }
  }

  // Notes n entries of a list, each by its value above the tail times `scale`. `readable` >= n entries may be touched.
  void note(const std::int32_t* ids, const float* values, std::int32_t n, std::int64_t readable, float tail, float scale) {
    std::int32_t* const to = ids_.data() + n_noted_;
    std::int32_t* const products = products_.data() + n_noted_;
    n_noted_ += static_cast<std::size_t>(n);
    if (readable < n + kChunk) {
      for (std::int32_t r = 0; r < n; ++r) {
        to[r] = ids[r];
        products[r] = fixed_point(values[r] - tail, scale);
      }
      return;
    }
    // Most lists contribute few entries. Whole chunks are copied without a branch per entry; the next list overwrites the surplus.
    std::int32_t r = 0;
    do {
      std::memcpy(to + r, ids + r, kChunk * sizeof(std::int32_t));
      for (std::int32_t i = 0; i < kChunk; ++i) products[r + i] = fixed_point(values[r + i] - tail, scale);
      r += kChunk;
    } while (r < n);
  }

  // The same for those of them whose items have a bit in `eligible`.
  void note_eligible(const std::int32_t* ids, const float* values, std::int32_t n, const std::uint64_t* eligible, float tail, float scale) {
    if (gains_.size() < static_cast<std::size_t>(n + kSpare)) gains_.resize(2 * static_cast<std::size_t>(n + kSpare));
    std::int32_t* const products = products_.data() + n_noted_;
    float* const gains = gains_.data();
    const std::int64_t found = inner_product_kernel().find_marked(ids, values, n, eligible, ids_.data() + n_noted_, gains);
    n_noted_ += static_cast<std::size_t>(found);
    for (std::int64_t i = 0; i < found; ++i) products[i] = fixed_point(gains[i] - tail, scale);
  }

  // Adds what was noted since the last time; items that it names are in sight from now on.
  void add() {
    const std::size_t before = in_sight.size();
    in_sight.resize(before + n_noted_ - n_added_);
    std::int32_t* next = in_sight.data() + before;
    for_each_new([&](std::int32_t& sum, std::int32_t j, std::int32_t product) {
      *next = j;
      next += (sum & kInSight) == 0;
      sum = (sum + product) | kInSight;
    });
    in_sight.resize(static_cast<std::size_t>(next - in_sight.data()));
  }

  // Subtracts it instead; that brings nothing into sight.
  void subtract() {
    for_each_new([](std::int32_t& sum, std::int32_t, std::int32_t product) { sum -= product; });
  }

  // The sums of the items in sight.
  void copy_sums(std::vector<std::int32_t>& keys) const {
    keys.resize(in_sight.size());
    for (std::size_t i = 0; i < in_sight.size(); ++i) keys[i] = sums_[static_cast<std::size_t>(in_sight[i])] >> 1;
  }

  // Makes all sums zero again.
  void end(const std::vector<std::int32_t>& excluded) {
    for (std::size_t i = 0; i < n_noted_; ++i) sums_[static_cast<std::size_t>(ids_[i])] = 0;
    for (std::int32_t j : excluded) sums_[static_cast<std::size_t>(j)] = 0;
  }

  std::vector<std::int32_t> in_sight;  // items that may be chosen

 private:
  static constexpr std::int32_t kInSight = 1;
  static constexpr std::int32_t kChunk = 8;
  static constexpr std::size_t kAhead = 24;

  // Clamped, because the surplus of a chunk may hold any value.
  static std::int32_t fixed_point(float gain, float scale) {
    return static_cast<std::int32_t>(std::min(std::max(0.0f, gain * scale), static_cast<float>(1 << 29))) * 2;
  }

  // update(sum, j, product) for every entry not yet added; sums are prefetched.
  template <class Update>
  void for_each_new(Update update) {
    std::int32_t* const sums = sums_.data();
    const std::int32_t* const ids = ids_.data();
    const std::int32_t* const products = products_.data();
    std::size_t r = n_added_;
    for (; r + kAhead < n_noted_; ++r) {
      __builtin_prefetch(sums + ids[r + kAhead], 1, 3);
      update(sums[ids[r]], ids[r], products[r]);
    }
    for (; r < n_noted_; ++r) update(sums[ids[r]], ids[r], products[r]);
    n_added_ = n_noted_;
  }

  std::vector<std::int32_t> sums_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> products_;
  std::vector<float> gains_;  // of one list
  std::size_t n_noted_ = 0;
  std::size_t n_added_ = 0;
};

}  // namespace greedy
