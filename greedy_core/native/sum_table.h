// The sum of the products that a query has seen of each item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace greedy {

// Sums are fixed-point, so that they do not depend on the order of the lists; the lowest bits are flags. All sums are zero
// between queries.
class SumTable {
 public:
  // Flags of an item: it has a positive product (or is excluded); it got its first one in this round.
  static constexpr std::int32_t kInSight = 1;
  static constexpr std::int32_t kFresh = 2;
  static constexpr int kFlagBits = 2;

  void begin(std::int64_t n_items) {
    if (sums_.size() < static_cast<std::size_t>(n_items)) sums_.resize(static_cast<std::size_t>(n_items), 0);
    in_sight.clear();
  }

  // An excluded item looks as if it had been in sight all along, and so never comes into it.
  void exclude(std::int32_t j) { sums_[static_cast<std::size_t>(j)] = kInSight; }

  // Adds `scale` times the values of some entries of a list.
  void add(const std::int32_t* ids, const float* values, std::int32_t n, double scale) {
    multiply(values, n, scale);
    const std::size_t before = in_sight.size();
    in_sight.resize(before + static_cast<std::size_t>(n));
    std::int32_t* next = in_sight.data() + before;
    for_each(ids, n, [&](std::int32_t& sum, std::int32_t j, std::int32_t product) {
      *next = j;
      next += (sum & kInSight) == 0;
      sum = (sum + product) | kInSight | ((~sum & kInSight) * kFresh);
    });
    in_sight.resize(static_cast<std::size_t>(next - in_sight.data()));
  }

  // Subtracts the same, from items that have the flag.
  template <std::int32_t flag>
  void subtract(const std::int32_t* ids, const float* values, std::int32_t n, double scale) {
    multiply(values, n, scale);
    for_each(ids, n, [](std::int32_t& sum, std::int32_t, std::int32_t product) {
      sum -= (sum & flag) != 0 ? product : 0;
    });
  }

  // The sums of the items in sight, none of which is fresh any more.
  void end_round(std::vector<std::int32_t>& keys) {
    keys.resize(in_sight.size());
    for (std::size_t i = 0; i < in_sight.size(); ++i) {
      std::int32_t& sum = sums_[static_cast<std::size_t>(in_sight[i])];
      keys[i] = sum >> kFlagBits;
      sum &= ~kFresh;
    }
  }

  // Makes all sums zero again: those of the items in sight and of others that were or are excluded.
  void end(const std::vector<std::int32_t>& chosen, const std::vector<std::int32_t>& excluded) {
    const std::vector<std::int32_t>* const written[] = {&in_sight, &chosen, &excluded};
    for (const auto* ids : written) {
      for (std::int32_t j : *ids) sums_[static_cast<std::size_t>(j)] = 0;
    }
  }

  std::vector<std::int32_t> in_sight;  // items that may be chosen

 private:
  static constexpr std::int32_t kAhead = 16;

  void multiply(const float* values, std::int32_t n, double scale) {
    if (products_.size() < static_cast<std::size_t>(n)) products_.resize(static_cast<std::size_t>(n));
    std::int32_t* products = products_.data();
    for (std::int32_t r = 0; r < n; ++r) products[r] = static_cast<std::int32_t>(values[r] * scale) * (1 << kFlagBits);
  }

  // update(sum, j, product) for every entry, asking memory for the sums ahead of their turn.
  template <class Update>
  void for_each(const std::int32_t* ids, std::int32_t n, Update update) {
    std::int32_t* sums = sums_.data();
    const std::int32_t* products = products_.data();
    std::int32_t r = 0;
    for (; r + kAhead < n; ++r) {
      __builtin_prefetch(sums + ids[r + kAhead], 1, 3);
      update(sums[ids[r]], ids[r], products[r]);
    }
    for (; r < n; ++r) update(sums[ids[r]], ids[r], products[r]);
  }

  std::vector<std::int32_t> sums_;
  std::vector<std::int32_t> products_;
};

}  // namespace greedy
