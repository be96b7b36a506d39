// LSH-MIPS: signs of random projections after a MIPS-to-NNS transform (Neyshabur and Srebro 2015).
//
// A table's code is the AND of `bits` signs; a query reads its own bucket in each of `tables` tables, their OR.
#pragma once

#include <cstdint>
#include <vector>

#include "inner_product.h"
#include "item_marks.h"

namespace baselines {

// The bucket of one item or query: a bit is set where the projection is positive.
inline std::uint32_t hash_code(const float* projected, int bits) {
  std::uint32_t code = 0;
  for (int bit = 0; bit < bits; ++bit) code = 2 * code + (projected[bit] > 0.0f ? 1u : 0u);
  return code;
}

// Counting sort of one table: `projected` is n_items x bits; `bucket_start` has 2^bits + 1 places.
inline void fill_table(const float* projected, std::int64_t n_items, int bits, std::int32_t* bucket_start,
                       std::int32_t* members) {
  const std::int64_t n_buckets = std::int64_t{1} << bits;
  std::vector<std::uint32_t> code(static_cast<std::size_t>(n_items));
  for (std::int64_t b = 0; b <= n_buckets; ++b) bucket_start[b] = 0;
  for (std::int64_t j = 0; j < n_items; ++j) {
    code[j] = hash_code(projected + j * bits, bits);
    ++bucket_start[code[j] + 1];
  }
  for (std::int64_t b = 0; b < n_buckets; ++b) bucket_start[b + 1] += bucket_start[b];
  std::vector<std::int32_t> next(bucket_start, bucket_start + n_buckets);
  for (std::int64_t j = 0; j < n_items; ++j) members[next[code[j]]++] = static_cast<std::int32_t>(j);
}

struct HashTables {
  const float* directions;  // (tables x bits) x stride
  std::int64_t stride;
  std::int64_t n_items;
  int filled_bits;      // of the codes by which the tables are sorted
  int bits;             // how many of them a query compares, the first ones: a bucket of it is several that lie together
  std::int64_t tables;  // how many of the tables it reads, the first ones
  const std::int32_t* bucket_start;
  const std::int32_t* members;
  ItemMarks marks;

  explicit HashTables(std::int64_t n) : n_items(n), marks(n) {}

  void screen(const float* query, std::vector<std::int32_t>& found) {
    projected_.resize(static_cast<std::size_t>(bits));
    const std::int64_t starts = (std::int64_t{1} << filled_bits) + 1;
    for (std::int64_t table = 0; table < tables; ++table) {
      const float* own = directions + table * filled_bits * stride;
      greedy::inner_product_kernel().score_block(own, stride, query, bits, projected_.data());
      const std::int64_t code = hash_code(projected_.data(), bits);
      const std::int32_t* start = bucket_start + table * starts;
      const std::int32_t end = start[(code + 1) << (filled_bits - bits)];
      const std::int32_t* member = members + table * n_items;
      for (std::int32_t i = start[code << (filled_bits - bits)]; i < end; ++i) {
        if (marks.mark(member[i])) found.push_back(member[i]);
      }
    }
    marks.forget(found);
  }

 private:
  std::vector<float> projected_;
};

}  // namespace baselines
