// The cache of numbers on the device.
#include "graph/scalar.h"

#include <bit>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/error.h"
#include "graph/runtime.h"

namespace tpu::graph {
namespace {

// Loops over many different numbers must not fill the memory: past this many the cache starts anew.
constexpr size_t kMost = 4096;

struct Bits {
  uint64_t low = 0, high = 0;
  DType dtype = DType::F32;
  int device = 0;
  bool operator==(const Bits&) const = default;
};

struct BitsHash {
  size_t operator()(const Bits& b) const {
    uint64_t h = b.low * 0x9E3779B97F4A7C15u ^ (b.high + 0x7F4A7C15u) * 0xC2B2AE3D27D4EB4Fu;
    return size_t((h ^ (h >> 29)) + uint64_t(b.dtype) * 131 + uint64_t(b.device));
  }
};

std::mutex mutex;  // guards cache
std::unordered_map<Bits, ArrayRef, BitsHash>& cache() {
  static auto* map = new std::unordered_map<Bits, ArrayRef, BitsHash>;
  return *map;
}

ArrayRef kept(DType t, const void* bytes, int device) {
  Bits bits{.dtype = t, .device = device};
  std::memcpy(&bits.low, bytes, size_t(element_size(t)));
  std::lock_guard lock(mutex);
  auto& map = cache();
  if (auto it = map.find(bits); it != map.end()) return it->second;
  if (map.size() >= kMost) map.clear();
  const Shape* s = shape(Type{t, {}});
  ArrayRef array(new Array(s, device, runtime().client->from_host(bytes, s->physical, device)));
  map.emplace(bits, array);
  return array;
}

// The bits of a float in a narrower format, rounded to nearest even.
uint16_t bfloat16(float v) {
  uint32_t bits = std::bit_cast<uint32_t>(v);
  if (v != v) return 0x7FC0;
  return uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace

ArrayRef scalar(DType t, int64_t v, int device) {
  switch (t) {
    case DType::F32:
    case DType::F64:
    case DType::BF16:
    case DType::F16:
      return scalar(t, double(v), device);
    case DType::C64:
    case DType::C128:
      return scalar(t, std::complex<double>(double(v)), device);
    case DType::Pred:
      v = v != 0;
      break;
    default:
      break;
  }
  return kept(t, &v, device);  // little-endian: the low bytes are the narrower integer
}

ArrayRef scalar(DType t, double v, int device) {
  const float f = float(v);
  switch (t) {
    case DType::F64:
      return kept(t, &v, device);
    case DType::F32:
      return kept(t, &f, device);
    case DType::BF16: {
      const uint16_t b = bfloat16(f);
      return kept(t, &b, device);
    }
    case DType::F16: {
      const auto h = static_cast<_Float16>(f);
      return kept(t, &h, device);
    }
    case DType::C64:
    case DType::C128:
      return scalar(t, std::complex<double>(v), device);
    default:
      return scalar(t, int64_t(v), device);
  }
}

ArrayRef scalar(DType t, std::complex<double> v, int device) {
  if (t == DType::C128) return kept(t, &v, device);
  check(t == DType::C64, Code::Internal, "scalar: a complex number as ", name(t));
  const std::complex<float> f(v);
  return kept(t, &f, device);
}

void clear_scalars() {
  std::lock_guard lock(mutex);
  cache().clear();
}

}  // namespace tpu::graph
