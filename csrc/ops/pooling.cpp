// Pooling over windows, and over an adaptive number of them.
#include <cmath>

#include "base/error.h"
#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/matrix.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// The windows over the last `n` dims of an array.
struct Windows {
  Dims kernel, stride, padding, dilation, count, input;
  int64_t lead = 0;  // dims before them
  size_t n() const { return kernel.size(); }
};

Dims expand(const Dims& v, size_t n, const Dims& fallback) {
  if (v.empty()) return fallback;
  return v.size() == n ? v : Dims(n, v[0]);
}
Windows windows(const Value& x, size_t n, const Dims& kernel, const Dims& stride, const Dims& padding, const Dims& dilation,
                bool ceil_mode) {
  Windows w;
  w.kernel = expand(kernel, n, {});
  w.stride = expand(stride, n, w.kernel);
  w.padding = expand(padding, n, Dims(n, 0));
  w.dilation = expand(dilation, n, Dims(n, 1));
  w.lead = x.rank() - int64_t(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t in = x.dim(w.lead + int64_t(i));
    const int64_t span = in + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1;
    int64_t out = (span + (ceil_mode ? w.stride[i] - 1 : 0)) / w.stride[i] + 1;
    // A window must start inside the input or its left padding.
    if (ceil_mode && (out - 1) * w.stride[i] >= in + w.padding[i]) --out;
    w.input.push_back(in);
    w.count.push_back(out);
  }
  return w;
}
// Where each window's element `at` lies, from -padding on.
int64_t first(const Windows& w, const Dims& at, size_t i) { return at[i] * w.dilation[i] - w.padding[i]; }

// Calls f with each place in the kernel.
template <class F>
void each_place(const Windows& w, F f) {
  Dims at(w.n(), 0);
  while (true) {
    f(at);
    size_t i = w.n();
    while (i-- > 0) {
      if (++at[i] < w.kernel[i]) break;
      at[i] = 0;
    }
    if (i == size_t(-1)) return;
  }
}

