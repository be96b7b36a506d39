// The max-heap Q of algorithm 2: at most one entry per active list.
#pragma once

#include <algorithm>
#include <vector>

#include "joint_entry.h"

namespace greedy {

class MaxHeap {
 public:
  void assign(const std::vector<JointEntry>& heads) {
    entries_.assign(heads.begin(), heads.end());
    std::make_heap(entries_.begin(), entries_.end(), ranks_after);
  }

  bool empty() const { return entries_.empty(); }
  const JointEntry& top() const { return entries_.front(); }

  // Q.pop() followed by Q.push(next).
  void replace_top(const JointEntry& next) {
    remove_top();
    entries_.push_back(next);
    std::push_heap(entries_.begin(), entries_.end(), ranks_after);
  }

  void remove_top() {
    std::pop_heap(entries_.begin(), entries_.end(), ranks_after);
    entries_.pop_back();
  }

 private:
  static bool ranks_after(const JointEntry& a, const JointEntry& b) { return ranks_before(b, a); }

  std::vector<JointEntry> entries_;
};

}  // namespace greedy
