// Resizing images and sampling them at given places.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/matrix.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

using Scale = std::optional<double>;

double step(int64_t in, int64_t out, bool align_corners, Scale scale) {
  if (align_corners) return out > 1 ? double(in - 1) / double(out - 1) : 0;
  return scale && *scale > 0 ? 1 / *scale : double(in) / double(out);
}

// Where output i reads the input, not yet clamped: a vector of `out` places.
Value places(Builder& b, DType t, int64_t in, int64_t out, bool align_corners, Scale scale) {
  Value i = convert(iota(b, {DType::I64, {out}}, 0), t);
  const double s = step(in, out, align_corners, scale);
  return align_corners ? i * s : (i + 0.5) * s - 0.5;
}

Value grid(Value v, int64_t out, int64_t in) { return broadcast_in_dim(v, {out, in}, {0}); }
Value columns(Builder& b, DType t, int64_t out, int64_t in) { return convert(iota(b, {DType::I64, {out, in}}, 1), t); }

// [out, in]: how much each input weighs in each output.
Value linear_weights(Builder& b, DType t, int64_t in, int64_t out, bool align_corners, Scale scale) {
  Value at = places(b, t, in, out, align_corners, scale);
  at = minimum(maximum(at, like(at, 0)), like(at, double(in - 1)));
  Value j = columns(b, t, out, in);
  return maximum(1.0 - abs(grid(at, out, in) - j), like(j, 0));
}
// The cubic convolution kernel with a = -0.75 at distance d.
Value cubic(Value d) {
  constexpr double a = -0.75;
  d = abs(d);
  Value near = ((a + 2) * d - (a + 3)) * d * d + 1.0;
  Value far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return hlo::select(d <= like(d, 1), near, hlo::select(d < like(d, 2), far, like(d, 0)));
}
Value cubic_slope(Value x) {
  constexpr double a = -0.75;
  Value d = abs(x);
  Value near = (3 * (a + 2) * d - 2 * (a + 3)) * d;
  Value far = (3 * a * d - 10 * a) * d + 8 * a;
  return sign(x) * hlo::select(d <= like(d, 1), near, hlo::select(d < like(d, 2), far, like(d, 0)));
}
Value cubic_weights(Builder& b, DType t, int64_t in, int64_t out, bool align_corners, Scale scale) {
  Value at = places(b, t, in, out, align_corners, scale), base = floor(at);
  Value j = columns(b, t, out, in), w = like(j, 0);
  for (int k = -1; k <= 2; ++k) {
    Value tap = base + double(k);
    Value c = cubic(at - tap);
    Value clamped = minimum(maximum(tap, like(tap, 0)), like(tap, double(in - 1)));
    w = w + hlo::select(grid(clamped, out, in) == j, grid(c, out, in), like(j, 0));
  }
  return w;
}
Value nearest_places(Builder& b, int64_t in, int64_t out, Scale scale, bool exact) {
  Value i = convert(iota(b, {DType::I64, {out}}, 0), DType::F32);
  Value at = floor((exact ? i + 0.5 : i) * step(in, out, false, scale));
  return convert(minimum(at, like(at, double(in - 1))), DType::I64);
}
Value nearest_weights(Builder& b, DType t, int64_t in, int64_t out, Scale scale, bool exact) {
  Value at = broadcast_in_dim(nearest_places(b, in, out, scale, exact), {out, in}, {0});
  return convert(at == iota(b, {DType::I64, {out, in}}, 1), t);
}

