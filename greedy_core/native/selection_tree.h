// Algorithm 6: a tournament over the heads of the active lists.
#pragma once

#include <cstddef>
#include <vector>

#include "joint_entry.h"

namespace greedy {

class SelectionTree {
 public:
  void assign(const std::vector<JointEntry>& heads) {
    n_leaves_ = 1;
    while (n_leaves_ < heads.size()) n_leaves_ *= 2;
    buf_.assign(2 * n_leaves_, kExhausted);
    for (std::size_t t = 0; t < heads.size(); ++t) buf_[n_leaves_ + t] = heads[t];
    for (std::size_t i = n_leaves_ - 1; i > 0; --i) buf_[i] = winner(2 * i);
  }

  bool empty() const { return buf_[1].z == kExhausted.z; }
  const JointEntry& top() const { return buf_[1]; }
  void replace_top(const JointEntry& next) { update_value(next.t, next); }
  void remove_top() { update_value(buf_[1].t, kExhausted); }

 private:
  const JointEntry& winner(std::size_t left) const {
    return ranks_before(buf_[left + 1], buf_[left]) ? buf_[left + 1] : buf_[left];
  }

  void update_value(std::int32_t t, const JointEntry& entry) {
    std::size_t i = n_leaves_ + static_cast<std::size_t>(t);
    buf_[i] = entry;
    while (i > 1) {
      i /= 2;
      buf_[i] = winner(2 * i);
    }
  }

  std::size_t n_leaves_ = 1;
  std::vector<JointEntry> buf_;
};

}  // namespace greedy
