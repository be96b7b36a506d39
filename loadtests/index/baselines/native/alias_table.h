// Draws from a discrete distribution in constant time (Walker's alias method, Vose's construction).
//
// The paper's authors draw from an F+tree in O(log n). This is faster, which favours the sampling methods.
#pragma once

#include <cstdint>
#include <vector>

namespace baselines {

// The generator of every sampling method here: splitmix64, short enough to repeat in a reference.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

// A slot keeps its own number with probability keep / 2^32 and gives `other` otherwise.
struct AliasSlot {
  std::uint32_t keep;
  std::int32_t other;
};

// The upper half of the bits picks the slot, the lower half decides inside it.
inline std::int64_t alias_slot(std::uint64_t random, std::int64_t n) {
  return static_cast<std::int64_t>(((random >> 32) * static_cast<std::uint64_t>(n)) >> 32);
}

inline std::int32_t alias_value(const AliasSlot* slots, std::int64_t slot, std::uint64_t random) {
  return static_cast<std::uint32_t>(random) < slots[slot].keep ? static_cast<std::int32_t>(slot)
                                                               : slots[slot].other;
}

// Fills n slots for weights that are not negative; returns their sum. A sum of 0 leaves every slot to itself.
template <class Weight>
double fill_alias_table(const Weight* weights, std::int64_t n, AliasSlot* slots) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += weights[i];
  std::vector<double> share(static_cast<std::size_t>(n));
  std::vector<std::int32_t> small, large;
  for (std::int64_t i = 0; i < n; ++i) {
    slots[i] = AliasSlot{0xffffffffu, static_cast<std::int32_t>(i)};
    share[i] = sum > 0.0 ? weights[i] * (static_cast<double>(n) / sum) : 1.0;
    (share[i] < 1.0 ? small : large).push_back(static_cast<std::int32_t>(i));
  }
  while (!small.empty() && !large.empty()) {
    const std::int32_t poor = small.back(), rich = large.back();
    small.pop_back();
    slots[poor] = AliasSlot{static_cast<std::uint32_t>(share[poor] * 4294967296.0), rich};
    share[rich] -= 1.0 - share[poor];
    if (share[rich] < 1.0) {
      large.pop_back();
      small.push_back(rich);
    }
  }
  // What is left differs from 1 by rounding only, and keeps its own number.
  return sum;
}

}  // namespace baselines
