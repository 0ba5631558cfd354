// The hash: two lanes of multiply and fold over 16 bytes at a time, mixed into each other at the end.
#include "base/hash.h"

#include <cstdint>
#include <cstring>

namespace tpu {
namespace {

// Odd, with about as many ones as zeros: digits of pi and e in base 16.
constexpr uint64_t kA = 0x243f6a8885a308d3, kB = 0x13198a2e03707345, kC = 0xb7e151628aed2a6b, kD = 0xbf7158809cf4f3c7;

// Every bit of the 128-bit product takes part.
uint64_t fold(uint64_t x, uint64_t y) {
  unsigned __int128 product = static_cast<unsigned __int128>(x) * y;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

uint64_t word(const char* p) {
  uint64_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Each bit of x changes about half of the bits of the result; no two inputs give the same one.
uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 32)) * kC;
  x = (x ^ (x >> 29)) * kD;
  return x ^ (x >> 32);
}

struct State {
  uint64_t low = kB;
  uint64_t high = kD;

  // A product with zero forgets its other factor, so what comes in is also added on a second way.
  void take(uint64_t x, uint64_t y) {
    low = (low ^ fold(x ^ kA, y ^ (low + kB))) * kC + y;
    high = ((high << 23 | high >> 41) ^ fold(y ^ kD, x ^ (high + kC))) * kA + x;
  }
};

void write(uint64_t value, char* text) {
  for (int i = 0; i < 16; ++i) text[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
}

}  // namespace

std::string hash128(std::string_view bytes) {
  State state;
  const char* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 16; p += 16, left -= 16) state.take(word(p), word(p + 8));
  char tail[16] = {};
  if (left) std::memcpy(tail, p, left);
  state.take(word(tail), word(tail + 8));
  state.take(bytes.size(), kC);  // else zeros at the end would go unseen
  uint64_t high = scramble(state.high ^ scramble(state.low));
  uint64_t low = scramble(state.low + high);
  std::string text(32, '0');
  write(high, text.data());
  write(low, text.data() + 16);
  return text;
}

}  // namespace tpu
