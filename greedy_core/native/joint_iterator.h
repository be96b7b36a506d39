// Algorithm 3: all entries (j, t) in the order of the joint ranking pi(j,t|w), by a k-way merge.
#pragma once

#include <vector>

#include "conditional_iterator.h"
#include "query_scratch.h"

namespace greedy {

// Algorithm 2, query-dependent pre-processing: an iterator and a head for every active list.
inline void preprocess_query(QueryScratch& scratch, std::int64_t depth) {
  scratch.iters.clear();
  scratch.heads.clear();
  for (const ActiveList& list : scratch.active) {
    const auto t = static_cast<std::int32_t>(scratch.iters.size());
    scratch.iters.emplace_back(list, depth);
    scratch.heads.push_back({list.z(0), list.ids[0], t});
  }
}

// Queue is MaxHeap or SelectionTree.
template <class Queue>
class JointIterator {
 public:
  JointIterator(QueryScratch& scratch, Queue& queue, std::int64_t depth) : iters_(scratch.iters), queue_(queue) {
    preprocess_query(scratch, depth);
    queue_.assign(scratch.heads);
  }

  bool exhausted() const { return queue_.empty(); }
  const JointEntry& current() const { return queue_.top(); }

  void get_next() {
    const std::int32_t t = queue_.top().t;
    ConditionalIterator& iter = iters_[static_cast<std::size_t>(t)];
    if (iter.has_next()) {
      const std::int32_t j = iter.get_next();
      queue_.replace_top({iter.z(), j, t});
    } else {
      queue_.remove_top();
    }
  }

 private:
  std::vector<ConditionalIterator>& iters_;
  Queue& queue_;
};

}  // namespace greedy
