// Items compressed to two bits a coordinate, to four for a closer look, and the query as whole numbers beside them.
//
//   h_j - mean  ~  scale_j * R'(2 c_j - 3),  c_jt in {0, 1, 2, 3}          <w, h_j - mean>  ~  scale_j * (2 <c_j, q> - 3 sum q) / unit
//
// Details are two more bits d_jt and another scale: 4 c_jt + d_jt is one of sixteen levels, and what is known of <c_j, q> is used again.
//
// R is a fixed rotation that spreads every vector evenly over its coordinates, so that two bits say about as much about each.
// The mean of all items is the same for every item: leaving it out changes no order. All products are of whole numbers, so the
// same item and query give the same estimate on every machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace greedy {

// What a product with a compressed row counts, in 32nds of a product with a row of float32.
constexpr std::int64_t kCodeBits = 2;
// Coordinates are padded to whole blocks of the rotation.
constexpr std::int64_t kRotationBlock = 64;

inline std::int64_t rotated_dims(std::int64_t n_dims) {
  return (n_dims + kRotationBlock - 1) / kRotationBlock * kRotationBlock;
}
// Four coordinates a byte: byte k has the coordinates k, k + width, k + 2 width and k + 3 width.
inline std::int64_t code_width(std::int64_t n_dims) { return rotated_dims(n_dims) / 4; }
// A row of the table: the bytes of the code, then its scale.
inline std::int64_t code_stride(std::int64_t n_dims) {
  return code_width(n_dims) + static_cast<std::int64_t>(sizeof(float));
}

struct CodeTable {
  const std::uint8_t* rows = nullptr;
  std::int64_t width = 0;

  std::int64_t stride() const { return width + static_cast<std::int64_t>(sizeof(float)); }
  const std::uint8_t* row(std::int64_t item) const { return rows + item * stride(); }
  float scale(std::int64_t item) const {
    float scale;
    std::memcpy(&scale, row(item) + width, sizeof scale);
    return scale;
  }
  void prefetch(std::int64_t item) const {
    __builtin_prefetch(row(item), 0, 3);
    __builtin_prefetch(row(item) + stride() - 1, 0, 3);
  }
};

// ---- the rotation ----------------------------------------------------------------------------------------------------

// Signs that look drawn, from a counter (Steele, Lea, Flood: SplitMix).
inline float fixed_sign(std::uint64_t place) {
  std::uint64_t z = (place + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return (z ^ (z >> 31)) >> 63 ? -1.0f : 1.0f;
}

// The orthonormal Hadamard transform of each block, in place.
inline void transform_blocks(float* x, std::int64_t n) {
  for (std::int64_t start = 0; start < n; start += kRotationBlock) {
    float* block = x + start;
    for (std::int64_t half = 1; half < kRotationBlock; half *= 2) {
      for (std::int64_t i = 0; i < kRotationBlock; i += 2 * half) {
        for (std::int64_t j = i; j < i + half; ++j) {
          const float a = block[j], b = block[j + half];
          block[j] = a + b;
          block[j + half] = a - b;
        }
      }
    }
    for (std::int64_t j = 0; j < kRotationBlock; ++j) block[j] *= 0.125f;
  }
}

// The rotation of vectors with one number of dimensions. Signs, transform, and with several blocks a transposition between the
// blocks and all of it once more.
class Rotation {
 public:
  void assign(std::int64_t n_dims) {
    n_ = rotated_dims(n_dims);
    signs_.resize(static_cast<std::size_t>(2 * n_));
    for (std::size_t i = 0; i < signs_.size(); ++i) signs_[i] = fixed_sign(i);
  }
  std::int64_t size() const { return n_; }

  // x has size() values, zeros from n_dims on, and is rotated in place; `spare` has room for as many.
  void apply(float* x, float* spare) const {
    for (std::int64_t i = 0; i < n_; ++i) x[i] *= signs_[static_cast<std::size_t>(i)];
    transform_blocks(x, n_);
    const std::int64_t blocks = n_ / kRotationBlock;
    if (blocks == 1) return;
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (std::int64_t i = 0; i < kRotationBlock; ++i) spare[i * blocks + b] = x[b * kRotationBlock + i];
    }
    for (std::int64_t i = 0; i < n_; ++i) x[i] = spare[i] * signs_[static_cast<std::size_t>(n_ + i)];
    transform_blocks(x, n_);
  }

 private:
  std::int64_t n_ = 0;
  std::vector<float> signs_;
};

// ---- the query -------------------------------------------------------------------------------------------------------

