// Any bytes become an index and a search; whatever they are, the answer keeps its promises. The sanitizers watch the arrays.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "small_index.h"

namespace {

// Takes numbers off a string of bytes; zeros when it has ended.
struct Bytes {
  const std::uint8_t* at;
  std::size_t left;

  std::int64_t upto(std::int64_t most) {
    std::uint16_t value = 0;
    take(&value, sizeof value);
    return value % (most + 1);
  }
  // Any finite number that may stand in an item or a query.
  float number() {
    float value = 0.0f;
    take(&value, sizeof value);
    return std::fabs(value) <= greedy::kMaxMagnitude ? value : 1.0f;
  }
  void take(void* to, std::size_t n) {
    n = std::min(n, left);
    if (n == 0) return;
    std::memcpy(to, at, n);
    at += n;
    left -= n;
  }
};

void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes{data, size};
  const std::int64_t n_items = 1 + bytes.upto(70), n_dims = 1 + bytes.upto(20), max_budget = 1 + bytes.upto(n_items - 1);
  const std::int64_t budget = 1 + bytes.upto(n_items + 2), top_k = 1 + bytes.upto(n_items + 2), n_exclude = bytes.upto(n_items);
  const std::int64_t n_remembered = bytes.upto(8);
  const auto variant = static_cast<greedy::Variant>(bytes.upto(4));
  const bool filtered = bytes.upto(1) == 1;
  std::vector<std::uint64_t> words(static_cast<std::size_t>(n_items + 63) / 64);
  std::vector<std::int32_t> exclude(static_cast<std::size_t>(n_exclude)), remembered(static_cast<std::size_t>(n_remembered));
  std::int64_t count = 0;
  for (std::int64_t j = 0; j < n_items; ++j) {
    if (bytes.upto(2) == 0) continue;
    words[static_cast<std::size_t>(j / 64)] |= std::uint64_t{1} << (j % 64);
    ++count;
  }
  const auto is_eligible = [&](std::int32_t j) { return !filtered || (words[static_cast<std::size_t>(j / 64)] >> (j % 64) & 1) != 0; };
  // As the layer above hands them on: positions that exist, and under a filter only such that pass it.
  for (auto& j : exclude) j = static_cast<std::int32_t>(bytes.upto(n_items - 1));
  if (filtered) exclude.erase(std::remove_if(exclude.begin(), exclude.end(), [&](auto j) { return !is_eligible(j); }), exclude.end());
  for (auto& j : remembered) j = static_cast<std::int32_t>(bytes.upto(n_items)) - 1;
  std::vector<float> values(static_cast<std::size_t>(n_items * n_dims)), query(static_cast<std::size_t>(n_dims));
  for (float& value : query) value = bytes.number();
  for (float& value : values) value = bytes.number();

  const SmallIndex index(values, n_items, n_dims, max_budget);
  greedy::EligibleItems eligible;
  if (filtered) {
    eligible.words = words.data();
    eligible.count = count;
  }
  const greedy::Request request{query.data(), remembered.data(), n_remembered, top_k, 10, budget, exclude.data(),
                                static_cast<std::int64_t>(exclude.size()), variant, eligible};
  greedy::QueryScratch& scratch = greedy::entry::scratch_of_this_thread();
  const greedy::Outcome outcome = greedy::entry::search(scratch, index.view, request);
  if (outcome.status != greedy::Status::ok) return 0;
  require(outcome.spent <= budget, "spent <= budget");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(top_k));
  std::vector<float> scores(ids.size());
  const std::int64_t found = greedy::entry::copy_results(scratch, ids.data(), scores.data());
  require(found <= top_k && found <= outcome.spent, "no more items than asked for, and than products");
  for (std::int64_t r = 0; r < found; ++r) {
    const std::int32_t j = ids[static_cast<std::size_t>(r)];
    require(j >= 0 && j < n_items, "an item that exists");
    require(std::find(exclude.begin(), exclude.end(), j) == exclude.end(), "nothing that is excluded");
    require(is_eligible(j), "nothing that is not eligible");
    require(std::find(ids.begin(), ids.begin() + r, j) == ids.begin() + r, "each item once");
  }
  return 0;
}
