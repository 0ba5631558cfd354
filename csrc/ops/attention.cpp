// Scaled dot product attention as one program. Rows of the runtime's own: dispatch/attention.cpp gives them their
// PyTorch form.
#include <cmath>

#include "ops/math.h"
#include "ops/matrix.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// Query heads that share a key head lie side by side: [b, h, n, d] as [b, key heads, h / key heads * n, d].
Value grouped(Value x, int64_t heads) { return reshape(x, {x.dim(0), heads, x.dim(1) / heads * x.dim(2), x.dim(3)}); }

// Scaled and masked scores in float32 (or wider): [b, h, n, m].
Value scores(Value q, Value k, std::optional<Value> mask, bool causal, double scale) {
  const int64_t heads = k.dim(1), n = q.dim(2), m = k.dim(2);
  Value s = matmul_transposed(grouped(widen(q), heads), widen(k));
  s = reshape(s * scale, {q.dim(0), q.dim(1), n, m});
  if (causal) {
    const Type t{DType::I32, s.dims()};
    s = select(iota(*s.builder, t, 3) <= iota(*s.builder, t, 2), s, -HUGE_VAL);
  }
  if (!mask) return s;
  if (mask->dtype() == DType::Pred) return select(broadcast(*mask, s.dims()), s, -HUGE_VAL);
  return s + broadcast(convert(*mask, s.dtype()), s.dims());
}

// {output, log of the sum of exponentials}; a row without any key gives zeros.
std::pair<Value, Value> attend(Value q, Value k, Value v, std::optional<Value> mask, bool causal, double scale) {
  Value s = scores(q, k, mask, causal, scale);
  Value top = amax(s, {3}, true);
  Value none = top == like(top, -HUGE_VAL);
  Value e = exponential(s - stretch(hlo::select(none, like(top, 0), top), s));
  Value total = sum(e, {3}, true);
  Value weights = e / stretch(hlo::select(none, like(total, 1), total), e);
  const int64_t heads = v.dim(1);
  Value out = matmul(grouped(weights, heads), widen(v));
  out = convert(reshape(out, {q.dim(0), q.dim(1), q.dim(2), v.dim(3)}), q.dtype());
  return {out, reshape(log(total) + top, {q.dim(0), q.dim(1), q.dim(2)})};
}
std::pair<Value, Value> attention(Value q, Value k, Value v, bool causal, double scale) {
  return attend(q, k, v, std::nullopt, causal, scale);
}
std::pair<Value, Value> attention_masked(Value q, Value k, Value v, Value mask, bool causal, double scale) {
  return attend(q, k, v, mask, causal, scale);
}

// Sums a gradient down to the dims it was broadcast from.
Value unbroadcast(Value g, const Dims& dims) {
  Dims over;
  const int64_t extra = g.rank() - int64_t(dims.size());
  for (int64_t d = 0; d < g.rank(); ++d)
    if (d < extra || (dims[size_t(d - extra)] == 1 && g.dim(d) != 1)) over.push_back(d);
  return reshape(sum(g, over, false), dims);
}

Value swap_last(Value x) {
  Dims p;
  for (int64_t d = 0; d < x.rank(); ++d) p.push_back(d);
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  return transpose(x, p);
}

// Gradients of q, k, v and the mask. The weights are computed anew from the logarithms that the forward left.
Values attend_backward(Value g, Value q, Value k, Value v, Value out, Value lse, std::optional<Value> mask, bool causal,
                       double scale) {
  const int64_t heads = k.dim(1);
  Value s = scores(q, k, mask, causal, scale);
  Value l = reshape(lse, {q.dim(0), q.dim(1), q.dim(2), 1});
  Value none = l == like(l, -HUGE_VAL);
  Value w = exponential(s - stretch(hlo::select(none, like(l, 0), l), s));
  Value gw = widen(g), weights = grouped(w, heads), grads = grouped(gw, heads);
  Value dv = matmul(swap_last(weights), grads);
  Value dw = reshape(matmul_transposed(grads, widen(v)), w.dims());
  Value inner = sum(gw * widen(out), {3}, true);
  Value ds = w * (dw - stretch(inner, dw));
  Value scaled = grouped(ds * scale, heads);
  Value dq = reshape(matmul(scaled, widen(k)), q.dims());
  Value dk = matmul(swap_last(scaled), grouped(widen(q), heads));
  Values r{convert(dq, q.dtype()), convert(dk, k.dtype()), convert(dv, v.dtype())};
  if (mask) r.push_back(convert(unbroadcast(ds, mask->dims()), mask->dtype()));
  return r;
}
Values attention_backward(Value g, Value q, Value k, Value v, Value out, Value lse, bool causal, double scale) {
  return attend_backward(g, q, k, v, out, lse, std::nullopt, causal, scale);
}
Values attention_masked_backward(Value g, Value q, Value k, Value v, Value out, Value lse, Value mask, bool causal,
                                 double scale) {
  return attend_backward(g, q, k, v, out, lse, mask, causal, scale);
}

constexpr Row kRows[] = {
    {"tpu::attention", op<attention>},
    {"tpu::attention_backward", op<attention_backward>},
    {"tpu::attention_masked", op<attention_masked>},
    {"tpu::attention_masked_backward", op<attention_masked_backward>},
};

}  // namespace

const Table kAttention = kRows;

}  // namespace tpu::ops