// The filters of antialiased resizing, as functions of the distance in input pixels at the coarser of both scales.
Value triangle(Value d) {
  d = abs(d);
  return maximum(1.0 - d, like(d, 0));
}
// As cubic(), with a = -0.5.
Value smooth_cubic(Value d) {
  constexpr double a = -0.5;
  d = abs(d);
  Value near = ((a + 2) * d - (a + 3)) * d * d + 1.0;
  Value far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return hlo::select(d < like(d, 1), near, hlo::select(d < like(d, 2), far, like(d, 0)));
}
Value lanczos(Value d) {
  auto sinc = [](Value v) {
    Value scaled = v * std::numbers::pi;
    return hlo::select(v == like(v, 0), like(v, 1), sine(scaled) / scaled);
  };
  return hlo::select(abs(d) < like(d, 3), sinc(d) * sinc(d / 3.0), like(d, 0));
}
Value antialiased_weights(Builder& b, DType t, int64_t in, int64_t out, bool align_corners, Scale scale, double reach,
                          Value (*filter)(Value)) {
  const double s = step(in, out, align_corners, scale), support = s >= 1 ? reach * s : reach;
  Value center = (convert(iota(b, {DType::I64, {out}}, 0), t) + 0.5) * s;
  Value low = maximum(floor(center - (support - 0.5)), like(center, 0));
  Value high = minimum(floor(center + (support + 0.5)), like(center, double(in)));
  Value j = columns(b, t, out, in);
  Value w = filter((j - grid(center, out, in) + 0.5) / std::max(s, 1.0));
  w = hlo::select(and_(j >= grid(low, out, in), j < grid(high, out, in)), w, like(w, 0));
  return w / stretch(sum(w, {1}, true), w);
}

enum class Kind : uint8_t { Linear, Cubic, Nearest, NearestExact, SmoothLinear, SmoothCubic, Lanczos };
Value weights(Kind kind, Builder& b, DType t, int64_t in, int64_t out, bool align_corners, Scale scale) {
  switch (kind) {
    case Kind::Linear:
      return linear_weights(b, t, in, out, align_corners, scale);
    case Kind::Cubic:
      return cubic_weights(b, t, in, out, align_corners, scale);
    case Kind::Nearest:
      return nearest_weights(b, t, in, out, scale, false);
    case Kind::NearestExact:
      return nearest_weights(b, t, in, out, scale, true);
    case Kind::SmoothLinear:
      return antialiased_weights(b, t, in, out, align_corners, scale, 1, triangle);
    case Kind::SmoothCubic:
      return antialiased_weights(b, t, in, out, align_corners, scale, 2, smooth_cubic);
    case Kind::Lanczos:
      return antialiased_weights(b, t, in, out, align_corners, scale, 3, lanczos);
  }
  fail(Code::Internal, "unknown kind of resizing");
}
// Pictures of bytes are resized as on the CPU: width first, with weights of 15 bits and bytes in between.
Value resize_bytes(Value given, Kind kind, const Dims& sizes, bool align_corners, const std::vector<Scale>& scales) {
  Value x = convert(given, DType::F32);
  for (size_t i = sizes.size(); i-- > 0;) {
    const int64_t d = int64_t(i) + 2;
    if (x.dim(d) == sizes[i]) continue;
    Value w = weights(kind, *x.builder, DType::F64, x.dim(d), sizes[i], align_corners, scales[i]);
    Value largest = amax(w, {0, 1}, true);
    Value bits = ceil(log(32767.5 / largest) / std::numbers::ln2) - 1.0;
    Value unit = stretch(power(like(bits, 2), minimum(bits, like(bits, 22))), w);
    x = matmul_along(x, d, convert(round_half_away(w * unit) / unit, x.dtype()), false);
    x = minimum(maximum(floor(x + 0.5), like(x, 0)), like(x, 255));
  }
  return convert(x, given.dtype());
}
Value resize(Value given, Kind kind, const Dims& sizes, bool align_corners, const std::vector<Scale>& scales) {
  if (kind == Kind::Nearest || kind == Kind::NearestExact) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto d = int64_t(i) + 2;
      if (given.dim(d) != sizes[i] || scales[i])
        given = take_slices(
            given, d, nearest_places(*given.builder, given.dim(d), sizes[i], scales[i], kind == Kind::NearestExact));
    }
    return given;
  }
  const bool bytes = given.dtype() == DType::U8;
  if (bytes && sizes.size() == 2) return resize_bytes(given, kind, sizes, align_corners, scales);
  Value x = widen(bytes ? convert(given, DType::F32) : given);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t d = int64_t(i) + 2;
    x = matmul_along(x, d, weights(kind, *x.builder, x.dtype(), x.dim(d), sizes[i], align_corners, scales[i]), false);
  }
  if (bytes) x = minimum(maximum(round_half_even(x), like(x, 0)), like(x, 255));
  return convert(x, given.dtype());
}
Value resize_backward(Value gradient, Kind kind, const Dims& input, bool align_corners,
                      const std::vector<Scale>& scales) {
  Value g = widen(gradient);
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto d = int64_t(i) + 2;
    g = matmul_along(g, d, weights(kind, *g.builder, g.dtype(), input[i + 2], g.dim(d), align_corners, scales[i]),
                     true);
  }
  return convert(g, gradient.dtype());
}

