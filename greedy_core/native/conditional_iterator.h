// Algorithm 1: walks one direction's list in the order of the conditional ranking pi_t(j|w).
#pragma once

#include <cstdint>

#include "direction_lists.h"

namespace greedy {

// The sign of w_t has chosen the list (+e_t or -e_t), so the walk always starts at the front.
class ConditionalIterator {
 public:
  ConditionalIterator() = default;
  ConditionalIterator(const ActiveList& list, std::int64_t length) : list_(&list), length_(length) {}

  std::int32_t current() const { return list_->ids[ptr_]; }
  double z() const { return list_->z(ptr_); }
  bool has_next() const { return ptr_ + 1 < length_; }
  std::int32_t get_next() { return list_->ids[++ptr_]; }

 private:
  const ActiveList* list_ = nullptr;
  std::int64_t length_ = 0;
  std::int64_t ptr_ = 0;
};

}  // namespace greedy
