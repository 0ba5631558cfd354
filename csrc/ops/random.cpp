// Distributions. Bits come from ThreeFry, whose stream is the same on every plugin.
#include "ops/random.h"

#include <cmath>

#include "base/error.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/sorting.h"
#include "ops/tables.h"

namespace tpu::ops {

using namespace hlo;

Value random_bits(Rng rng, Builder&, DType unsigned_type, const Dims& dims) {
  auto [next, bits] = rng_bit_generator(*rng.state, {unsigned_type, dims}, RngAlgorithm::ThreeFry);
  *rng.state = next;
  return bits;
}

Value uniform(Rng rng, Builder& b, DType t, const Dims& dims) {
  const bool wide = t == DType::F64;
  Value bits = random_bits(rng, b, wide ? DType::U64 : DType::U32, dims);
  bits = shift_right_logical(bits, like(bits, wide ? 11 : 8));
  return convert(bits, t) * (wide ? 0x1p-53 : 0x1p-24);
}

Value normal(Rng rng, Builder& b, DType t, const Dims& dims) {
  // From the open interval (-1, 1).
  Value u = uniform(rng, b, t, dims);
  u = u * 2.0 - (1.0 - (t == DType::F64 ? 0x1p-53 : 0x1p-24));
  return chlo("erf_inv", {u}) * M_SQRT2;
}

namespace {

DType drawing(DType t) { return t == DType::F64 || t == DType::C128 ? DType::F64 : DType::F32; }
Value unit(Rng rng, const Value& x) { return uniform(rng, *x.builder, drawing(x.dtype()), x.dims()); }

Value uniform_op(Value x, Value from, Value to, Rng rng) {
  Value u = unit(rng, x);
  Value low = fit(from, u), high = fit(to, u);
  Value r = convert(u * (high - low) + low, x.dtype());
  // Rounding to a narrow float may reach the upper bound, which is not part of the interval.
  Value top = broadcast(convert(to, x.dtype()), x.dims()), bottom = broadcast(convert(from, x.dtype()), x.dims());
  return hlo::select(and_(r >= top, top > bottom), bottom, r);
}
Value normal_draw(Rng rng, const Value& x) {
  if (!is_complex(x.dtype())) return normal(rng, *x.builder, drawing(x.dtype()), x.dims());
  Value re = normal(rng, *x.builder, drawing(x.dtype()), x.dims()),
        im = normal(rng, *x.builder, drawing(x.dtype()), x.dims());
  return complex(re * M_SQRT1_2, im * M_SQRT1_2);
}
Value normal_op(Value x, Value mean, Value std, Rng rng) {
  Value z = normal_draw(rng, x);
  return convert(z * fit(std, z) + fit(mean, z), x.dtype());
}
Value normal_tensors(Value mean, Value std, Rng rng) {
  auto [m, s] = promote_to(promote(mean.dtype(), std.dtype()), mean, std);
  Value z = normal_draw(rng, m);
  return convert(z * convert(s, z.dtype()) + convert(m, z.dtype()), m.dtype());
}
Value normal_tensor_number(Value mean, Value std, Rng rng) {
  Value z = normal_draw(rng, mean);
  return convert(z * fit(std, z) + convert(mean, z.dtype()), mean.dtype());
}
Value normal_number_tensor(Value mean, Value std, Rng rng) {
  Value z = normal_draw(rng, std);
  return convert(z * convert(std, z.dtype()) + fit(mean, z), std.dtype());
}

// Whole numbers below `span`, a run-time I64 read as unsigned, zero meaning 2^64; the bias is below 2^-32 for spans
// below 2^32.
Value below(Rng rng, const Value& x, Value span) {
  Value bits = random_bits(rng, *x.builder, DType::U64, x.dims());
  Value s = broadcast(bitcast(span, {DType::U64, {}}), x.dims());
  Value all = s == like(s, 0);
  return bitcast(hlo::select(all, bits, remainder(bits, hlo::select(all, like(s, 1), s))), {DType::I64, x.dims()});
}
// The largest whole number that random_ draws without bounds.
int64_t largest(DType t) {
  switch (t) {
    case DType::Pred:
      return 1;
    case DType::U8:
      return 255;
    case DType::I8:
      return 127;
    case DType::I16:
      return 32767;
    case DType::I32:
      return INT32_MAX;
    case DType::BF16:
      return 1 << 8;
    case DType::F16:
      return 1 << 11;
    case DType::F32:
      return 1 << 24;
    case DType::F64:
      return int64_t{1} << 53;
    default:
      return INT64_MAX;
  }
}
Value random_from(Value x, Value from, std::optional<Value> to, Rng rng) {
  Value low = convert(reshape(from, {}), DType::I64), lowest = like(low, INT64_MIN), one = like(low, 1);
  // Without an end the lowest start stands for all 64 bits, of any dtype.
  Value span = to ? convert(reshape(*to, {}), DType::I64) - low
                  : hlo::select(low == lowest, like(low, 0), like(low, largest(x.dtype())) - low + one);
  return convert(below(rng, x, span) + broadcast(low, x.dims()), x.dtype());
}
Value random_to(Value x, Value to, Rng rng) {
  return convert(below(rng, x, convert(reshape(to, {}), DType::I64)), x.dtype());
}
Value random(Value x, Rng rng) {
  Value top = constant(*x.builder, largest(x.dtype()), {DType::I64, {}});
  return convert(below(rng, x, top + like(top, 1)), x.dtype());
}

Value bernoulli_p(Value x, Value p, Rng rng) {
  Value u = unit(rng, x);
  return convert(u < fit(p, u), x.dtype());
}
Value bernoulli_tensor(Value x, Value p, Rng rng) {
  Value u = unit(rng, x);
  return convert(u < broadcast(convert(p, u.dtype()), u.dims()), x.dtype());
}
Value bernoulli(Value p, Rng rng) { return bernoulli_tensor(p, p, rng); }

Value exponential_draw(Rng rng, const Value& x) { return negate(log1p(negate(unit(rng, x)))); }
Value exponential_op(Value x, Value rate, Rng rng) {
  Value e = exponential_draw(rng, x);
  // Never zero: multinomial divides by it.
  e = maximum(e, like(e, 1.17549435e-38));
  return convert(e / fit(rate, e), x.dtype());
}
Value geometric(Value x, Value p, Rng rng) {
  Value u = 1.0 - unit(rng, x);
  return convert(maximum(ceil(log(u) / log1p(negate(fit(p, u)))), like(u, 1)), x.dtype());
}
Value cauchy(Value x, Value median, Value sigma, Rng rng) {
  Value u = unit(rng, x);
  return convert(fit(median, u) + fit(sigma, u) * tan((u - 0.5) * M_PI), x.dtype());
}
Value log_normal(Value x, Value mean, Value std, Rng rng) {
  Value z = normal_draw(rng, x);
  return convert(exponential(z * fit(std, z) + fit(mean, z)), x.dtype());
}

// The Gumbel trick: the largest p / e, with e exponential, are draws without replacement.
Value multinomial(Value weights, int64_t samples, bool replacement, Rng rng) {
  const int64_t choices = weights.dim(weights.rank() - 1);
  check(samples > 0, Code::Runtime, "cannot sample n_sample <= 0 samples");
  check(replacement || samples <= choices, Code::Runtime,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  Value p = widen(weights);
  p.builder->require(and_(is_finite(p), p >= like(p, 0)),
                     "probability tensor contains either `inf`, `nan` or element < 0");
  Value total = sum(p, {p.rank() - 1}, false);
  p.builder->require(total > like(total, 0), "invalid multinomial distribution (sum of probabilities <= 0)");
  const bool single = p.rank() == 1;
  if (single) p = reshape(p, {1, p.dim(0)});
  const int64_t rows = p.dim(0), n = p.dim(1);
  Value picked;
  if (replacement && samples > 1) {
    Value wide = broadcast_in_dim(p, {rows, samples, n}, {0, 2});
    Value e = exponential_draw(rng, wide);
    picked = extreme(wide / maximum(e, like(e, 1.17549435e-38)), 2, false, true).second;
  } else {
    Value e = exponential_draw(rng, p);
    Value q = p / maximum(e, like(e, 1.17549435e-38));
    picked = samples == 1 ? extreme(q, 1, true, true).second : slice(sorted(q, 1, true).second, 1, 0, samples);
  }
  return single ? reshape(picked, {samples}) : picked;
}
Value randperm(int64_t, Rng rng, Value out) {
  Value bits = random_bits(rng, *out.builder, DType::U64, out.dims());
  return convert(sorted(bits, 0, false).second, out.dtype());
}

std::pair<Value, Value> native_dropout(Value x, double p, std::optional<bool> train, Rng rng) {
  if (train && !*train) return {x, all_true(x)};
  Value u = unit(rng, x);
  Value keep = u >= like(u, p);
  Value v = widen(x);
  return {convert(hlo::select(keep, v * (p < 1 ? 1 / (1 - p) : 0), like(v, 0)), x.dtype()), keep};
}
Value native_dropout_backward(Value g, Value mask, double scale) {
  g = to_float(g);
  Value v = widen(g);
  return convert(v * convert(mask, v.dtype()) * scale, g.dtype());
}

constexpr Row kRows[] = {
    {"aten::bernoulli", op<bernoulli>},
    {"aten::bernoulli.Tensor", op<bernoulli_tensor>},
    {"aten::bernoulli.p", op<bernoulli_p>},
    {"aten::cauchy", op<cauchy>},
    {"aten::exponential", op<exponential_op>},
    {"aten::geometric", op<geometric>},
    {"aten::log_normal", op<log_normal>},
    {"aten::multinomial", op<multinomial>},
    {"aten::native_dropout", op<native_dropout>},
    {"aten::native_dropout_backward", op<native_dropout_backward>},
    {"aten::normal.Tensor_Tensor", op<normal_tensors>},
    {"aten::normal.Tensor_float", op<normal_tensor_number>},
    {"aten::normal.float_Tensor", op<normal_number_tensor>},
    {"aten::normal_functional", op<normal_op>},
    {"aten::random", op<random>},
    {"aten::random.from", op<random_from>},
    {"aten::random.to", op<random_to>},
    {"aten::randperm.generator_out", op<randperm>},
    {"aten::uniform", op<uniform_op>},
};

}  // namespace

const Table kRandom = kRows;

}  // namespace tpu::ops