template <Kind K>
Value aligned1d(Value x, Dims sizes, bool align, Scale s) {
  return resize(x, K, sizes, align, {s});
}
template <Kind K>
Value aligned2d(Value x, Dims sizes, bool align, Scale h, Scale w) {
  return resize(x, K, sizes, align, {h, w});
}
template <Kind K>
Value aligned3d(Value x, Dims sizes, bool align, Scale d, Scale h, Scale w) {
  return resize(x, K, sizes, align, {d, h, w});
}
template <Kind K>
Value aligned1d_backward(Value g, Dims, Dims input, bool align, Scale s) {
  return resize_backward(g, K, input, align, {s});
}
template <Kind K>
Value aligned2d_backward(Value g, Dims, Dims input, bool align, Scale h, Scale w) {
  return resize_backward(g, K, input, align, {h, w});
}
template <Kind K>
Value aligned3d_backward(Value g, Dims, Dims input, bool align, Scale d, Scale h, Scale w) {
  return resize_backward(g, K, input, align, {d, h, w});
}
template <Kind K>
Value plain1d(Value x, Dims sizes, Scale s) {
  return resize(x, K, sizes, false, {s});
}
template <Kind K>
Value plain2d(Value x, Dims sizes, Scale h, Scale w) {
  return resize(x, K, sizes, false, {h, w});
}
template <Kind K>
Value plain3d(Value x, Dims sizes, Scale d, Scale h, Scale w) {
  return resize(x, K, sizes, false, {d, h, w});
}
template <Kind K>
Value plain1d_backward(Value g, Dims, Dims input, Scale s) {
  return resize_backward(g, K, input, false, {s});
}
template <Kind K>
Value plain2d_backward(Value g, Dims, Dims input, Scale h, Scale w) {
  return resize_backward(g, K, input, false, {h, w});
}
template <Kind K>
Value plain3d_backward(Value g, Dims, Dims input, Scale d, Scale h, Scale w) {
  return resize_backward(g, K, input, false, {d, h, w});
}

// ---- sampling at given places: grid in [-1, 1], as pixel coordinates. Pictures are rows of channels, one for each
// pixel, so that a place is one row to read or to add to.

enum Interpolation { kLinearPixels = 0, kNearestPixel = 1, kCubicPixels = 2 };
enum Padding { kZeros = 0, kBorder = 1, kReflection = 2 };

// A coordinate and its derivative by the one it was made from.
struct Coordinate {
  Value at, slope;
};

