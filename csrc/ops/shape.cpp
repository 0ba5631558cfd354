// Ops that move elements without computing on them.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

Value cat(Values xs, int64_t dim) {
  DType t = xs[0].dtype();
  Values parts;
  for (const Value& x : xs) {
    t = result_type(Values{hlo::like(x, 0), x}) == x.dtype() ? promote(t, x.dtype()) : t;
    // By long custom an empty vector goes with everything.
    if (!(x.rank() == 1 && x.dim(0) == 0)) parts.push_back(x);
  }
  if (parts.empty()) return convert(xs[0], t);
  for (Value& p : parts) p = convert(p, t);
  return concatenate(parts, wrap(dim, parts[0].rank()));
}

Value clone(Value x, Ignored) { return x; }
Value copy(Value self, Value source, Ignored) { return broadcast(convert(source, self.dtype()), self.dims()); }
Value fill(Value x, Value v) { return broadcast(convert(reshape(v, {}), x.dtype()), x.dims()); }
Value zero(Value x) { return like(x, 0); }

Value flip(Value x, Dims dims) {
  for (int64_t& d : dims) d = wrap(d, x.rank());
  return x.rank() == 0 ? x : reverse(x, dims);
}

Value roll_dim(Value x, int64_t dim, int64_t by) {
  const int64_t n = x.dim(dim);
  if (n == 0) return x;
  by = ((by % n) + n) % n;
  return by == 0 ? x : concatenate({slice(x, dim, n - by, n), slice(x, dim, 0, n - by)}, dim);
}
Value roll(Value x, Dims shifts, Dims dims) {
  if (x.count() == 0) return x;
  if (dims.empty()) return reshape(roll_dim(reshape(x, {x.count()}), 0, shifts[0]), x.dims());
  for (size_t i = 0; i < dims.size(); ++i) x = roll_dim(x, wrap(dims[i], x.rank()), shifts[i]);
  return x;
}

Value repeat(Value x, Dims repeats) {
  Dims padded(repeats.size() - size_t(x.rank()), 1), wide, positions, out;
  padded.insert(padded.end(), x.dims().begin(), x.dims().end());
  for (size_t i = 0; i < repeats.size(); ++i) {
    wide.push_back(repeats[i]);
    positions.push_back(int64_t(wide.size()));
    wide.push_back(padded[i]);
    out.push_back(repeats[i] * padded[i]);
  }
  return reshape(broadcast_in_dim(reshape(x, padded), wide, positions), out);
}

Value triangle(Value x, int64_t diagonal, bool lower) {
  const Type t{DType::I64, x.dims()};
  Value row = iota(*x.builder, t, x.rank() - 2), column = iota(*x.builder, t, x.rank() - 1);
  Value edge = row + like(row, diagonal);
  return select(lower ? column <= edge : column >= edge, x, 0.0);
}
Value tril(Value x, int64_t diagonal) { return triangle(x, diagonal, true); }
Value triu(Value x, int64_t diagonal) { return triangle(x, diagonal, false); }

Value trace(Value x) {
  Value i = iota(*x.builder, {DType::I32, x.dims()}, 0), j = iota(*x.builder, {DType::I32, x.dims()}, 1);
  const bool whole = is_integer(x.dtype()) || x.dtype() == DType::Pred;
  Value on = select(i == j, whole ? convert(x, DType::I64) : widen(x), 0.0);
  return whole ? sum(on, {0, 1}, false) : convert(sum(on, {0, 1}, false), x.dtype());
}

// Paddings are given from the last dim on, low and high; negative ones cut.
Value constant_pad(Value x, Dims padding, Value value) {
  Dims low(size_t(x.rank()), 0), high = low, none = low;
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    const size_t d = size_t(x.rank()) - 1 - i;
    low[d] = padding[2 * i];
    high[d] = padding[2 * i + 1];
  }
  return pad(x, reshape(convert(value, x.dtype()), {}), low, high, none);
}

