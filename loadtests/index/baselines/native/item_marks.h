// What a query remembers about items: one bit each, and a list of the marked ones so that forgetting costs no scan.
#pragma once

#include <cstdint>
#include <vector>

namespace baselines {

class ItemMarks {
 public:
  explicit ItemMarks(std::int64_t n_items) : words_((n_items + 63) / 64, 0) {}

  // True if the item was not marked before.
  bool mark(std::int32_t item) {
    std::uint64_t& word = words_[static_cast<std::uint32_t>(item) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (static_cast<std::uint32_t>(item) % 64);
    if (word & bit) return false;
    word |= bit;
    return true;
  }

  void forget(const std::vector<std::int32_t>& items) {
    for (const std::int32_t item : items) words_[static_cast<std::uint32_t>(item) / 64] = 0;
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace baselines