Value padded(Value x, const Windows& w, Value with) {
  Dims low(size_t(x.rank()), 0), high = low, none = low;
  for (size_t i = 0; i < w.n(); ++i) {
    low[size_t(w.lead) + i] = w.padding[i];
    const int64_t reach = (w.count[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    high[size_t(w.lead) + i] = std::max<int64_t>(0, reach - w.input[i] - w.padding[i]);
  }
  return pad(x, with, low, high, none);
}
// One element of every window.
Value element(Value x, const Windows& w, const Dims& at) {
  for (size_t i = 0; i < w.n(); ++i) {
    const int64_t start = at[i] * w.dilation[i];
    x = slice(x, w.lead + int64_t(i), start, start + (w.count[i] - 1) * w.stride[i] + 1, w.stride[i]);
  }
  return x;
}
// The other way: one element of every window put back, zeros elsewhere, in the padded input's dims.
Value spread(Value y, const Windows& w, const Dims& at, const Dims& padded_dims) {
  Dims low(size_t(y.rank()), 0), high = low, inner = low;
  for (size_t i = 0; i < w.n(); ++i) {
    const size_t d = size_t(w.lead) + i;
    low[d] = at[i] * w.dilation[i];
    inner[d] = w.stride[i] - 1;
    high[d] = padded_dims[d] - low[d] - ((w.count[i] - 1) * w.stride[i] + 1);
  }
  return pad(y, scalar(y, 0), low, high, inner);
}

std::pair<Value, Value> max_pool(Value given, const Windows& w) {
  Value x = padded(given, w, lowest(*given.builder, given.dtype()));
  Value best, where;
  const Dims strides = row_major_strides(w.input);
  each_place(w, [&](const Dims& at) {
    Value v = element(x, w, at);
    Value position = constant(*x.builder, int64_t{0}, {DType::I64, v.dims()});
    for (size_t i = 0; i < w.n(); ++i) {
      Value along = iota(*x.builder, position.type, w.lead + int64_t(i));
      position = position + (along * like(along, w.stride[i]) + like(along, first(w, at, i))) * like(along, strides[i]);
    }
    if (!best.builder) {
      best = v;
      where = position;
      return;
    }
    // Padding is the lowest value and never wins against an element; where it came first, an equal element does.
    Value outside = where < like(where, 0);
    Value better = or_(or_(v > best, is_nan(v)), and_(outside, v >= best));
    Value inside = all_true(v);
    for (size_t i = 0; i < w.n(); ++i) {
      Value along = iota(*x.builder, position.type, w.lead + int64_t(i));
      Value place = along * like(along, w.stride[i]) + like(along, first(w, at, i));
      inside = and_(inside, and_(place >= like(place, 0), place < like(place, w.input[i])));
    }
    better = and_(better, inside);
    best = hlo::select(better, v, best);
    where = hlo::select(better, position, where);
  });
  return {best, where};
}
template <size_t N>
std::pair<Value, Value> max_pool_op(Value x, Dims kernel, Dims stride, Dims padding, Dims dilation, bool ceil_mode) {
  return max_pool(x, windows(x, N, kernel, stride, padding, dilation, ceil_mode));
}
template <size_t N>
Value max_pool_backward(Value gradient, Value x, Dims, Dims, Dims, Dims, bool, Value where) {
  const auto lead = int64_t(x.rank()) - int64_t(N);
  const Dims outer(x.dims().begin(), x.dims().begin() + lead);
  const int64_t rows = element_count(outer), in = x.count() / std::max<int64_t>(rows, 1),
                out = gradient.count() / std::max<int64_t>(rows, 1);
  Value g = reshape(widen(gradient), {rows, out});
  Value zero = constant(*x.builder, 0.0, {g.dtype(), {rows, in}});
  return convert(reshape(add_elements(zero, 1, reshape(where, {rows, out}), g), x.dims()), gradient.dtype());
}

// How many elements each window averages over.
Value divisor(const Value& x, const Windows& w, bool count_padding, std::optional<int64_t> fixed, const Dims& dims) {
  Builder& b = *x.builder;
  if (fixed) return constant(b, double(*fixed), {x.dtype(), dims});
  Value d = constant(b, 1.0, {x.dtype(), dims});
  for (size_t i = 0; i < w.n(); ++i) {
    Value at = iota(b, {DType::I64, dims}, w.lead + int64_t(i));
    Value start = at * like(at, w.stride[i]) - like(at, w.padding[i]);
    Value end = minimum(start + like(start, w.kernel[i]), like(start, w.input[i] + w.padding[i]));
    if (!count_padding) {
      start = maximum(start, like(start, 0));
      end = minimum(end, like(end, w.input[i]));
    }
    d = d * convert(end - start, x.dtype());
  }
  return d;
}
template <size_t N>
Value avg_pool(Value given, Dims kernel, Dims stride, Dims padding, bool ceil_mode, bool count_padding,
               std::optional<int64_t> fixed) {
  const Windows w = windows(given, N, kernel, stride, padding, {}, ceil_mode);
  Value x = padded(widen(given), w, scalar(widen(given), 0));
  Value total;
  each_place(w, [&](const Dims& at) {
    Value v = element(x, w, at);
    total = total.builder ? total + v : v;
  });
  if (is_integer(total.dtype()))
    return trunc_divide(total, divisor(x, w, count_padding, fixed, total.dims()));
  return convert(total / divisor(x, w, count_padding, fixed, total.dims()), given.dtype());
}
template <size_t N>
Value avg_pool_backward(Value gradient, Value x, Dims kernel, Dims stride, Dims padding, bool ceil_mode, bool count_padding,
                        std::optional<int64_t> fixed) {
  const Windows w = windows(x, N, kernel, stride, padding, {}, ceil_mode);
  Value g = widen(gradient);
  g = g / divisor(g, w, count_padding, fixed, g.dims());
  const Dims dims = padded(constant(*x.builder, 0.0, {g.dtype(), x.dims()}), w, scalar(g, 0)).dims();
  Value total = constant(*x.builder, 0.0, {g.dtype(), dims});
  each_place(w, [&](const Dims& at) { total = total + spread(g, w, at, dims); });
  for (size_t i = 0; i < N; ++i)
    total = slice(total, w.lead + int64_t(i), w.padding[i], w.padding[i] + w.input[i]);
  return convert(total, gradient.dtype());
}

// [out, in]: the share of each input in each adaptive window's mean.
Value shares(Builder& b, DType t, int64_t out, int64_t in) {
  const Type type{DType::I64, {out, in}};
  Value i = iota(b, type, 0), j = iota(b, type, 1);
  Value start = (i * like(i, in)) / like(i, out);
  Value end = ((i + like(i, 1)) * like(i, in) + like(i, out - 1)) / like(i, out);
  Value inside = and_(j >= start, j < end);
  return convert(inside, t) / convert(end - start, t);
}
template <size_t N>
Value adaptive_avg_pool(Value given, Dims sizes) {
  Value x = widen(given);
  sizes = expand(sizes, N, {});
  for (size_t i = 0; i < N; ++i) {
    const int64_t d = x.rank() - int64_t(N) + int64_t(i);
    x = matmul_along(x, d, shares(*x.builder, x.dtype(), sizes[i], x.dim(d)), false);
  }
  return convert(x, given.dtype());
}
template <size_t N>
Value adaptive_avg_pool_backward(Value gradient, Value x) {
  Value g = widen(gradient);
  for (size_t i = 0; i < N; ++i) {
    const int64_t d = x.rank() - int64_t(N) + int64_t(i);
    g = matmul_along(g, d, shares(*x.builder, g.dtype(), g.dim(d), x.dim(d)), true);
  }
  return convert(g, gradient.dtype());
}

constexpr Row kRows[] = {
    {"aten::_adaptive_avg_pool2d", op<adaptive_avg_pool<2>>},
    {"aten::_adaptive_avg_pool2d_backward", op<adaptive_avg_pool_backward<2>>},
    {"aten::_adaptive_avg_pool3d", op<adaptive_avg_pool<3>>},
    {"aten::_adaptive_avg_pool3d_backward", op<adaptive_avg_pool_backward<3>>},
    {"aten::avg_pool2d", op<avg_pool<2>>},
    {"aten::avg_pool2d_backward", op<avg_pool_backward<2>>},
    {"aten::avg_pool3d", op<avg_pool<3>>},
    {"aten::avg_pool3d_backward", op<avg_pool_backward<3>>},
    {"aten::max_pool2d_with_indices", op<max_pool_op<2>>},
    {"aten::max_pool2d_with_indices_backward", op<max_pool_backward<2>>},
    {"aten::max_pool3d_with_indices", op<max_pool_op<3>>},
    {"aten::max_pool3d_with_indices_backward", op<max_pool_backward<3>>},
};

}  // namespace

const Table kPooling = kRows;

}  // namespace tpu::ops
