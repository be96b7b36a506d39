// An index made of any numbers, with its arrays, for the drivers of .ci/race and .ci/fuzz. It has lists along the coordinates and no graph.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "entry_points.h"

constexpr std::int64_t kLine = 16;  // floats in a cache line, to which rows are padded

struct SmallIndex {
  greedy::IndexView view;
  std::vector<float> list_values;
  std::vector<std::int32_t> list_ids;
  std::unique_ptr<float, decltype(&std::free)> rows{nullptr, &std::free};

  // `values` has n_items rows of n_dims numbers.
  SmallIndex(const std::vector<float>& values, std::int64_t n_items, std::int64_t n_dims, std::int64_t max_budget) {
    const std::int64_t stride = (n_dims + kLine - 1) / kLine * kLine;
    const auto cells = static_cast<std::size_t>(n_items * stride);
    rows.reset(static_cast<float*>(std::aligned_alloc(64, cells * sizeof(float))));
    std::fill_n(rows.get(), cells, 0.0f);
    for (std::int64_t j = 0; j < n_items; ++j) std::copy_n(values.data() + j * n_dims, n_dims, rows.get() + j * stride);
    list_ids.resize(static_cast<std::size_t>(2 * n_dims * max_budget));
    list_values.resize(list_ids.size());
    std::vector<float> column(static_cast<std::size_t>(n_items));
    for (std::int64_t t = 0; t < n_dims; ++t) {
      for (std::int64_t j = 0; j < n_items; ++j) column[static_cast<std::size_t>(j)] = values[static_cast<std::size_t>(j * n_dims + t)];
      for (std::int64_t side = 0; side < 2; ++side) {
        const std::int64_t at = (2 * t + side) * max_budget;
        greedy::entry::build_list(column.data(), n_items, side == 0 ? 1.0f : -1.0f, max_budget, list_ids.data() + at,
                                  list_values.data() + at);
      }
    }
    view.rows.data = rows.get();
    view.rows.stride = stride;
    view.rows.precision = greedy::Precision::float32;
    view.n_items = n_items;
    view.n_dims = n_dims;
    view.max_budget = max_budget;
    view.n_axes = n_dims;
    view.lists = {list_ids.data(), list_values.data(), 2 * n_dims, max_budget};
    view.reads = 4;
    greedy::entry::prepare(view);
  }
};
