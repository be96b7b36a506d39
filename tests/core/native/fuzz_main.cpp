// Random inputs for the fuzz target, where there is no libFuzzer: fuzz_main SECONDS SEED
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int, char** arguments) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(arguments[1]));
  std::mt19937_64 random(std::strtoull(arguments[2], nullptr, 10));
  std::int64_t inputs = 0;
  for (; std::chrono::steady_clock::now() < end; ++inputs) {
    std::vector<std::uint8_t> input(random() % 4096);
    // Some are all alike, so that there are ties; others are noise.
    const std::uint64_t mask = random() % 3 == 0 ? 0x3F : 0xFF;
    for (auto& byte : input) byte = static_cast<std::uint8_t>(random() & mask);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%lld inputs, no failure\n", static_cast<long long>(inputs));
}
