// Many queries over the same index, on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "greedy_search.h"

namespace greedy {

// Request i's results go to ids[i * width ...] and scores[i * width ...], counts[i] of them.
struct BatchOutput {
  std::int32_t* ids;
  float* scores;
  std::int64_t* counts;
  Outcome* outcomes;
  std::int64_t width;
};

// The results of the search that this thread did last. Returns how many there are.
inline std::int64_t copy_results(QueryScratch& scratch, std::int32_t* ids, float* scores) {
  const auto& best = scratch.top.sorted();
  for (std::size_t i = 0; i < best.size(); ++i) {
    ids[i] = best[i].id;
    scores[i] = best[i].score;
  }
  return static_cast<std::int64_t>(best.size());
}

inline void search_batch(const IndexView& index, const Request* requests, std::int64_t n, std::int64_t n_threads,
                         const BatchOutput& output) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    QueryScratch& scratch = query_scratch();
    for (std::int64_t i; (i = next.fetch_add(1)) < n;) {
      output.outcomes[i] = search(scratch, index, requests[i]);
      output.counts[i] = 0;
      if (output.outcomes[i].status != Status::ok) continue;
      output.counts[i] = copy_results(scratch, output.ids + i * output.width, output.scores + i * output.width);
    }
  };
  std::vector<std::thread> helpers;
  for (std::int64_t i = 1; i < std::min(n_threads, n); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace greedy
