// One entry (j, t) of the implicit matrix Z, as the queues of the merge hold it.
#pragma once

#include <cstdint>
#include <limits>

namespace greedy {

struct JointEntry {
  double z;
  std::int32_t j;
  std::int32_t t;
};

// What an exhausted list shows: behind every real entry.
constexpr JointEntry kExhausted = {-std::numeric_limits<double>::infinity(), std::numeric_limits<std::int32_t>::max(), 0};

// The joint ranking: z descending, ties by item id.
inline bool ranks_before(const JointEntry& a, const JointEntry& b) { return a.z > b.z || (a.z == b.z && a.j < b.j); }

}  // namespace greedy
