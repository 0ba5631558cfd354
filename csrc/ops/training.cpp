// Whole steps that PyTorch asks for as one op: optimizers, gradient scaling, recurrent cells.
#include <cmath>

#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

using Maybe = std::optional<Value>;

// A step is left out where a gradient was not finite.
Value unless(const Maybe& found, Value old, Value now) {
  if (!found) return now;
  Value skip = broadcast(reshape(truth(*found), {}), old.dims());
  return hlo::select(skip, old, now);
}
Value unscaled(Value g, const Maybe& scale) { return scale ? g / fit(reshape(*scale, {}), g) : g; }

struct Adam {
  Value rate, beta1, beta2, decay, eps;
  bool amsgrad, maximize, decoupled;
  Maybe scale, found;
};
// Gives parameters, gradients, both moments and the largest second moments: five lists, one after another.
Values adam(const Adam& a, const Values& params, const Values& grads, const Values& firsts, const Values& seconds,
            const Values& largest, const Values& steps) {
  Values lists[5];
  for (size_t i = 0; i < params.size(); ++i) {
    Value p = widen(params[i]);
    Value raw = unscaled(widen(grads[i]), a.scale);
    Value g = a.maximize ? negate(raw) : raw;
    Value rate = fit(a.rate, p), decay = fit(a.decay, p), b1 = fit(a.beta1, p), b2 = fit(a.beta2, p);
    Value start = p;
    if (a.decoupled) {
      start = p * (1.0 - rate * decay);
    } else {
      g = g + decay * p;
    }
    Value m = widen(firsts[i]), v = widen(seconds[i]);
    Value m1 = m + (g - m) * (1.0 - b1);
    Value v1 = v * b2 + g * g * (1.0 - b2);
    Value top = v1;
    if (a.amsgrad) top = maximum(widen(largest[i]), v1);
    Value n = fit(steps[i], p);
    Value c1 = 1.0 - power(b1, n), c2 = 1.0 - power(b2, n);
    Value next = start - (rate / c1) * m1 / (sqrt(top) / sqrt(c2) + fit(a.eps, p));
    lists[0].push_back(convert(unless(a.found, p, next), params[i].dtype()));
    lists[1].push_back(convert(unless(a.found, widen(grads[i]), raw), grads[i].dtype()));
    lists[2].push_back(convert(unless(a.found, m, m1), firsts[i].dtype()));
    lists[3].push_back(convert(unless(a.found, v, v1), seconds[i].dtype()));
    if (a.amsgrad) lists[4].push_back(convert(unless(a.found, widen(largest[i]), top), largest[i].dtype()));
  }
  Values all;
  for (const Values& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}
template <bool Decoupled>
Values fused_adam(Values params, Values grads, Values firsts, Values seconds, Values largest, Values steps, Value rate,
                  Value beta1, Value beta2, Value decay, Value eps, bool amsgrad, bool maximize, Maybe scale,
                  Maybe found) {
  const Adam a{rate, beta1, beta2, decay, eps, amsgrad, maximize, Decoupled, scale, found};
  return adam(a, params, grads, firsts, seconds, largest, steps);
}

// Gives parameters, gradients and momentum buffers.
Values fused_sgd(Values params, Values grads, Values buffers, Value decay, double momentum, Value rate, Value dampening,
                 bool nesterov, bool maximize, bool first, Maybe scale, Maybe found) {
  Values lists[3];
  for (size_t i = 0; i < params.size(); ++i) {
    Value p = widen(params[i]);
    Value raw = unscaled(widen(grads[i]), scale);
    Value g = (maximize ? negate(raw) : raw) + fit(decay, p) * p;
    if (momentum != 0) {
      Value old = widen(buffers[i]);
      Value b = first ? g : old * momentum + g * (1.0 - fit(dampening, g));
      lists[2].push_back(convert(unless(found, old, b), buffers[i].dtype()));
      g = nesterov ? g + b * momentum : b;
    }
    lists[0].push_back(convert(unless(found, p, p - fit(rate, p) * g), params[i].dtype()));
    lists[1].push_back(convert(unless(found, widen(grads[i]), raw), grads[i].dtype()));
  }
  if (momentum == 0) lists[2] = buffers;
  Values all;
  for (const Values& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Gives the unscaled gradients and whether any was not finite.
Values check_and_unscale(Values grads, Value found, Value inverse) {
  Values all;
  Value bad = found;
  for (const Value& grad : grads) {
    Value g = widen(grad);
    Value broken = any(not_(is_finite(g)), axes(g, {}), false);
    bad = hlo::select(broadcast(broken, bad.dims()), like(bad, 1), bad);
    all.push_back(convert(g * fit(reshape(inverse, {}), g), grad.dtype()));
  }
  all.push_back(bad);
  return all;
}
std::pair<Value, Value> update_scale(Value scale, Value tracker, Value found, Value growth, Value backoff,
                                     int64_t interval) {
  Value bad = truth(found);
  Value successes = tracker + like(tracker, 1);
  Value grows = successes == like(tracker, interval);
  Value grown = scale * fit(growth, scale);
  Value next = hlo::select(bad, scale * fit(backoff, scale), hlo::select(and_(grows, is_finite(grown)), grown, scale));
  return {next, hlo::select(or_(bad, grows), like(tracker, 0), successes)};
}

Value gate(Value gates, int64_t i, int64_t n) {
  const int64_t width = gates.dim(1) / n;
  return slice(gates, 1, i * width, (i + 1) * width);
}
Value summed(Value input, Value hidden, const Maybe& input_bias, const Maybe& hidden_bias) {
  Value g = widen(input) + widen(hidden);
  if (input_bias) g = g + broadcast(convert(*input_bias, g.dtype()), g.dims());
  if (hidden_bias) g = g + broadcast(convert(*hidden_bias, g.dtype()), g.dims());
  return g;
}
// {hidden state, cell state, activated gates}
std::tuple<Value, Value, Value> lstm_cell(Value input, Value hidden, Value cell, Maybe input_bias, Maybe hidden_bias) {
  Value g = summed(input, hidden, input_bias, hidden_bias);
  Value i = logistic(gate(g, 0, 4)), f = logistic(gate(g, 1, 4)), c = tanh(gate(g, 2, 4)), o = logistic(gate(g, 3, 4));
  Value cy = f * widen(cell) + i * c;
  const DType t = cell.dtype();
  return {convert(o * tanh(cy), t), convert(cy, t), convert(concatenate({i, f, c, o}, 1), t)};
}
Values lstm_cell_backward(Maybe grad_hidden, Maybe grad_cell, Value cell, Value next, Value gates, bool has_bias) {
  Value w = widen(gates), cx = widen(cell), t = tanh(widen(next));
  Value i = gate(w, 0, 4), f = gate(w, 1, 4), c = gate(w, 2, 4), o = gate(w, 3, 4);
  Value gh = grad_hidden ? widen(*grad_hidden) : like(t, 0), gc = grad_cell ? widen(*grad_cell) : like(t, 0);
  Value d = gh * o * (1.0 - t * t) + gc;
  Value all =
      concatenate({d * c * i * (1.0 - i), d * cx * f * (1.0 - f), d * i * (1.0 - c * c), gh * t * o * (1.0 - o)}, 1);
  Values r{convert(all, gates.dtype()), convert(d * f, cell.dtype()), {}};
  if (has_bias) r[2] = convert(sum(all, {0}, false), gates.dtype());
  return r;
}

constexpr Row kRows[] = {
    {"aten::_amp_foreach_non_finite_check_and_unscale", op<check_and_unscale>},
    {"aten::_amp_update_scale", op<update_scale>},
    {"aten::_fused_adam", op<fused_adam<false>>},
    {"aten::_fused_adamw", op<fused_adam<true>>},
    {"aten::_fused_sgd", op<fused_sgd>},
    {"aten::_thnn_fused_lstm_cell", op<lstm_cell>},
    {"aten::_thnn_fused_lstm_cell_backward_impl", op<lstm_cell_backward>},
};

}  // namespace

const Table kTraining = kRows;

}  // namespace tpu::ops
