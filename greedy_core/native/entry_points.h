// What the extension module calls. Compiled apart from it (entry_points.cpp), so that the search and the module's own code, which
// Cython writes, compile side by side.
#pragma once

#include <cstdint>

#include "batch_search.h"
#include "greedy_search.h"
#include "list_building.h"

namespace greedy::entry {

// Fills the tables of a view whose lists are set.
void prepare(IndexView& index);
// Takes a graph whose arrays are set.
void prepare(ItemGraph& graph, std::int64_t n_dims);
std::int64_t first_bad_item(const ItemGraph& graph, std::int64_t n_items);
std::int64_t first_bad_list(const DirectionLists& lists, std::int64_t n_items);
void build_list(const float* column, std::int64_t n_items, float sign, std::int64_t depth, std::int32_t* ids, float* values);

Outcome search(QueryScratch& scratch, const IndexView& index, const Request& request);
Outcome screen(QueryScratch& scratch, const IndexView& index, const Request& request, bool ordered);
std::int64_t copy_results(QueryScratch& scratch, std::int32_t* ids, float* scores);
void search_batch(const IndexView& index, const Request* requests, std::int64_t n, std::int64_t n_threads,
                  const BatchOutput& output);
QueryScratch& scratch_of_this_thread();

}  // namespace greedy::entry
