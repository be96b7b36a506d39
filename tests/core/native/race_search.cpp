// Many threads search one index at once; each must find what one thread finds alone. ThreadSanitizer watches.
#include <cstdio>
#include <random>
#include <thread>

#include "small_index.h"

int main() {
  constexpr std::int64_t kItems = 3000, kDims = 24, kBudget = 200, kTopK = 10;
  constexpr int kThreads = 8, kQueries = 60, kVariants = 5;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(kItems * kDims);
  for (float& value : values) value = normal(random);
  const SmallIndex index(values, kItems, kDims, kBudget);
  std::vector<std::vector<float>> queries(kQueries, std::vector<float>(kDims));
  for (auto& query : queries) {
    for (float& value : query) value = normal(random);
  }
  const auto search_all = [&](std::vector<std::int32_t>& found) {
    greedy::QueryScratch& scratch = greedy::entry::scratch_of_this_thread();
    std::vector<float> scores(kTopK);
    for (const auto& query : queries) {
      for (int variant = 0; variant < kVariants; ++variant) {
        const greedy::Request request{query.data(), nullptr, 0, kTopK, kTopK, kBudget, nullptr, 0,
                                      static_cast<greedy::Variant>(variant), {}};
        const greedy::Outcome outcome = greedy::entry::search(scratch, index.view, request);
        found.resize(found.size() + kTopK, -1);
        if (outcome.status != greedy::Status::ok || outcome.spent > kBudget) return;
        greedy::entry::copy_results(scratch, found.data() + found.size() - kTopK, scores.data());
      }
    }
  };
  std::vector<std::int32_t> alone;
  search_all(alone);
  if (alone.size() != static_cast<std::size_t>(kQueries * kVariants * kTopK)) return std::puts("a search failed"), 1;
  std::vector<std::vector<std::int32_t>> together(kThreads);
  std::vector<std::thread> threads;
  for (auto& found : together) threads.emplace_back([&] { search_all(found); });
  for (auto& thread : threads) thread.join();
  for (const auto& found : together) {
    if (found != alone) return std::puts("threads find something else than one alone"), 1;
  }
  std::printf("%d threads, %d searches each: no race, and the same answers\n", kThreads, kQueries * kVariants);
}