Value clipped(Value x, int64_t dim, int64_t low, int64_t high) {
  return slice(x, dim, std::max<int64_t>(0, -low), x.dim(dim) - std::max<int64_t>(0, -high));
}
Value reflect_dim(Value x, int64_t dim, int64_t low, int64_t high) {
  x = clipped(x, dim, low, high);
  low = std::max<int64_t>(low, 0);
  high = std::max<int64_t>(high, 0);
  const int64_t n = x.dim(dim);
  return concatenate({reverse(slice(x, dim, 1, low + 1), {dim}), x, reverse(slice(x, dim, n - 1 - high, n - 1), {dim})},
                     dim);
}
Value replicate_dim(Value x, int64_t dim, int64_t low, int64_t high) {
  check(low >= 0 && high >= 0, Code::Unimplemented, "replication padding that cuts");
  const int64_t n = x.dim(dim);
  auto edge = [&](int64_t at, int64_t count) {
    Dims dims = x.dims();
    dims[size_t(dim)] = std::max<int64_t>(count, 0);
    if (n == 0) return constant(*x.builder, 0.0, {x.dtype(), dims});
    return broadcast(slice(x, dim, at, at + 1), dims);
  };
  return concatenate({edge(0, low), x, edge(n - 1, high)}, dim);
}
template <auto F>
Value pad_edges(Value x, Dims padding) {
  for (size_t i = 0; i < padding.size() / 2; ++i)
    x = F(x, x.rank() - 1 - int64_t(i), padding[2 * i], padding[2 * i + 1]);
  return x;
}

// Adds the gradient of cut-off stretches to where they were taken from.
Value add_at(Value x, Value part, int64_t dim, int64_t start) {
  Dims low(size_t(x.rank()), 0), high = low, none = low;
  low[size_t(dim)] = start;
  high[size_t(dim)] = x.dim(dim) - start - part.dim(dim);
  return x + pad(part, scalar(part, 0), low, high, none);
}
Value unreflect_dim(Value g, int64_t dim, int64_t low, int64_t high, int64_t n) {
  Value x = slice(g, dim, low, low + n);
  if (low > 0) x = add_at(x, reverse(slice(g, dim, 0, low), {dim}), dim, 1);
  if (high > 0) x = add_at(x, reverse(slice(g, dim, low + n, low + n + high), {dim}), dim, n - 1 - high);
  return x;
}
Value unreplicate_dim(Value g, int64_t dim, int64_t low, int64_t high, int64_t n) {
  Value x = slice(g, dim, low, low + n);
  if (low > 0) x = add_at(x, sum(slice(g, dim, 0, low), {dim}, true), dim, 0);
  if (high > 0) x = add_at(x, sum(slice(g, dim, low + n, low + n + high), {dim}, true), dim, n - 1);
  return x;
}
template <auto F>
Value unpad_edges(Value gradient, Value x, Dims padding) {
  check(std::all_of(padding.begin(), padding.end(), [](int64_t p) { return p >= 0; }), Code::Unimplemented,
        "the gradient of a negative padding");
  Value g = widen(gradient);
  for (size_t i = padding.size() / 2; i-- > 0;) {
    const int64_t dim = x.rank() - 1 - int64_t(i);
    g = F(g, dim, padding[2 * i], padding[2 * i + 1], x.dim(dim));
  }
  return convert(g, gradient.dtype());
}

Value pixel_shuffle(Value x, int64_t r) {
  const Dims lead(x.dims().begin(), x.dims().end() - 3);
  const int64_t c = x.dim(x.rank() - 3) / (r * r), h = x.dim(x.rank() - 2), w = x.dim(x.rank() - 1);
  const int64_t n = element_count(lead);
  Value y = transpose(reshape(x, {n, c, r, r, h, w}), {0, 1, 4, 2, 5, 3});
  Dims out = lead;
  out.insert(out.end(), {c, h * r, w * r});
  return reshape(y, out);
}
Value pixel_unshuffle(Value x, int64_t r) {
  const Dims lead(x.dims().begin(), x.dims().end() - 3);
  const int64_t c = x.dim(x.rank() - 3), h = x.dim(x.rank() - 2) / r, w = x.dim(x.rank() - 1) / r;
  const int64_t n = element_count(lead);
  Value y = transpose(reshape(x, {n, c, h, r, w, r}), {0, 1, 3, 5, 2, 4});
  Dims out = lead;
  out.insert(out.end(), {c * r * r, h, w});
  return reshape(y, out);
}
Value channel_shuffle(Value x, int64_t groups) {
  Dims split{x.dim(0), groups, x.dim(1) / groups, x.count() / std::max<int64_t>(1, x.dim(0) * x.dim(1))};
  if (x.count() == 0) return x;
  return reshape(transpose(reshape(x, split), {0, 2, 1, 3}), x.dims());
}

