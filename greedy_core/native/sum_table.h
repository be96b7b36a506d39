// The sum of the products that a query has seen of each item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace greedy {

// Sums are fixed-point, so that they do not depend on the order of the lists; the two lowest bits are flags.
constexpr std::int32_t kInSight = 1;    // among the items that may be chosen, chosen, or excluded
constexpr std::int32_t kOnRecord = 2;   // written by a negative entry, to be cleared at the end
constexpr std::int32_t kFlagBits = 2;

// The sums of one query; all zero between queries.
class SumTable {
 public:
  void begin(std::int64_t n_items) {
    if (sums_.size() < static_cast<std::size_t>(n_items)) sums_.resize(static_cast<std::size_t>(n_items), 0);
    in_sight.clear();
    negative_.clear();
  }

  void exclude(std::int32_t j) { sums_[static_cast<std::size_t>(j)] = kInSight; }
  std::int32_t sum(std::int32_t j) const { return sums_[static_cast<std::size_t>(j)] >> kFlagBits; }

  // Adds `scale` times the values of some entries of a list.
  void add(const std::int32_t* ids, const float* values, std::int32_t n, double scale) {
    in_sight.resize(in_sight.size() + static_cast<std::size_t>(n));
    std::int32_t* next = in_sight.data() + in_sight.size() - n;
    for (std::int32_t r = 0; r < n; ++r) {
      if (r + kAhead < n) __builtin_prefetch(&sums_[static_cast<std::size_t>(ids[r + kAhead])], 1, 3);
      std::int32_t& sum = sums_[static_cast<std::size_t>(ids[r])];
      *next = ids[r];
      next += (sum & kInSight) == 0;
      sum = (sum + (static_cast<std::int32_t>(values[r] * scale) << kFlagBits)) | kInSight;
    }
    in_sight.resize(static_cast<std::size_t>(next - in_sight.data()));
  }

  // The same for entries of the opposite end, which alone bring no item into sight.
  void subtract(const std::int32_t* ids, const float* values, std::int32_t n, double scale) {
    negative_.resize(negative_.size() + static_cast<std::size_t>(n));
    std::int32_t* next = negative_.data() + negative_.size() - n;
    for (std::int32_t r = 0; r < n; ++r) {
      if (r + kAhead < n) __builtin_prefetch(&sums_[static_cast<std::size_t>(ids[r + kAhead])], 1, 3);
      std::int32_t& sum = sums_[static_cast<std::size_t>(ids[r])];
      *next = ids[r];
      next += (sum & (kInSight | kOnRecord)) == 0;
      sum = (sum - (static_cast<std::int32_t>(values[r] * scale) << kFlagBits)) | kOnRecord;
    }
    negative_.resize(static_cast<std::size_t>(next - negative_.data()));
  }

  // Clears every sum that was written: those of the items in sight, of `chosen` and of `excluded`, and the negative ones.
  void end(const std::vector<std::int32_t>& chosen, const std::vector<std::int32_t>& excluded) {
    const std::vector<std::int32_t>* const written[] = {&in_sight, &negative_, &chosen, &excluded};
    for (const auto* ids : written) {
      for (std::int32_t j : *ids) sums_[static_cast<std::size_t>(j)] = 0;
    }
  }

  std::vector<std::int32_t> in_sight;  // items with a positive entry that are neither chosen nor excluded

 private:
  static constexpr std::int32_t kAhead = 16;

  std::vector<std::int32_t> sums_;
  std::vector<std::int32_t> negative_;
};

}  // namespace greedy
