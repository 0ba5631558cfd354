// Resizing images and sampling them at given places.
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

enum class Kind : uint8_t { Linear, Cubic, Nearest, NearestExact };
Value weights(Kind kind, Builder& b, DType t, int64_t in, int64_t out, bool align_corners, Scale scale) {
  switch (kind) {
    case Kind::Linear:
      return linear_weights(b, t, in, out, align_corners, scale);
    case Kind::Cubic:
      return cubic_weights(b, t, in, out, align_corners, scale);
    case Kind::Nearest:
      return nearest_weights(b, t, in, out, scale, false);
    default:
      return nearest_weights(b, t, in, out, scale, true);
  }
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
  Value x = widen(given.dtype() == DType::U8 ? convert(given, DType::F32) : given);
  for (size_t i = 0; i < sizes.size(); ++i)
    x = matmul_along(x, int64_t(i) + 2,
                     weights(kind, *x.builder, x.dtype(), x.dim(int64_t(i) + 2), sizes[i], align_corners, scales[i]),
                     false);
  if (given.dtype() == DType::U8) x = minimum(maximum(round_half_even(x), like(x, 0)), like(x, 255));
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

// ---- sampling at given places: grid in [-1, 1], as pixel coordinates
enum Interpolation { kBilinear = 0, kNearestPixel = 1 };
enum Padding { kZeros = 0, kBorder = 1, kReflection = 2 };

Value reflect(Value x, double low2, double high2) {
  if (low2 == high2) return like(x, 0);
  const double low = low2 / 2, span = (high2 - low2) / 2;
  Value d = abs(x - low);
  Value extra = remainder(d, like(d, span)), flips = floor(d / span);
  Value even = remainder(flips, like(flips, 2)) == like(flips, 0);
  return hlo::select(even, extra + low, (span + low) - extra);
}
Value pixel(Value x, int64_t size, int64_t padding, bool align_corners) {
  x = align_corners ? (x + 1.0) * (double(size - 1) / 2) : ((x + 1.0) * double(size) - 1.0) / 2.0;
  if (padding == kReflection)
    x = align_corners ? reflect(x, 0, 2.0 * double(size - 1)) : reflect(x, -1, 2.0 * double(size) - 1);
  if (padding != kZeros) x = minimum(maximum(x, like(x, 0)), like(x, double(size - 1)));
  return x;
}
// Values of [n, c, h, w] at whole coordinates [n, oh, ow]; zero outside.
Value pixels(Value x, Value ix, Value iy) {
  const int64_t n = x.dim(0), c = x.dim(1), h = x.dim(2), w = x.dim(3), count = ix.count() / std::max<int64_t>(n, 1);
  Value inside = and_(and_(ix >= like(ix, 0), ix <= like(ix, double(w - 1))),
                      and_(iy >= like(iy, 0), iy <= like(iy, double(h - 1))));
  Value zero = like(ix, 0);
  Value at = convert(hlo::select(inside, iy, zero), DType::I64) * like(convert(ix, DType::I64), w) +
             convert(hlo::select(inside, ix, zero), DType::I64);
  at = broadcast_in_dim(reshape(at, {n, count}), {n, c, count}, {0, 2});
  Value v = pick_elements(reshape(x, {n, c, h * w}), 2, at);
  Value mask = broadcast_in_dim(reshape(inside, {n, count}), v.dims(), {0, 2});
  return hlo::select(mask, v, like(v, 0));
}
Value grid_sampler_2d(Value given, Value places_, int64_t mode, int64_t padding, bool align_corners) {
  check(mode == kBilinear || mode == kNearestPixel, Code::Unimplemented, "bicubic grid_sampler_2d");
  Value x = widen(given), p = convert(places_, x.dtype());
  const Dims out{p.dim(0), p.dim(1), p.dim(2)};
  auto coordinate = [&](int64_t i) { return reshape(slice(p, 3, i, i + 1), out); };
  Value ix = pixel(coordinate(0), x.dim(3), padding, align_corners),
        iy = pixel(coordinate(1), x.dim(2), padding, align_corners);
  Value y;
  if (mode == kNearestPixel) {
    y = pixels(x, round_half_even(ix), round_half_even(iy));
  } else {
    Value x0 = floor(ix), y0 = floor(iy), fx = ix - x0, fy = iy - y0;
    auto part = [&](Value cx, Value cy, Value weight) {
      Value v = pixels(x, cx, cy);
      return v * broadcast_in_dim(reshape(weight, {v.dim(0), v.dim(2)}), v.dims(), {0, 2});
    };
    y = part(x0, y0, (1.0 - fx) * (1.0 - fy)) + part(x0 + 1.0, y0, fx * (1.0 - fy)) +
        part(x0, y0 + 1.0, (1.0 - fx) * fy) + part(x0 + 1.0, y0 + 1.0, fx * fy);
  }
  return convert(reshape(y, {x.dim(0), x.dim(1), out[1], out[2]}), given.dtype());
}

constexpr Row kRows[] = {
    {"aten::_upsample_nearest_exact1d", op<plain1d<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact1d_backward", op<plain1d_backward<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact2d", op<plain2d<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact2d_backward", op<plain2d_backward<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact3d", op<plain3d<Kind::NearestExact>>},
    {"aten::_upsample_nearest_exact3d_backward", op<plain3d_backward<Kind::NearestExact>>},
    {"aten::grid_sampler_2d", op<grid_sampler_2d>},
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