// Where the gradient of a slice goes: zeros elsewhere.
Value slice_backward(Value g, Dims sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  dim = wrap(dim, int64_t(sizes.size()));
  const int64_t n = sizes[size_t(dim)], count = g.dim(dim);
  auto bound = [n](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  start = bound(start);
  (void)end;
  Dims low(sizes.size(), 0), high = low, inner = low;
  if (count == 0) return constant(*g.builder, 0.0, {g.dtype(), sizes});
  low[size_t(dim)] = start;
  inner[size_t(dim)] = step - 1;
  high[size_t(dim)] = n - start - ((count - 1) * step + 1);
  return pad(g, scalar(g, 0), low, high, inner);
}
Value select_backward(Value g, Dims sizes, int64_t dim, int64_t index) {
  dim = wrap(dim, int64_t(sizes.size()));
  if (index < 0) index += sizes[size_t(dim)];
  Dims single = sizes;
  single[size_t(dim)] = 1;
  return slice_backward(reshape(g, single), sizes, dim, index, index + 1, 1);
}
Value diagonal_backward(Value g, Dims sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  const auto rank = int64_t(sizes.size());
  dim1 = wrap(dim1, rank);
  dim2 = wrap(dim2, rank);
  // The diagonal is the last dim of g: spread it over both dims and keep where they meet.
  Dims positions;
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim1 && d != dim2) positions.push_back(d);
  const Type t{DType::I64, sizes};
  Value i = iota(*g.builder, t, dim1), j = iota(*g.builder, t, dim2);
  const int64_t length = g.dim(g.rank() - 1);
  if (length == 0) return constant(*g.builder, 0.0, {g.dtype(), sizes});
  const int64_t by = offset >= 0 ? dim1 : dim2;
  Dims low(size_t(g.rank()), 0), high = low;
  high.back() = sizes[size_t(by)] - length;
  Value spread = pad(g, scalar(g, 0), low, high, Dims(size_t(g.rank()), 0));
  positions.push_back(by);
  spread = broadcast_in_dim(spread, sizes, positions);
  return select(j - i == like(i, offset), spread, 0.0);
}

// Adds windows back to where they overlap.
Value unfold_backward(Value g, Dims sizes, int64_t dim, int64_t size, int64_t step) {
  if (sizes.empty()) return reshape(g, {});
  dim = wrap(dim, int64_t(sizes.size()));
  const int64_t n = sizes[size_t(dim)], windows = g.dim(dim);
  Value wide = widen(g);
  Value total = constant(*g.builder, 0.0, {wide.dtype(), sizes});
  for (int64_t k = 0; k < size; ++k) {
    Value part = slice(wide, g.rank() - 1, k, k + 1);
    Dims dims(g.dims().begin(), g.dims().end() - 1);
    part = reshape(part, dims);
    Dims low(sizes.size(), 0), high = low, inner = low;
    low[size_t(dim)] = k;
    inner[size_t(dim)] = step - 1;
    high[size_t(dim)] = n - k - ((windows - 1) * step + 1);
    total = total + pad(part, scalar(part, 0), low, high, inner);
  }
  return convert(total, g.dtype());
}

