#include "entry_points.h"

namespace greedy::entry {

void prepare(IndexView& index) {
  index.knots.assign(index.lists);
  index.levels.assign(index.lists);
}

void prepare(ItemGraph& graph, std::int64_t n_dims) {
  graph.codes.width = graph.details.width = code_width(n_dims);
  graph.rotation.assign(n_dims);
}

std::int64_t first_bad_item(const ItemGraph& graph, std::int64_t n_items) { return greedy::first_bad_item(graph, n_items); }

std::int64_t first_bad_list(const DirectionLists& lists, std::int64_t n_items) { return greedy::first_bad_list(lists, n_items); }

void build_list(const float* column, std::int64_t n_items, float sign, std::int64_t depth, std::int32_t* ids, float* values) {
  greedy::build_list(column, n_items, sign, depth, ids, values);
}

Outcome search(QueryScratch& scratch, const IndexView& index, const Request& request) {
  return greedy::search(scratch, index, request);
}

Outcome screen(QueryScratch& scratch, const IndexView& index, const Request& request, bool ordered) {
  return greedy::screen(scratch, index, request, ordered);
}

std::int64_t copy_results(QueryScratch& scratch, std::int32_t* ids, float* scores) {
  return greedy::copy_results(scratch, ids, scores);
}

void search_batch(const IndexView& index, const Request* requests, std::int64_t n, std::int64_t n_threads,
                  const BatchOutput& output) {
  greedy::search_batch(index, requests, n, n_threads, output);
}

QueryScratch& scratch_of_this_thread() { return query_scratch(); }

}  // namespace greedy::entry