Coordinate reflect(Coordinate c, double low2, double high2) {
  if (low2 == high2) return {like(c.at, 0), like(c.at, 0)};
  const double low = low2 / 2, span = (high2 - low2) / 2;
  Value d = c.at - low, sign = hlo::select(d < like(d, 0), like(d, -1), like(d, 1));
  d = abs(d);
  Value extra = remainder(d, like(d, span)), flips = floor(d / span);
  Value even = remainder(flips, like(flips, 2)) == like(flips, 0);
  return {hlo::select(even, extra + low, (span + low) - extra), c.slope * hlo::select(even, sign, negate(sign))};
}
Coordinate clip(Coordinate c, int64_t size) {
  Value low = like(c.at, 0), high = like(c.at, double(size - 1));
  Value inner = and_(c.at > low, c.at < high);
  return {minimum(maximum(c.at, low), high), hlo::select(inner, c.slope, low)};
}
Coordinate kept_inside(Coordinate c, int64_t size, int64_t padding, bool align_corners) {
  if (padding == kReflection) {
    const double last = 2.0 * double(size - 1);
    c = align_corners ? reflect(c, 0, last) : reflect(c, -1, last + 1);
  }
  return padding == kZeros ? c : clip(c, size);
}
// From [-1, 1] to pixels.
Coordinate to_pixels(Value x, int64_t size, bool align_corners) {
  const double slope = (align_corners ? double(size - 1) : double(size)) / 2;
  Value at = align_corners ? (x + 1.0) * slope : ((x + 1.0) * double(size) - 1.0) / 2.0;
  return {at, like(x, slope)};
}

// One pixel that takes part in each place: along every dim where it is, its share, and the share's derivative.
struct Tap {
  Values at, share, slope;
};

struct Sampling {
  int64_t n = 0, channels = 0, dims = 0, places = 0;  // `places` of each picture
  Dims size;
  std::vector<Tap> taps;

  Value weight(const Tap& tap, int64_t by = -1) const {
    Value w;
    for (int64_t d = 0; d < dims; ++d) {
      Value factor = d == by ? tap.slope[size_t(d)] : tap.share[size_t(d)];
      w = d == 0 ? factor : w * factor;
    }
    return w;
  }
};

Dims axis(const Sampling& s) { return {s.n * s.places}; }

// The taps along one dim: their places, shares and slopes.
std::vector<std::array<Value, 3>> taps_along(Value coordinate, int64_t size, int64_t mode, int64_t padding,
                                             bool align) {
  const Coordinate given = to_pixels(coordinate, size, align);
  if (mode == kCubicPixels) {
    // Only the pixels that are read are kept inside, not the place between them.
    Value base = floor(given.at), f = given.at - base;
    std::vector<std::array<Value, 3>> taps;
    for (int k = -1; k <= 2; ++k) {
      Value at = kept_inside({base + double(k), given.slope}, size, padding, align).at;
      taps.push_back({at, cubic(f - double(k)), cubic_slope(f - double(k)) * given.slope});
    }
    return taps;
  }
  const Coordinate c = kept_inside(given, size, padding, align);
  if (mode == kNearestPixel) return {{round_half_even(c.at), like(c.at, 1), like(c.at, 0)}};
  Value base = floor(c.at), f = c.at - base;
  return {{base, 1.0 - f, negate(c.slope)}, {base + 1.0, f, c.slope}};
}

Sampling sampling(const Value& x, Value grid_, int64_t mode, int64_t padding, bool align) {
  Sampling s{.n = x.dim(0), .channels = x.dim(1), .dims = x.rank() - 2, .places = 1, .size = {}, .taps = {{}}};
  s.size.assign(x.dims().begin() + 2, x.dims().end());
  for (int64_t d = 1; d + 1 < grid_.rank(); ++d) s.places *= grid_.dim(d);
  Value rows = reshape(grid_, {s.n * s.places, s.dims});
  for (int64_t d = 0; d < s.dims; ++d) {
    // The last of a place's coordinates belongs to the first dim.
    const int64_t column = s.dims - 1 - d;
    Value coordinate = reshape(slice(rows, 1, column, column + 1), axis(s));
    std::vector<Tap> all;
    for (const auto& [at, share, slope] : taps_along(coordinate, s.size[size_t(d)], mode, padding, align)) {
      for (Tap tap : s.taps) {
        tap.at.push_back(at);
        tap.share.push_back(share);
        tap.slope.push_back(slope);
        all.push_back(tap);
      }
    }
    s.taps = all;
  }
  return s;
}