// A query as whole numbers from -127 to 127. Estimates are in units of its largest coordinate / 127, which changes no order.
struct CodedQuery {
  std::vector<float> rotated;
  std::vector<float> spare;
  std::vector<std::int8_t> values;
  std::int32_t offset = 0;  // 3 sum q
  float length = 0;         // of the values

  void assign(const Rotation& rotation, const float* query, std::int64_t n_dims) {
    const auto n = static_cast<std::size_t>(rotation.size());
    rotated.resize(n);
    spare.resize(n);
    values.resize(n);
    std::copy(query, query + n_dims, rotated.begin());
    std::fill(rotated.begin() + n_dims, rotated.end(), 0.0f);
    rotation.apply(rotated.data(), spare.data());
    float largest = 0.0f;
    for (float x : rotated) largest = std::max(largest, std::fabs(x));
    // Tiny vectors are scaled in two steps, since 127 / largest may be no float.
    const float up = largest > 0.0f && largest < 1e-30f ? 1e30f : 1.0f;
    const float unit = largest > 0.0f ? 127.0f / (largest * up) : 0.0f;
    std::int32_t sum = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto q = static_cast<std::int32_t>(std::lrint(rotated[i] * up * unit));
      values[i] = static_cast<std::int8_t>(std::clamp(q, -127, 127));
      sum += values[i];
      squares += static_cast<std::int32_t>(values[i]) * values[i];
    }
    offset = 3 * sum;
    length = std::sqrt(static_cast<float>(squares));
  }

  static float estimate(std::int32_t product, std::int32_t offset, float scale) {
    return static_cast<float>(2 * product - offset) * scale;
  }
  // By all four bits: the product with the first two, that with the details, and the scale of the details.
  float closer_estimate(std::int32_t product, std::int32_t details, float scale) const {
    return estimate(4 * product + details, 5 * offset, scale);
  }
};

// ---- making codes ----------------------------------------------------------------------------------------------------

// A scale such that the code's product with the item itself is exact: a code is shorter than its item along the item.
inline float write_scale(double squares, double along, std::uint8_t* place) {
  const auto scale = static_cast<float>(along > 0.0 ? squares / along : 0.0);
  std::memcpy(place, &scale, sizeof scale);
  return scale;
}

// Writes the code of one rotated item and its details, each with its scale; `rotated` has 4 * width values. Returns the length of what the
// code stands for.
inline float encode(const float* rotated, std::int64_t width, std::uint8_t* row, std::uint8_t* details) {
  const std::int64_t n = 4 * width;
  double squares = 0.0;
  for (std::int64_t i = 0; i < n; ++i) squares += static_cast<double>(rotated[i]) * rotated[i];
  const double spread = std::sqrt(squares / static_cast<double>(n));
  // Of some steps around the one that is best for normal coordinates, the one that is best for these.
  double least = squares, step = 0.0;
  for (int tenth = 6; tenth <= 14 && spread > 0.0; ++tenth) {
    const double s = spread * tenth / 10.0;
    double error = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double magnitude = std::fabs(static_cast<double>(rotated[i]));
      const double missed = magnitude - (magnitude < s ? 0.5 * s : 1.5 * s);
      error += missed * missed;
    }
    if (error < least) {
      least = error;
      step = s;
    }
  }
  std::memset(row, 0, static_cast<std::size_t>(width));
  std::memset(details, 0, static_cast<std::size_t>(width));
  double along = 0.0, closer_along = 0.0, length = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(static_cast<double>(rotated[i]));
    const bool far = magnitude >= step;
    // How many quarters of a step from the side that is nearer to zero.
    const int quarters = step > 0.0 ? static_cast<int>(std::min((magnitude - (far ? step : 0.0)) / step * 4.0, 3.0)) : 0;
    const int level = rotated[i] < 0.0f ? (far ? 0 : 1) : (far ? 3 : 2);
    const int detail = rotated[i] < 0.0f ? 3 - quarters : quarters;
    const auto shift = 2 * (i / width);
    row[i % width] = static_cast<std::uint8_t>(row[i % width] | level << shift);
    details[i % width] = static_cast<std::uint8_t>(details[i % width] | detail << shift);
    along += static_cast<double>(rotated[i]) * (2 * level - 3);
    closer_along += static_cast<double>(rotated[i]) * (2 * (4 * level + detail) - 15);
    length += static_cast<double>((2 * level - 3) * (2 * level - 3));
  }
  if (step <= 0.0) along = closer_along = 0.0;
  write_scale(squares, closer_along, details + width);
  return write_scale(squares, along, row + width) * static_cast<float>(std::sqrt(length));
}

}  // namespace greedy
