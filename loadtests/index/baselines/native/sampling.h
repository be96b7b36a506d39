// Sample-MIPS (Cohen and Lewis 1997) and Diamond-MSIPS (Ballard et al. 2015).
//
// Both draw a dimension t with probability ~ |w_t| * sum_j |h_jt|, then an item j with probability ~ |h_jt|: the pair
// (j, t) comes with probability ~ |h_jt w_t|. Sample-MIPS counts the items it meets. Diamond-MSIPS draws a second
// dimension u with probability ~ |w_u| and adds sign(w_t h_jt w_u) * h_ju, whose mean is ~ (w.h_j)^2.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "alias_table.h"
#include "item_scores.h"

namespace baselines {

struct Sampling {
  const float* rows;
  std::int64_t stride;
  std::int64_t n_items;
  std::int64_t n_dims;
  const AliasSlot* columns;  // n_dims x n_items
  const double* column_sums;
  bool diamond;
  std::int64_t samples;
  std::int64_t budget;  // candidates handed to the ranking; the best scored ones
  std::uint64_t seed;
  ItemScores scores;

  explicit Sampling(std::int64_t n) : n_items(n), scores(n) {}

  void screen(const float* query, std::vector<std::int32_t>& found) {
    weights_.resize(static_cast<std::size_t>(2 * n_dims));
    dimensions_.resize(static_cast<std::size_t>(2 * n_dims));
    double* first = weights_.data();
    double* second = first + n_dims;
    for (std::int64_t t = 0; t < n_dims; ++t) {
      second[t] = std::fabs(static_cast<double>(query[t]));
      first[t] = second[t] * column_sums[t];
    }
    const double mass = fill_alias_table(first, n_dims, dimensions_.data());
    if (mass <= 0.0) return;  // every product is 0: there is nothing to draw
    fill_alias_table(second, n_dims, dimensions_.data() + n_dims);
    Generator generator(seed);
    // Draws are independent, so a group of them can wait for memory together.
    constexpr std::int64_t kGroup = 32;
    Draw group[kGroup];
    for (std::int64_t done = 0; done < samples; done += kGroup) {
      const std::int64_t size = samples - done < kGroup ? samples - done : kGroup;
      for (std::int64_t i = 0; i < size; ++i) draw(generator, group[i]);
      for (std::int64_t i = 0; i < size; ++i) {
        const AliasSlot* column = columns + group[i].t * n_items;
        group[i].item = alias_value(column, group[i].slot, group[i].random);
        scores.prefetch(group[i].item);
        if (diamond) __builtin_prefetch(rows + group[i].item * stride + group[i].u, 0, 3);
        if (diamond) __builtin_prefetch(rows + group[i].item * stride + group[i].t, 0, 3);
      }
      for (std::int64_t i = 0; i < size; ++i) scores.add(group[i].item, diamond ? value(query, group[i]) : 1.0f);
    }
    scores.take_best(budget, found);
  }

 private:
  struct Draw {
    std::int64_t t, u, slot;
    std::uint64_t random;
    std::int32_t item;
  };

  void draw(Generator& generator, Draw& out) {
    const std::uint64_t pick = generator.next();
    out.t = alias_value(dimensions_.data(), alias_slot(pick, n_dims), pick);
    out.random = generator.next();
    out.slot = alias_slot(out.random, n_items);
    __builtin_prefetch(columns + out.t * n_items + out.slot, 0, 3);
    if (diamond) {
      const std::uint64_t again = generator.next();
      out.u = alias_value(dimensions_.data() + n_dims, alias_slot(again, n_dims), again);
    }
  }

  float value(const float* query, const Draw& drawn) const {
    const float* row = rows + drawn.item * stride;
    const bool negative = (query[drawn.t] < 0.0f) != (row[drawn.t] < 0.0f);
    return negative != (query[drawn.u] < 0.0f) ? -row[drawn.u] : row[drawn.u];
  }

  std::vector<double> weights_;
  std::vector<AliasSlot> dimensions_;
};

}  // namespace baselines
