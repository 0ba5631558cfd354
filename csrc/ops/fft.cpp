// Fourier transforms over any dims.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// StableHLO transforms at most this many dims at once, the last ones.
constexpr size_t kMostDims = 3;

// PyTorch's fft_norm_mode.
enum Norm : int64_t { kNone, kByRoot, kByCount };

double factor(int64_t norm, double count) {
  return norm == kNone ? 1 : norm == kByRoot ? 1 / std::sqrt(count) : 1 / count;
}
Value scaled(Value x, double by) {
  if (by == 1) return x;
  return is_complex(x.dtype()) ? complex(real(x) * by, imag(x) * by) : x * by;
}
double size_of(const Value& x, const Dims& dims) {
  double n = 1;
  for (int64_t d : dims) n *= double(x.dim(d));
  return n;
}

// One transform over `dims`, moved to the end for it. `length` is that of the last dim's real side.
Value transform(Value x, const Dims& dims, std::string_view kind, int64_t length) {
  Dims order, lengths, back(size_t(x.rank()));
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  for (int64_t d : dims) {
    order.push_back(d);
    lengths.push_back(x.dim(d));
  }
  lengths.back() = length;
  for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
  return transpose(fft(transpose(x, order), kind, lengths), back);
}

// Unscaled in both directions.
Value complex_transform(Value x, Dims dims, bool forward) {
  const double n = size_of(x, dims);
  while (!dims.empty()) {
    const size_t some = std::min(dims.size(), kMostDims);
    const Dims last(dims.end() - ptrdiff_t(some), dims.end());
    dims.resize(dims.size() - some);
    x = transform(x, last, forward ? "FFT" : "IFFT", x.dim(last.back()));
  }
  return forward ? x : scaled(x, n);
}

Dims wrapped(Dims dims, int64_t rank) {
  for (int64_t& d : dims) d = wrap(d, rank);
  return dims;
}

Value fft_c2c(Value x, Dims dims, int64_t norm, bool forward) {
  dims = wrapped(dims, x.rank());
  if (dims.empty() || x.count() == 0) return x;
  return scaled(complex_transform(x, dims, forward), factor(norm, size_of(x, dims)));
}

Value fft_r2c(Value x, Dims dims, int64_t norm, bool onesided) {
  check(!is_narrow_float(x.dtype()), Code::Unimplemented, "_fft_r2c of ", name(x.dtype()));
  dims = wrapped(dims, x.rank());
  const DType t = x.dtype() == DType::F64 ? DType::C128 : DType::C64;
  if (!onesided) return fft_c2c(convert(x, t), dims, norm, true);
  const int64_t last = dims.back();
  if (x.count() == 0) return convert(slice(x, last, 0, x.dim(last) / 2 + 1), t);
  const double by = factor(norm, size_of(x, dims));
  Value y = transform(x, {last}, "RFFT", x.dim(last));
  dims.pop_back();
  return scaled(complex_transform(y, dims, true), by);
}

Value fft_c2r(Value x, Dims dims, int64_t norm, int64_t last_size) {
  dims = wrapped(dims, x.rank());
  const int64_t last = dims.back();
  Dims out = x.dims();
  out[size_t(last)] = last_size;
  if (x.count() == 0) return constant(*x.builder, 0.0, {real_type(x.dtype()), out});
  dims.pop_back();
  const double count = size_of(x, dims) * double(last_size);
  Value y = transform(complex_transform(x, dims, false), {last}, "IRFFT", last_size);
  return scaled(y, double(last_size) * factor(norm, count));
}

constexpr Row kRows[] = {
    {"aten::_fft_c2c", op<fft_c2c>},
    {"aten::_fft_c2r", op<fft_c2r>},
    {"aten::_fft_r2c", op<fft_r2c>},
};

}  // namespace

const Table kFft = kRows;

}  // namespace tpu::ops
