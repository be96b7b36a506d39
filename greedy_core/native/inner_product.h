// Inner products of one query with many rows, for the instruction set chosen at run time.
//
// Every kernel adds up in the same order (32 lanes, fused multiply-add, one fixed tree at the end), so the same
// row and query give the same bits on every machine of a fleet, whichever kernel its CPU picks.
#pragma once

#include <cstdint>

namespace greedy {

// Rows are padded with zeros to whole cache lines: a stride is a multiple of this many floats. Rows of 16 bits have the same stride,
// in values, and so may begin in the middle of a line.
constexpr std::int64_t kLaneBlock = 16;

// How many places behind its results a kernel may write to.
constexpr std::int64_t kSpare = 16;

struct InnerProductKernel {
  const char* name;
  // out[i] = <query, row i> for the n rows that lie one after the other from `rows`.
  void (*score_block)(const float* rows, std::int64_t stride, const float* query, std::int64_t n, float* out);
  // out[i] = <query, row ids[i]>, fetching rows ahead of their use.
  void (*score_rows)(const float* rows, std::int64_t stride, const float* query, const std::int32_t* ids,
                     std::int64_t n, float* out);
  // The same on rows of 16 bits, each value widened to float32 before it is multiplied.
  void (*score_block_float16)(const std::uint16_t* rows, std::int64_t stride, const float* query, std::int64_t n, float* out);
  void (*score_rows_float16)(const std::uint16_t* rows, std::int64_t stride, const float* query, const std::int32_t* ids,
                             std::int64_t n, float* out);
  void (*score_block_bfloat16)(const std::uint16_t* rows, std::int64_t stride, const float* query, std::int64_t n, float* out);
  void (*score_rows_bfloat16)(const std::uint16_t* rows, std::int64_t stride, const float* query, const std::int32_t* ids,
                              std::int64_t n, float* out);
  // out[i] = <query, code ids[i]> of codes of two bits (see code_table.h), `width` bytes each and a scale of four behind them; the
  // query has 4 * width values. Whole numbers: every kernel gives the same. `out` has room for kSpare more than n.
  void (*score_codes)(const std::uint8_t* rows, std::int64_t width, const std::int8_t* query, const std::int32_t* ids,
                      std::int64_t n, std::int32_t* out);
  // out[i] = the range (see bucket_queue.h, `top` is the first one's bits) of the estimate (2 products[i] - offset) * scale of code ids[i].
  // `products` and `out` have room for kSpare more than n.
  void (*range_codes)(const std::uint8_t* rows, std::int64_t width, const std::int32_t* ids, std::int64_t n, const std::int32_t* products,
                      std::int32_t offset, std::int32_t top, std::int32_t* out);

  // Writes those of n items that have no bit in `marks` (a bit for each item, the lowest of the first word for item 0), in their order, and
  // returns how many. Negative ones are left out, equal ones are not. `out` has room for kSpare more than n, and may be `items`.
  std::int64_t (*find_unmarked)(const std::int32_t* items, std::int64_t n, const std::uint64_t* marks, std::int32_t* out);
  // Writes those of n entries of a list whose items have a bit in `marks`, items and values, in their order, and returns how many. No item
  // is negative. What is written to has room for kSpare more than n.
  std::int64_t (*find_marked)(const std::int32_t* items, const float* values, std::int64_t n, const std::uint64_t* marks,
                              std::int32_t* out, float* out_values);
};

// The kernel in use. Chosen once when the library is loaded; changing it is for tests.
const InnerProductKernel& inner_product_kernel();

// Null on success, otherwise why the name cannot be used: "unknown" or "unsupported".
const char* use_inner_product_kernel(const char* name);

// Names of all kernels, null-terminated, best first, and whether this CPU runs one.
const char* const* inner_product_kernel_names();
bool inner_product_kernel_supported(const char* name);

}  // namespace greedy
