// Pooling over windows, and over an adaptive number of them.
#include <algorithm>
#include <limits>

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
Windows windows(const Value& x, size_t n, const Dims& kernel, const Dims& stride, const Dims& padding,
                const Dims& dilation, bool ceil_mode) {
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

// Kernels with more places than this go through reduce_window: the program would grow too long.
constexpr int64_t kMostPlaces = 49;

// Where in the input's last dims each window's element `at` is.
Value position(Builder& b, const Windows& w, const Dims& at, const Dims& dims) {
  const Dims strides = row_major_strides(w.input);
  Value flat = constant(b, int64_t{0}, {DType::I64, dims});
  for (size_t i = 0; i < w.n(); ++i) {
    Value along = iota(b, flat.type, w.lead + int64_t(i));
    flat = flat + (along * like(along, w.stride[i]) + like(along, first(w, at, i))) * like(along, strides[i]);
  }
  return flat;
}
// Whether each window's element `at` is no padding.
Value inside(Builder& b, const Windows& w, const Dims& at, const Dims& dims) {
  Value all = constant(b, int64_t{1}, {DType::Pred, dims});
  for (size_t i = 0; i < w.n(); ++i) {
    Value along = iota(b, {DType::I64, dims}, w.lead + int64_t(i));
    Value place = along * like(along, w.stride[i]) + like(along, first(w, at, i));
    all = and_(all, and_(place >= like(place, 0), place < like(place, w.input[i])));
  }
  return all;
}

Window as_window(const Windows& w) {
  Window window;
  for (Dims* d : {&window.size, &window.stride, &window.dilation}) d->assign(size_t(w.lead), 1);
  window.size.insert(window.size.end(), w.kernel.begin(), w.kernel.end());
  window.stride.insert(window.stride.end(), w.stride.begin(), w.stride.end());
  window.dilation.insert(window.dilation.end(), w.dilation.begin(), w.dilation.end());
  window.low = window.high = Dims(size_t(w.lead) + w.n(), 0);  // padded() has been applied
  return window;
}

std::pair<Value, Value> large_max_pool(Value x, Value positions, const Windows& w) {
  const Value none = constant(*x.builder, std::numeric_limits<int64_t>::max(), {DType::I64, {}});
  const Values r =
      reduce_window({x, positions}, {lowest(*x.builder, x.dtype()), none}, as_window(w), [](const Values& v) {
        Value nan0 = is_nan(v[0]), nan2 = is_nan(v[2]);
        Value better = or_(and_(v[0] > v[2], not_(nan2)), and_(nan0, not_(nan2)));
        Value same = or_(v[0] == v[2], and_(nan0, nan2));
        Value stays = or_(better, and_(same, v[1] <= v[3]));
        return Values{hlo::select(stays, v[0], v[2]), hlo::select(stays, v[1], v[3])};
      });
  return {r[0], r[1]};
}

std::pair<Value, Value> max_pool(Value given, const Windows& w) {
  Builder& b = *given.builder;
  Value x = padded(given, w, lowest(b, given.dtype()));
  if (element_count(w.kernel) > kMostPlaces) {
    Windows whole = w;
    whole.kernel = Dims(w.n(), 1);
    whole.padding = whole.dilation = whole.stride = whole.kernel;
    whole.padding = Dims(w.n(), 0);
    Value positions = position(b, whole, Dims(w.n(), 0), given.dims());
    return large_max_pool(x, padded(positions, w, constant(b, std::numeric_limits<int64_t>::max(), {DType::I64, {}})),
                          w);
  }
  Value best, where, found;
  each_place(w, [&](const Dims& at) {
    Value v = element(x, w, at), here = position(b, w, at, v.dims()), real = inside(b, w, at, v.dims());
    if (!best.builder) {
      best = v;
      where = here;
      found = real;
      return;
    }
    Value better = and_(real, or_(not_(found), or_(v > best, is_nan(v))));
    best = hlo::select(better, v, best);
    where = hlo::select(better, here, where);
    found = or_(found, real);
  });
  return {best, where};
}
template <size_t N>
std::pair<Value, Value> max_pool_op(Value x, Dims kernel, Dims stride, Dims padding, Dims dilation, bool ceil_mode) {
  return max_pool(x, windows(x, N, kernel, stride, padding, dilation, ceil_mode));
}
// Gradients added at flat positions in x's last dims.
Value put_back(Value gradient, const Value& x, Value where, size_t n) {
  const Dims outer(x.dims().begin(), x.dims().end() - int64_t(n));
  const int64_t rows = element_count(outer);
  if (x.count() == 0 || gradient.count() == 0) return constant(*x.builder, 0.0, {gradient.dtype(), x.dims()});
  Value g = reshape(widen(gradient), {rows, gradient.count() / rows});
  Value zero = constant(*x.builder, 0.0, {g.dtype(), {rows, x.count() / rows}});
  Value sums = add_elements(zero, 1, reshape(where, g.dims()), g);
  return convert(reshape(sums, x.dims()), gradient.dtype());
}
// Adds a value of each window, chosen by its place in the kernel, to the input element there.
template <class F>
Value spread_all(const Value& x, const Windows& w, DType t, F chosen) {
  Builder& b = *x.builder;
  const Dims dims = padded(constant(b, 0.0, {t, x.dims()}), w, constant(b, 0.0, {t, {}})).dims();
  Value total = constant(b, 0.0, {t, dims});
  each_place(w, [&](const Dims& at) { total = total + spread(chosen(at), w, at, dims); });
  for (size_t i = 0; i < w.n(); ++i) total = slice(total, w.lead + int64_t(i), w.padding[i], w.padding[i] + w.input[i]);
  return total;
}
template <size_t N>
Value max_pool_backward(Value gradient, Value x, Dims kernel, Dims stride, Dims padding, Dims dilation, bool ceil_mode,
                        Value where) {
  const Windows w = windows(x, N, kernel, stride, padding, dilation, ceil_mode);
  if (element_count(w.kernel) > kMostPlaces || x.count() == 0) return put_back(gradient, x, where, N);
  Value g = widen(gradient);
  Value total = spread_all(x, w, g.dtype(), [&](const Dims& at) {
    Value here = and_(where == position(*x.builder, w, at, g.dims()), inside(*x.builder, w, at, g.dims()));
    return hlo::select(here, g, like(g, 0));
  });
  return convert(total, gradient.dtype());
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
// Of an array already padded.
Value window_sums(Value x, const Windows& w) {
  if (element_count(w.kernel) > kMostPlaces) return reduce_window(x, "add", scalar(x, 0), as_window(w));
  Value total;
  each_place(w, [&](const Dims& at) {
    Value v = element(x, w, at);
    total = total.builder ? total + v : v;
  });
  return total;
}
template <size_t N>
Value avg_pool(Value given, Dims kernel, Dims stride, Dims padding, bool ceil_mode, bool count_padding,
               std::optional<int64_t> fixed) {
  const Windows w = windows(given, N, kernel, stride, padding, {}, ceil_mode);
  Value x = padded(widen(given), w, scalar(widen(given), 0));
  Value total = window_sums(x, w);
  if (is_integer(total.dtype())) return trunc_divide(total, divisor(x, w, count_padding, fixed, total.dims()));
  return convert(total / divisor(x, w, count_padding, fixed, total.dims()), given.dtype());
}
// The gradient of window_sums(): windows of ones slide over the spread gradients.
Value spread_sums(Value g, const Value& x, const Windows& w) {
  const Dims none(size_t(g.rank()), 0);
  Dims low = none, high = none, inner = none;
  Windows back = w;
  for (size_t i = 0; i < w.n(); ++i) {
    const size_t d = size_t(w.lead) + i;
    inner[d] = w.stride[i] - 1;
    low[d] = w.kernel[i] - 1 - w.padding[i];
    high[d] = w.input[i] + w.kernel[i] - 1 - low[d] - ((w.count[i] - 1) * w.stride[i] + 1);
    back.stride[i] = 1;
  }
  return reshape(reduce_window(pad(g, scalar(g, 0), low, high, inner), "add", scalar(g, 0), as_window(back)), x.dims());
}
template <size_t N>
Value avg_pool_backward(Value gradient, Value x, Dims kernel, Dims stride, Dims padding, bool ceil_mode,
                        bool count_padding, std::optional<int64_t> fixed) {
  const Windows w = windows(x, N, kernel, stride, padding, {}, ceil_mode);
  Value g = widen(gradient);
  g = g / divisor(g, w, count_padding, fixed, g.dims());
  if (element_count(w.kernel) > kMostPlaces) return convert(spread_sums(g, x, w), gradient.dtype());
  return convert(spread_all(x, w, g.dtype(), [&](const Dims&) { return g; }), gradient.dtype());
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

// ---- windows that start anywhere: for each dim a table [rows, out] of starts, the rows being one or x's planes

struct Scattered {
  Value x;                  // [planes, input...]
  Values start, length;     // of each dim: [rows, out] of I64; places from `length` on don't count
  Dims input, count, most;  // sizes, windows and the longest window along each dim
};

// {largest, its flat position}: the first of equals, a NaN where there is one. Dims: planes, count...
std::pair<Value, Value> scattered_max(const Scattered& s) {
  const int64_t planes = s.x.dim(0), places = element_count(s.most);
  const size_t n = s.input.size();
  Dims dims{planes};
  dims.insert(dims.end(), s.count.begin(), s.count.end());
  dims.push_back(places);
  const Type type{DType::I64, dims};
  Builder& b = *s.x.builder;
  const Dims strides = row_major_strides(s.input);
  // Where in its dim each place of a window is, for the place numbers given.
  auto along = [&](size_t i, Value place) {
    int64_t inner = 1;
    for (size_t j = i + 1; j < n; ++j) inner *= s.most[j];
    Value offset = remainder(place / like(place, inner), like(place, s.most[i]));
    Value table = s.start[i], length = s.length[i];
    auto spread_table = [&](Value t) {
      if (t.dim(0) == 1 && planes != 1) t = broadcast(t, {planes, t.dim(1)});
      return broadcast_in_dim(t, place.dims(), {0, int64_t(i) + 1});
    };
    return std::pair{spread_table(table) + offset, offset < spread_table(length)};
  };
  auto flat = [&](Value place) {
    Value at = like(place, 0), valid = all_true(place);
    for (size_t i = 0; i < n; ++i) {
      auto [p, in_window] = along(i, place);
      at = at + p * like(p, strides[i]);
      valid = and_(valid, in_window);
    }
    return std::pair{at, valid};
  };
  auto [at, valid] = flat(iota(b, type, int64_t(n) + 1));
  Value index = hlo::select(valid, at, like(at, 0));
  Value v = pick_elements(reshape(s.x, {planes, element_count(s.input)}), 1,
                          reshape(index, {planes, index.count() / planes}));
  v = reshape(v, dims);
  v = hlo::select(valid, v, broadcast(lowest(b, v.dtype()), dims));
  auto [best, place] = extreme(v, int64_t(n) + 1, false, true);
  return {best, flat(place).first};
}
std::pair<Value, Value> scattered_pool(const Value& given, Scattered s) {
  Dims dims(given.dims().begin(), given.dims().end() - int64_t(s.input.size()));
  const int64_t planes = element_count(dims);
  dims.insert(dims.end(), s.count.begin(), s.count.end());
  if (element_count(dims) == 0)
    return {constant(*given.builder, 0.0, {given.dtype(), dims}),
            constant(*given.builder, int64_t{0}, {DType::I64, dims})};
  Dims split{planes};
  split.insert(split.end(), s.input.begin(), s.input.end());
  s.x = reshape(given, split);
  auto [best, where] = scattered_max(s);
  return {reshape(best, dims), reshape(where, dims)};
}

template <size_t N>
std::pair<Value, Value> adaptive_max_pool(Value x, Dims sizes) {
  sizes = expand(sizes, N, {});
  const Dims input(x.dims().end() - int64_t(N), x.dims().end());
  Dims kernel;
  bool even = element_count(sizes) > 0;
  for (size_t i = 0; i < N; ++i) {
    even = even && input[i] % sizes[i] == 0;
    kernel.push_back(even ? input[i] / sizes[i] : 0);
  }
  if (even) return max_pool(x, windows(x, N, kernel, kernel, {}, {}, false));
  Scattered s{.x = x, .start = {}, .length = {}, .input = input, .count = sizes, .most = {}};
  for (size_t i = 0; i < N; ++i) {
    Dims start, length;
    for (int64_t o = 0; o < sizes[i]; ++o) {
      start.push_back(o * input[i] / sizes[i]);
      length.push_back(((o + 1) * input[i] + sizes[i] - 1) / sizes[i] - start.back());
    }
    s.most.push_back(length.empty() ? 0 : *std::max_element(length.begin(), length.end()));
    s.start.push_back(reshape(constant(*x.builder, start, DType::I64), {1, sizes[i]}));
    s.length.push_back(reshape(constant(*x.builder, length, DType::I64), {1, sizes[i]}));
  }
  return scattered_pool(x, s);
}
template <size_t N>
Value adaptive_max_pool_backward(Value gradient, Value x, Value where) {
  return put_back(gradient, x, where, N);
}

// samples: [n, c, N], one start of the sequence of windows for each plane and dim; two dims come as (width, height).
template <size_t N>
std::pair<Value, Value> fractional_max_pool(Value x, Dims kernel, Dims sizes, Value samples) {
  kernel = expand(kernel, N, {});
  sizes = expand(sizes, N, {});
  Builder& b = *x.builder;
  const Dims input(x.dims().end() - int64_t(N), x.dims().end());
  const int64_t planes = samples.count() / int64_t(N);
  Value each = reshape(samples, {planes, int64_t(N)});
  // Positions are computed in the samples' dtype, as they decide where an integer ends.
  Scattered s{.x = x, .start = {}, .length = {}, .input = input, .count = sizes, .most = kernel};
  for (size_t i = 0; i < N; ++i) {
    const Type type{DType::I64, {planes, sizes[i]}};
    const int64_t column = N == 2 ? 1 - int64_t(i) : int64_t(i), last = input[i] - kernel[i];
    Value at = iota(b, type, 1), start = like(at, last);
    if (sizes[i] > 1) {
      Value sample = broadcast(widen(slice(each, 1, column, column + 1)), type.dims);
      Value alpha = like(sample, double(last)) / like(sample, double(sizes[i] - 1));
      Value moved =
          convert((convert(at, sample.dtype()) + sample) * alpha, DType::I64) - convert(sample * alpha, DType::I64);
      start = hlo::select(at == like(at, sizes[i] - 1), start, moved);
    }
    s.start.push_back(start);
    s.length.push_back(like(at, kernel[i]));
  }
  return scattered_pool(x, s);
}
template <size_t N>
Value fractional_max_pool_backward(Value gradient, Value x, Ignored, Ignored, Value where) {
  return put_back(gradient, x, where, N);
}

// Each element of x stored at its flat position in new last dims.
template <size_t N>
Value unpool(Value x, Value where, const Dims& sizes) {
  Dims dims(x.dims().begin(), x.dims().end() - int64_t(N));
  const int64_t planes = element_count(dims), size = element_count(sizes);
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  Builder& b = *x.builder;
  Value zero = constant(b, 0.0, {x.dtype(), {planes * size}});
  if (x.count() == 0) return reshape(zero, dims);
  b.require(and_(where >= like(where, 0), where < like(where, size)), "max_unpool: found an index outside the output");
  Value plane = iota(b, {DType::I64, {planes, x.count() / planes}}, 0);
  Value at = reshape(plane * like(plane, size) + reshape(where, plane.dims()), {x.count(), 1});
  const ScatterDims d{
      .window = {}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
  return reshape(hlo::scatter(zero, at, reshape(x, {x.count()}), d, [](const Values& v) { return Values{v[1]}; }),
                 dims);
}
Value max_unpool2d(Value x, Value where, Dims sizes) { return unpool<2>(x, where, sizes); }
Value max_unpool3d(Value x, Value where, Dims sizes, Ignored, Ignored) { return unpool<3>(x, where, sizes); }

constexpr Row kRows[] = {
    {"aten::_adaptive_avg_pool2d", op<adaptive_avg_pool<2>>},
    {"aten::_adaptive_avg_pool2d_backward", op<adaptive_avg_pool_backward<2>>},
    {"aten::_adaptive_avg_pool3d", op<adaptive_avg_pool<3>>},
    {"aten::_adaptive_avg_pool3d_backward", op<adaptive_avg_pool_backward<3>>},
    {"aten::adaptive_max_pool2d", op<adaptive_max_pool<2>>},
    {"aten::adaptive_max_pool2d_backward", op<adaptive_max_pool_backward<2>>},
    {"aten::adaptive_max_pool3d", op<adaptive_max_pool<3>>},
    {"aten::adaptive_max_pool3d_backward", op<adaptive_max_pool_backward<3>>},
    {"aten::avg_pool2d", op<avg_pool<2>>},
    {"aten::avg_pool2d_backward", op<avg_pool_backward<2>>},
    {"aten::avg_pool3d", op<avg_pool<3>>},
    {"aten::avg_pool3d_backward", op<avg_pool_backward<3>>},
    {"aten::fractional_max_pool2d", op<fractional_max_pool<2>>},
    {"aten::fractional_max_pool2d_backward", op<fractional_max_pool_backward<2>>},
    {"aten::fractional_max_pool3d", op<fractional_max_pool<3>>},
    {"aten::fractional_max_pool3d_backward", op<fractional_max_pool_backward<3>>},
    {"aten::max_pool2d_with_indices", op<max_pool_op<2>>},
    {"aten::max_pool2d_with_indices_backward", op<max_pool_backward<2>>},
    {"aten::max_pool3d_with_indices", op<max_pool_op<3>>},
    {"aten::max_pool3d_with_indices_backward", op<max_pool_backward<3>>},
    {"aten::max_unpool2d", op<max_unpool2d>},
    {"aten::max_unpool3d", op<max_unpool3d>},
};

}  // namespace

const Table kPooling = kRows;

}  // namespace tpu::ops