// {row of each tap's pixel, whether it is in the picture}; a row outside is row zero.
std::pair<Value, Value> row_of(const Sampling& s, const Tap& tap) {
  Value inside = all_true(tap.at[0]), row;
  for (int64_t d = 0; d < s.dims; ++d) {
    const Value& at = tap.at[size_t(d)];
    inside = and_(inside, and_(at >= like(at, 0), at <= like(at, double(s.size[size_t(d)] - 1))));
  }
  Value picture = iota(*inside.builder, {DType::I64, {s.n, s.places}}, 0);
  row = reshape(picture, axis(s));
  for (int64_t d = 0; d < s.dims; ++d) {
    const Value& at = tap.at[size_t(d)];
    Value whole = convert(hlo::select(inside, at, like(at, 0)), DType::I64);
    row = row * like(row, s.size[size_t(d)]) + whole;
  }
  return {row, inside};
}

// [n, c, rest] as rows [n * rest, c], and back.
Value to_rows(Value x) {
  const int64_t n = x.dim(0), c = x.dim(1), rest = x.count() / std::max<int64_t>(n * c, 1);
  return reshape(transpose(reshape(x, {n, c, rest}), {0, 2, 1}), {n * rest, c});
}
Value from_rows(Value rows, const Dims& dims) {
  const int64_t n = dims[0], c = dims[1];
  return reshape(transpose(reshape(rows, {n, rows.dim(0) / std::max<int64_t>(n, 1), c}), {0, 2, 1}), dims);
}
Value per_row(Value v, const Value& rows) { return broadcast_in_dim(v, rows.dims(), {0}); }

Value grid_sampler(Value given, Value grid_, int64_t mode, int64_t padding, bool align) {
  Value x = widen(given);
  Dims dims{x.dim(0), x.dim(1)};
  dims.insert(dims.end(), grid_.dims().begin() + 1, grid_.dims().end() - 1);
  if (element_count(dims) == 0) return constant(*x.builder, 0.0, {given.dtype(), dims});
  const Sampling s = sampling(x, convert(grid_, x.dtype()), mode, padding, align);
  Value rows = to_rows(x), total;
  for (const Tap& tap : s.taps) {
    auto [row, inside] = row_of(s, tap);
    Value v = take_slices(rows, 0, row);
    v = hlo::select(per_row(inside, v), v * per_row(s.weight(tap), v), like(v, 0));
    total = total.builder ? total + v : v;
  }
  return convert(from_rows(total, dims), given.dtype());
}

