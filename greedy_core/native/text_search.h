// Texts that have all of some words in them, whatever their case: one pass over the bytes of a bundle.
#pragma once

#include <cstdint>
#include <vector>

namespace greedy {

// A word as its bytes may be: byte i is small[i] or capital[i].
struct Word {
  const unsigned char* small;
  const unsigned char* capital;
  std::int64_t length;

  bool is_in(const unsigned char* text, std::int64_t n) const {
    for (std::int64_t at = 0; at + length <= n; ++at) {
      std::int64_t i = 0;
      while (i < length && (text[at + i] == small[i] || text[at + i] == capital[i])) ++i;
      if (i == length) return true;
    }
    return false;
  }
};

// Text j is text[offsets[j]] to text[offsets[j + 1]]; offsets are known to lie inside.
struct TextSearch {
  const unsigned char* text;
  const std::int64_t* offsets;
  std::vector<Word> words;

  // Looks at the texts order[from], order[from + 1], ... and writes down those that have all words, until `limit` are found, the
  // order ends or `most_bytes` are read. Returns where it stopped; `most_bytes` becomes what is left of it.
  std::int64_t run(const std::int32_t* order, std::int64_t from, std::int64_t end, std::int64_t limit, std::int64_t& most_bytes,
                   std::vector<std::int32_t>& found) const {
    constexpr std::int64_t kAhead = 8;
    std::int64_t at = from;
    for (; at < end && most_bytes > 0 && static_cast<std::int64_t>(found.size()) < limit; ++at) {
      // The order jumps about in memory: offsets and bytes of texts to come are asked for early.
      if (at + 2 * kAhead < end) __builtin_prefetch(offsets + order[at + 2 * kAhead]);
      if (at + kAhead < end) __builtin_prefetch(text + offsets[order[at + kAhead]]);
      const std::int64_t begin = offsets[order[at]], n = offsets[order[at] + 1] - begin;
      // An empty text costs something, too.
      most_bytes -= n + 1;
      bool has_all = true;
      for (const Word& word : words) has_all = has_all && word.is_in(text + begin, n);
      if (has_all) found.push_back(order[at]);
    }
    return at;
  }
};

}  // namespace greedy
