// The hash: the same in every version, and no two of many near inputs alike.
#include "base/hash.h"

#include <array>
#include <bit>
#include <set>

#include "test.h"

namespace tpu::test {
namespace {

int differing_bits(const std::string& x, const std::string& y) {
  int count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    auto digit = [](char c) { return unsigned(c <= '9' ? c - '0' : c - 'a' + 10); };
    count += std::popcount(digit(x[i]) ^ digit(y[i]));
  }
  return count;
}

}  // namespace

void hash() {
  test("near inputs", [] {
    std::set<std::string> seen;
    size_t count = 0;
    std::string zeros;
    for (int length = 0; length < 300; ++length, zeros += '\0') {
      seen.insert(hash128(zeros));
      ++count;
      for (size_t bit = 0; bit < zeros.size() * 8; ++bit) {
        std::string flipped = zeros;
        flipped[bit / 8] = char(1 << (bit % 8));
        seen.insert(hash128(flipped));
        ++count;
      }
    }
    CHECK_EQUAL(seen.size(), count);
  });
  test("words of one value, in any number and place", [] {
    std::set<std::string> seen;
    size_t count = 0;
    for (char c : {'\x00', '\x01', '\x7f', '\x80', '\xff'}) {
      for (size_t length = 1; length < 200; ++length, ++count) seen.insert(hash128(std::string(length, c)));
    }
    CHECK_EQUAL(seen.size(), count);
  });
  test("a flipped bit changes half of the result", [] {
    std::string text = "stablehlo.add %0, %1 : tensor<2x3xf32> and some more, to fill a few words";
    std::string before = hash128(text);
    double total = 0;
    for (size_t bit = 0; bit < text.size() * 8; ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << (bit % 8)));
      int bits = differing_bits(before, hash128(flipped));
      CHECK(bits > 30 && bits < 98);
      total += bits;
    }
    double mean = total / double(text.size() * 8);
    CHECK(mean > 62 && mean < 66);
  });
  test("numbers in a row fill the low digits evenly", [] {
    std::array<int, 256> buckets{};
    for (int i = 0; i < 256 * 100; ++i)
      ++buckets[size_t(std::stoi(hash128(std::to_string(i)).substr(30), nullptr, 16))];
    for (int n : buckets) CHECK(n > 50 && n < 160);
  });
}

}  // namespace tpu::test