// Patches as columns: [n, c, h, w] to [n, c * kh * kw, windows].
Value im2col(Value given, Dims kernel, Dims dilation, Dims padding, Dims stride) {
  Value x = given.rank() == 3 ? reshape(given, {1, given.dim(0), given.dim(1), given.dim(2)}) : given;
  x = pad(x, scalar(x, 0), {0, 0, padding[0], padding[1]}, {0, 0, padding[0], padding[1]}, {0, 0, 0, 0});
  auto windows = [&](size_t i) {
    return (x.dim(int64_t(i) + 2) - (dilation[i] * (kernel[i] - 1) + 1)) / stride[i] + 1;
  };
  const int64_t oh = windows(0), ow = windows(1), n = x.dim(0), c = x.dim(1);
  Values parts;
  for (int64_t a = 0; a < kernel[0]; ++a)
    for (int64_t b = 0; b < kernel[1]; ++b) {
      Value p = slice(x, 2, a * dilation[0], a * dilation[0] + (oh - 1) * stride[0] + 1, stride[0]);
      p = slice(p, 3, b * dilation[1], b * dilation[1] + (ow - 1) * stride[1] + 1, stride[1]);
      parts.push_back(reshape(p, {n, c, 1, oh * ow}));
    }
  Value y = reshape(concatenate(parts, 2), {n, c * kernel[0] * kernel[1], oh * ow});
  return given.rank() == 3 ? reshape(y, {y.dim(1), y.dim(2)}) : y;
}
Value col2im(Value given, Dims size, Dims kernel, Dims dilation, Dims padding, Dims stride) {
  Value x = widen(given.rank() == 2 ? reshape(given, {1, given.dim(0), given.dim(1)}) : given);
  const int64_t n = x.dim(0), c = x.dim(1) / (kernel[0] * kernel[1]);
  const int64_t ph = size[0] + 2 * padding[0], pw = size[1] + 2 * padding[1];
  auto windows = [&](int64_t padded, size_t i) {
    return (padded - (dilation[i] * (kernel[i] - 1) + 1)) / stride[i] + 1;
  };
  const int64_t oh = windows(ph, 0), ow = windows(pw, 1);
  x = reshape(x, {n, c, kernel[0] * kernel[1], oh, ow});
  Value total = constant(*x.builder, 0.0, {x.dtype(), {n, c, ph, pw}});
  for (int64_t a = 0; a < kernel[0]; ++a)
    for (int64_t b = 0; b < kernel[1]; ++b) {
      Value p = reshape(slice(x, 2, a * kernel[1] + b, a * kernel[1] + b + 1), {n, c, oh, ow});
      const int64_t lh = a * dilation[0], lw = b * dilation[1];
      total = total + pad(p, scalar(p, 0), {0, 0, lh, lw},
                          {0, 0, ph - lh - ((oh - 1) * stride[0] + 1), pw - lw - ((ow - 1) * stride[1] + 1)},
                          {0, 0, stride[0] - 1, stride[1] - 1});
    }
  total = slice(slice(total, 2, padding[0], padding[0] + size[0]), 3, padding[1], padding[1] + size[1]);
  total = convert(total, given.dtype());
  return given.rank() == 2 ? reshape(total, {c, size[0], size[1]}) : total;
}

constexpr Row kRows[] = {
    {"aten::cat", op<cat>},
    {"aten::channel_shuffle", op<channel_shuffle>},
    {"aten::clone", op<clone>},
    {"aten::col2im", op<col2im>},
    {"aten::constant_pad_nd", op<constant_pad>},
    {"aten::copy", op<copy>},
    {"aten::diagonal_backward", op<diagonal_backward>},
    {"aten::fill.Scalar", op<fill>},
    {"aten::fill.Tensor", op<fill>},
    {"aten::flip", op<flip>},
    {"aten::im2col", op<im2col>},
    {"aten::pixel_shuffle", op<pixel_shuffle>},
    {"aten::pixel_unshuffle", op<pixel_unshuffle>},
    {"aten::reflection_pad1d", op<pad_edges<reflect_dim>>},
    {"aten::reflection_pad1d_backward", op<unpad_edges<unreflect_dim>>},
    {"aten::reflection_pad2d", op<pad_edges<reflect_dim>>},
    {"aten::reflection_pad2d_backward", op<unpad_edges<unreflect_dim>>},
    {"aten::reflection_pad3d", op<pad_edges<reflect_dim>>},
    {"aten::reflection_pad3d_backward", op<unpad_edges<unreflect_dim>>},
    {"aten::repeat", op<repeat>},
    {"aten::replication_pad1d", op<pad_edges<replicate_dim>>},
    {"aten::replication_pad1d_backward", op<unpad_edges<unreplicate_dim>>},
    {"aten::replication_pad2d", op<pad_edges<replicate_dim>>},
    {"aten::replication_pad2d_backward", op<unpad_edges<unreplicate_dim>>},
    {"aten::replication_pad3d", op<pad_edges<replicate_dim>>},
    {"aten::replication_pad3d_backward", op<unpad_edges<unreplicate_dim>>},
    {"aten::roll", op<roll>},
    {"aten::select_backward", op<select_backward>},
    {"aten::slice_backward", op<slice_backward>},
    {"aten::trace", op<trace>},
    {"aten::tril", op<tril>},
    {"aten::triu", op<triu>},
    {"aten::unfold_backward", op<unfold_backward>},
    {"aten::zero", op<zero>},
};

}  // namespace

const Table kShape = kRows;

}  // namespace tpu::ops
