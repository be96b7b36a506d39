// The items that a request allows, a bit for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace greedy {

// A view; the arrays belong to the caller. Without words all items are eligible.
struct EligibleItems {
  const std::uint64_t* words = nullptr;
  std::int64_t count = 0;
  const std::int32_t* listed = nullptr;  // all of them, ascending; null where they are many
  const std::int32_t* spread = nullptr;  // some of them, evenly spread over all
  std::int64_t n_spread = 0;

  // List entries and neighbours that a search may look at for each eligible item: about what its exact product costs. A search that
  // finds too few eligible items on its way takes the rest as they come.
  static constexpr std::int64_t kEntries = 16;

  bool all() const { return words == nullptr; }
  bool has(std::int32_t item) const {
    return words == nullptr || (words[static_cast<std::size_t>(item) / 64] >> (item & 63) & 1);
  }
  std::int64_t most_entries() const { return all() ? std::numeric_limits<std::int64_t>::max() : kEntries * count; }
};

// Goes through the eligible items in ascending order. There must be words.
class EligibleCursor {
 public:
  EligibleCursor(const EligibleItems& eligible, std::int64_t n_items)
      : eligible_(eligible), n_words_((n_items + 63) / 64), bits_(eligible.words[0]) {}

  // The next item, or -1 after the last.
  std::int32_t next() {
    if (eligible_.listed != nullptr) return at_ < eligible_.count ? eligible_.listed[at_++] : -1;
    while (bits_ == 0) {
      if (++at_ >= n_words_) return -1;
      bits_ = eligible_.words[at_];
    }
    const auto item = static_cast<std::int32_t>(64 * at_) + __builtin_ctzll(bits_);
    bits_ &= bits_ - 1;
    return item;
  }

 private:
  const EligibleItems& eligible_;
  std::int64_t n_words_;
  std::int64_t at_ = 0;  // the place in the list, or the word
  std::uint64_t bits_;   // what is left of the word
};

}  // namespace greedy