// Gradients by the picture and by the grid.
Values grid_sampler_backward(Value gradient, Value given, Value grid_, int64_t mode, int64_t padding, bool align,
                             std::vector<bool> mask) {
  Value x = widen(given);
  Values result(2);
  if (gradient.count() == 0 || x.count() == 0) {
    if (mask[0]) result[0] = constant(*x.builder, 0.0, given.type);
    if (mask[1]) result[1] = constant(*x.builder, 0.0, grid_.type);
    return result;
  }
  const Sampling s = sampling(x, convert(grid_, x.dtype()), mode, padding, align);
  Value rows = to_rows(x), g = to_rows(convert(gradient, x.dtype()));
  Values targets, updates, slopes(size_t(s.dims), constant(*x.builder, 0.0, {x.dtype(), axis(s)}));
  for (const Tap& tap : s.taps) {
    auto [row, inside] = row_of(s, tap);
    if (mask[0]) {
      targets.push_back(row);
      updates.push_back(hlo::select(per_row(inside, g), g * per_row(s.weight(tap), g), like(g, 0)));
    }
    if (!mask[1] || mode == kNearestPixel) continue;
    Value along = sum(take_slices(rows, 0, row) * g, {1}, false);
    along = hlo::select(inside, along, like(along, 0));
    for (int64_t d = 0; d < s.dims; ++d) slopes[size_t(d)] = slopes[size_t(d)] + along * s.weight(tap, d);
  }
  if (mask[0]) {
    Value zero = constant(*x.builder, 0.0, rows.type), at = concatenate(targets, 0);
    const ScatterDims d{
        .window = {1}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
    Value sums = scatter(zero, reshape(at, {at.count(), 1}), concatenate(updates, 0), d,
                         [](const Values& v) { return Values{v[0] + v[1]}; });
    result[0] = convert(from_rows(sums, x.dims()), given.dtype());
  }
  if (mask[1]) {
    Values columns_;
    for (int64_t d = s.dims; d-- > 0;) columns_.push_back(reshape(slopes[size_t(d)], {s.n * s.places, 1}));
    result[1] = convert(reshape(concatenate(columns_, 1), grid_.dims()), grid_.dtype());
  }
  return result;
}

constexpr Row kRows[] = {
    {"aten::_upsample_bicubic2d_aa", op<aligned2d<Kind::SmoothCubic>>},
    {"aten::_upsample_bicubic2d_aa_backward", op<aligned2d_backward<Kind::SmoothCubic>>},
    {"aten::_upsample_bilinear2d_aa", op<aligned2d<Kind::SmoothLinear>>},
    {"aten::_upsample_bilinear2d_aa_backward", op<aligned2d_backward<Kind::SmoothLinear>>},
    {"aten::_upsample_lanczos2d_aa", op<aligned2d<Kind::Lanczos>>},
    {"aten::_upsample_lanczos2d_aa_backward", op<aligned2d_backward<Kind::Lanczos>>},
    {"aten::_upsample_nearest_exact1d", op<plain1d<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact1d_backward", op<plain1d_backward<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact2d", op<plain2d<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact2d_backward", op<plain2d_backward<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact3d", op<plain3d<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact3d_backward", op<plain3d_backward<Kind::NearestExact>>},
    {"aten::grid_sampler_2d", op<grid_sampler>},
    {"aten::grid_sampler_2d_backward", op<grid_sampler_backward>},
    {"aten::grid_sampler_3d", op<grid_sampler>},
    {"aten::grid_sampler_3d_backward", op<grid_sampler_backward>},
    {"aten::upsample_bicubic2d", op<aligned2d<Kind::Cubic>>},
    {"aten::upsample_bicubic2d_backward", op<aligned2d_backward<Kind::Cubic>>},
    {"aten::upsample_bilinear2d", op<aligned2d<Kind::Linear>>},
    {"aten::upsample_bilinear2d_backward", op<aligned2d_backward<Kind::Linear>>},
    {"aten::upsample_linear1d", op<aligned1d<Kind::Linear>>},
    {"aten::upsample_linear1d_backward", op<aligned1d_backward<Kind::Linear>>},
    {"aten::upsample_nearest1d", op<plain1d<Kind::Nearest>>},
    {"aten::upsample_nearest1d_backward", op<plain1d_backward<Kind::Nearest>>},
    {"aten::upsample_nearest2d", op<plain2d<Kind::Nearest>>},
    {"aten::upsample_nearest2d_backward", op<plain2d_backward<Kind::Nearest>>},
    {"aten::upsample_nearest3d", op<plain3d<Kind::Nearest>>},
    {"aten::upsample_nearest3d_backward", op<plain3d_backward<Kind::Nearest>>},
    {"aten::upsample_trilinear3d", op<aligned3d<Kind::Linear>>},
    {"aten::upsample_trilinear3d_backward", op<aligned3d_backward<Kind::Linear>>},
};

}  // namespace

const Table kResampling = kRows;

}  // namespace tpu::ops
