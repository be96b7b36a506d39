// The items' vectors as they are stored, padded with zeros, in one of several precisions.
#pragma once

#include <cstdint>

#include "inner_product.h"

namespace greedy {

enum class Precision { float32, float16, bfloat16 };

// A view; the array belongs to the caller. Scores are float32 in every precision: a value is widened, which loses nothing, before it
// is multiplied. A product counts one whatever the precision, since it takes as many multiplications.
struct ItemRows {
  const void* data = nullptr;
  std::int64_t stride = 0;  // in values
  Precision precision = Precision::float32;

  // out[i] = <query, row first + i>
  void score_block(std::int64_t first, const float* query, std::int64_t n, float* out) const {
    const InnerProductKernel& kernel = inner_product_kernel();
    const auto* wide = static_cast<const float*>(data);
    const auto* narrow = static_cast<const std::uint16_t*>(data);
    switch (precision) {
      case Precision::float32:
        return kernel.score_block(wide + first * stride, stride, query, n, out);
      case Precision::float16:
        return kernel.score_block_float16(narrow + first * stride, stride, query, n, out);
      case Precision::bfloat16:
        return kernel.score_block_bfloat16(narrow + first * stride, stride, query, n, out);
    }
  }

  // out[i] = <query, row ids[i]>
  void score_rows(const float* query, const std::int32_t* ids, std::int64_t n, float* out) const {
    const InnerProductKernel& kernel = inner_product_kernel();
    switch (precision) {
      case Precision::float32:
        return kernel.score_rows(static_cast<const float*>(data), stride, query, ids, n, out);
      case Precision::float16:
        return kernel.score_rows_float16(static_cast<const std::uint16_t*>(data), stride, query, ids, n, out);
      case Precision::bfloat16:
        return kernel.score_rows_bfloat16(static_cast<const std::uint16_t*>(data), stride, query, ids, n, out);
    }
  }
};

}  // namespace greedy
