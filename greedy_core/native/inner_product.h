// Inner products of one query with many rows, for the instruction set chosen at run time.
//
// Every kernel adds up in the same order (32 lanes, fused multiply-add, one fixed tree at the end), so the same
// row and query give the same bits on every machine of a fleet, whichever kernel its CPU picks.
#pragma once

#include <cstdint>

namespace greedy {

// Rows are padded with zeros to whole cache lines: a stride is a multiple of this many floats.
constexpr std::int64_t kLaneBlock = 16;

struct InnerProductKernel {
  const char* name;
  // out[i] = <query, row i> for the n rows that lie one after the other from `rows`.
  void (*score_block)(const float* rows, std::int64_t stride, const float* query, std::int64_t n, float* out);
  // out[i] = <query, row ids[i]>, fetching rows ahead of their use.
  void (*score_rows)(const float* rows, std::int64_t stride, const float* query, const std::int32_t* ids,
                     std::int64_t n, float* out);
  // out[i] = <query, code ids[i]> of codes of two bits (see code_table.h), `width` bytes each and a scale of four behind them; the
  // query has 4 * width values. Whole numbers: every kernel gives the same.
  void (*score_codes)(const std::uint8_t* rows, std::int64_t width, const std::int8_t* query, const std::int32_t* ids,
                      std::int64_t n, std::int32_t* out);
};

// The kernel in use. Chosen once when the library is loaded; changing it is for tests.
const InnerProductKernel& inner_product_kernel();

// Null on success, otherwise why the name cannot be used: "unknown" or "unsupported".
const char* use_inner_product_kernel(const char* name);

// Names of all kernels, null-terminated, best first, and whether this CPU runs one.
const char* const* inner_product_kernel_names();
bool inner_product_kernel_supported(const char* name);

}  // namespace greedy
