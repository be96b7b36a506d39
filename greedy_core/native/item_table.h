// Which items a query has met: `visited` of algorithm 5, as a hash table whose slots carry the query's epoch.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace greedy {

// Its size follows the budget and not the number of items, so that it stays in the first caches. Starting a query
// is one increment: slots of earlier epochs count as empty.
class ItemTable {
 public:
  static constexpr std::int32_t kExcluded = -1;

  // Forgets everything and makes room for about `expected` items; grows by itself when more come.
  void begin(std::size_t expected) {
    std::size_t capacity = 64;
    while (capacity < 3 * expected) capacity *= 2;
    resize(capacity);
    size_ = 0;
    if (++epoch_ == 0) {
      slots_.assign(slots_.size(), Slot{});
      epoch_ = 1;
    }
  }

  // The place that holds the item's position; `fresh` tells whether this call made it (then it holds `position`).
  // Valid until the next call.
  std::int32_t& insert(std::int32_t item, std::int32_t position, bool& fresh) {
    std::size_t at = slot_of(item);
    while (slots_[at].epoch == epoch_) {
      if (slots_[at].item == item) {
        fresh = false;
        return slots_[at].position;
      }
      at = (at + 1) & mask_;
    }
    fresh = true;
    if (2 * ++size_ > mask_) {
      grow();
      at = slot_of(item);
      while (slots_[at].epoch == epoch_) at = (at + 1) & mask_;
    }
    slots_[at] = Slot{epoch_, item, position};
    return slots_[at].position;
  }

  // Marks the item; true if it was not marked before.
  bool mark(std::int32_t item) {
    bool fresh;
    insert(item, 0, fresh);
    return fresh;
  }

  void exclude(std::int32_t item) {
    bool fresh;
    insert(item, kExcluded, fresh) = kExcluded;
  }

  bool contains(std::int32_t item) const {
    for (std::size_t at = slot_of(item); slots_[at].epoch == epoch_; at = (at + 1) & mask_) {
      if (slots_[at].item == item) return true;
    }
    return false;
  }

 private:
  struct Slot {
    std::uint32_t epoch = 0;
    std::int32_t item = 0;
    std::int32_t position = 0;
  };

  // Fibonacci hashing: neighbouring ids, which popular items often are, land far apart.
  std::size_t slot_of(std::int32_t item) const {
    return static_cast<std::size_t>((static_cast<std::uint32_t>(item) * 2654435769u) >> shift_);
  }

  void resize(std::size_t capacity) {
    assert((capacity & (capacity - 1)) == 0);
    if (slots_.size() < capacity) slots_.resize(capacity);
    mask_ = capacity - 1;
    shift_ = 32;
    while (capacity > 1) {
      capacity /= 2;
      --shift_;
    }
  }

  void grow() {
    held_.clear();
    for (std::size_t at = 0; at <= mask_; ++at) {
      if (slots_[at].epoch == epoch_) held_.push_back(slots_[at]);
    }
    for (std::size_t at = 0; at <= mask_; ++at) slots_[at].epoch = 0;
    resize(2 * (mask_ + 1));
    for (const Slot& slot : held_) {
      std::size_t at = slot_of(slot.item);
      while (slots_[at].epoch == epoch_) at = (at + 1) & mask_;
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::vector<Slot> held_;
  std::size_t mask_ = 0;
  int shift_ = 32;
  std::size_t size_ = 0;
  std::uint32_t epoch_ = 0;
};

}  // namespace greedy
