// BLAKE2b with a digest of 64 bits and no key (RFC 7693): the hash of the id tables on disk, as hashlib.blake2b(digest_size=8).
#pragma once

#include <cstddef>
#include <cstdint>

namespace greedy {

struct Text {
  const unsigned char* data;  // null: no text that an id could have
  std::size_t length;
};

// The digest, read as a little-endian number.
std::uint64_t blake2b_64(const Text& text);

// The digests of four texts, computed side by side where all of them are short, as ids are. None may be null.
void blake2b_64_of_four(const Text* texts, std::uint64_t* digests);

}  // namespace greedy
