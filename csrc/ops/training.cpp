// Whole steps that PyTorch asks for as one op: optimizers, gradient scaling, recurrent cells.
#include <cmath>

#include "base/error.h"
#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/scan.h"
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

// Gives parameters, gradients, sums of squares and steps; the caller has counted the step.
Values fused_adagrad(Values params, Values grads, Values sums, Values steps, Value rate, Value rate_decay, Value decay,
                     Value eps, bool maximize, Maybe scale, Maybe found) {
  Values lists[3];
  for (size_t i = 0; i < params.size(); ++i) {
    Value p = widen(params[i]), old = widen(sums[i]);
    Value raw = unscaled(widen(grads[i]), scale);
    Value g = (maximize ? negate(raw) : raw) + fit(decay, p) * p;
    Value total = old + g * g;
    Value now = fit(rate, p) / (1.0 + (fit(steps[i], p) - 1.0) * fit(rate_decay, p));
    lists[0].push_back(convert(unless(found, p, p - now * g / (sqrt(total) + fit(eps, p))), params[i].dtype()));
    lists[1].push_back(convert(unless(found, widen(grads[i]), raw), grads[i].dtype()));
    lists[2].push_back(convert(unless(found, old, total), sums[i].dtype()));
  }
  Values all;
  for (const Values& list : lists) all.insert(all.end(), list.begin(), list.end());
  all.insert(all.end(), steps.begin(), steps.end());
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

// {hidden state, workspace}: the workspace holds both gates, the candidate, the old state and its biased share.
std::pair<Value, Value> gru_cell(Value input, Value hidden, Value state, Maybe input_bias, Maybe hidden_bias) {
  auto biased = [](Value gates, const Maybe& bias) {
    gates = widen(gates);
    return bias ? gates + broadcast(convert(*bias, gates.dtype()), gates.dims()) : gates;
  };
  Value a = biased(input, input_bias), b = biased(hidden, hidden_bias), h = widen(state);
  Value reset = logistic(gate(a, 0, 3) + gate(b, 0, 3)), update = logistic(gate(a, 1, 3) + gate(b, 1, 3));
  Value share = gate(b, 2, 3);
  Value fresh = tanh(gate(a, 2, 3) + reset * share);
  const DType t = state.dtype();
  return {convert(fresh + update * (h - fresh), t), convert(concatenate({reset, update, fresh, h, share}, 1), t)};
}
// Gradients of {input gates, hidden gates, old state, input bias, hidden bias}.
Values gru_cell_backward(Value gradient, Value workspace, bool has_bias) {
  Value g = widen(gradient), w = widen(workspace);
  Value reset = gate(w, 0, 5), update = gate(w, 1, 5), fresh = gate(w, 2, 5), h = gate(w, 3, 5), share = gate(w, 4, 5);
  Value d_update = g * (h - fresh) * (1.0 - update) * update;
  Value d_fresh = g * (1.0 - update) * (1.0 - fresh * fresh);
  Value d_reset = d_fresh * share * (1.0 - reset) * reset;
  Value input = concatenate({d_reset, d_update, d_fresh}, 1),
        hidden = concatenate({d_reset, d_update, d_fresh * reset}, 1);
  const DType t = gradient.dtype();
  Values r{convert(input, t), convert(hidden, t), convert(g * update, t), {}, {}};
  if (has_bias) {
    r[3] = convert(sum(input, {0}, false), t);
    r[4] = convert(sum(hidden, {0}, false), t);
  }
  return r;
}

// ---- bags: sums, means or maxima of looked-up rows

enum BagMode { kSum = 0, kMean = 1, kMax = 2 };

// Rows [n, d] joined by bag into [bags, d], or numbers [n] into [bags].
Value join(Value rows, Value bag, int64_t bags, Value start, const Body& body) {
  const ScatterDims d{.window = rows.rank() == 2 ? Dims{1} : Dims{},
                      .inserted = {0},
                      .operand_batch = {},
                      .index_batch = {},
                      .to_operand = {0},
                      .index_vector = 1};
  Dims dims = rows.dims();
  dims[0] = bags;
  return scatter(broadcast(start, dims), reshape(bag, {bag.count(), 1}), rows, d, body);
}
const Body kAdd = [](const Values& v) { return Values{v[0] + v[1]}; };

// The bag of each of n indices: how many bags have begun by then.
Value bag_of(Value offsets, int64_t bags, int64_t n) {
  Value starts = slice(convert(offsets, DType::I64), 0, 0, bags);
  Value ones = like(starts, 1);
  Value begun = join(ones, starts, n + 1, scalar(ones, 0), kAdd);
  Value bag = slice(cumulative_sum(begun, 0), 0, 0, n) - like(slice(begun, 0, 0, n), 1);
  return maximum(bag, like(bag, 0));
}
Value column(Value v, const Value& rows) { return broadcast_in_dim(convert(v, rows.dtype()), rows.dims(), {0}); }

struct Bags {
  int64_t count = 0, n = 0;
  Value index, bag, counts;  // `counts`: Pred, whether an index is no padding
  Value sizes;               // [count]
};
Bags bags(Value index, Value bag, int64_t count, int64_t padding) {
  Bags b;
  b.count = count;
  b.n = index.count();
  b.index = convert(index, DType::I64);
  b.bag = bag;
  b.counts = b.index != like(b.index, padding);
  b.sizes = join(convert(b.counts, DType::I64), bag, count, scalar(b.index, 0), kAdd);
  return b;
}
// {largest row of each bag, whose index it is}
std::pair<Value, Value> bag_max(const Bags& b, Value rows) {
  Value keep = broadcast_in_dim(b.counts, rows.dims(), {0});
  Value low = lowest(*rows.builder, rows.dtype());
  Value best = join(hlo::select(keep, rows, broadcast(low, rows.dims())), b.bag, b.count, low,
                    [](const Values& v) { return Values{maximum(v[0], v[1])}; });
  Value at = iota(*rows.builder, {DType::I64, rows.dims()}, 0);
  Value wins = and_(keep, rows == take_slices(best, 0, b.bag));
  Value first = join(hlo::select(wins, at, like(at, b.n)), b.bag, b.count, scalar(at, double(b.n)),
                     [](const Values& v) { return Values{minimum(v[0], v[1])}; });
  Value empty = first == like(first, b.n);
  Value index = take_slices(b.index, 0, hlo::select(empty, like(first, 0), first));
  return {hlo::select(empty, like(best, 0), best), hlo::select(empty, like(index, 0), index)};
}
// {bags, bag of each index, bag sizes, where the maxima came from}; the sizes have an entry for each offset.
Values embedding_bag(Value table, Value index, Value offsets, bool, int64_t mode, bool, Maybe weights, bool last_offset,
                     int64_t padding) {
  const int64_t begun = offsets.count(), count = begun - (last_offset ? 1 : 0), n = index.count();
  const DType t = index.dtype();
  Value wide = widen(table);
  Builder& builder = *table.builder;
  auto zeros = [&](DType type, Dims dims) { return constant(builder, 0.0, {type, std::move(dims)}); };
  const Dims largest = mode == kMax ? Dims{count, table.dim(1)} : Dims{0};
  if (n == 0 || count == 0)
    return {zeros(table.dtype(), {count, table.dim(1)}), zeros(t, {n}), zeros(t, {begun}), zeros(t, largest)};
  builder.require(and_(index >= like(index, 0), index < like(index, table.dim(0))),
                  "embedding_bag: index out of range");
  const Bags b = bags(index, bag_of(offsets, count, n), count, padding);
  Value rows = take_slices(wide, 0, b.index), out, most = zeros(t, largest);
  if (mode == kMax) {
    std::tie(out, most) = bag_max(b, rows);
  } else {
    if (weights) rows = rows * column(*weights, rows);
    rows = hlo::select(broadcast_in_dim(b.counts, rows.dims(), {0}), rows, like(rows, 0));
    out = join(rows, b.bag, count, scalar(rows, 0), kAdd);
    if (mode == kMean) out = out / column(maximum(b.sizes, like(b.sizes, 1)), out);
  }
  Value sizes = pad(b.sizes, scalar(b.sizes, 0), {0}, {begun - count}, {0});
  return {convert(out, table.dtype()), convert(b.bag, t), convert(sizes, t), convert(most, t)};
}
Value embedding_bag_dense_backward(Value gradient, Value index, Value bag, Value sizes, Value largest, int64_t rows,
                                   bool by_count, int64_t mode, Maybe weights, int64_t padding) {
  Value g = widen(gradient);
  const int64_t width = gradient.dim(1);
  Value zero = scalar(g, 0);
  sizes = slice(sizes, 0, 0, gradient.dim(0));
  if (index.count() == 0 || gradient.count() == 0) return constant(*g.builder, 0.0, {gradient.dtype(), {rows, width}});
  if (mode == kMax) {
    Value kept = column(sizes, g);
    g = hlo::select(kept > like(kept, 0), g, like(g, 0));
    return convert(add_elements(broadcast(zero, {rows, width}), 0, convert(largest, DType::I64), g), gradient.dtype());
  }
  if (mode == kMean) g = g / column(maximum(sizes, like(sizes, 1)), g);
  Value at = convert(index, DType::I64), each = take_slices(g, 0, bag);
  if (weights) each = each * column(*weights, each);
  if (by_count) {
    Value ones = like(at, 1);
    each = each / column(take_slices(join(ones, at, rows, scalar(ones, 0), kAdd), 0, at), each);
  }
  each = hlo::select(broadcast_in_dim(at != like(at, padding), each.dims(), {0}), each, like(each, 0));
  return convert(join(each, at, rows, zero, kAdd), gradient.dtype());
}
Value embedding_bag_backward(Value gradient, Value index, Value offsets, Value bag, Value sizes, Value largest,
                             int64_t rows, bool by_count, int64_t mode, bool sparse, Maybe weights, int64_t padding) {
  check(!sparse, Code::Unimplemented, "sparse gradients of embedding_bag");
  if (bag.count() == 0 && index.count() > 0) bag = bag_of(offsets, gradient.dim(0), index.count());
  return embedding_bag_dense_backward(gradient, index, bag, sizes, largest, rows, by_count, mode, weights, padding);
}
Value embedding_bag_weights_backward(Value gradient, Value table, Value index, Value offsets, Value bag, int64_t,
                                     int64_t padding) {
  if (index.count() == 0) return constant(*gradient.builder, 0.0, {gradient.dtype(), index.dims()});
  if (bag.count() == 0) bag = bag_of(offsets, gradient.dim(0), index.count());
  Value rows = widen(take_slices(table, 0, index)), g = take_slices(widen(gradient), 0, bag);
  Value each = sum(rows * g, {1}, false);
  return convert(hlo::select(index != like(index, padding), each, like(each, 0)), gradient.dtype());
}

constexpr Row kRows[] = {
    {"aten::_amp_foreach_non_finite_check_and_unscale", op<check_and_unscale>},
    {"aten::_amp_update_scale", op<update_scale>},
    {"aten::_embedding_bag", op<embedding_bag>},
    {"aten::_embedding_bag_backward", op<embedding_bag_backward>},
    {"aten::_embedding_bag_dense_backward", op<embedding_bag_dense_backward>},
    {"aten::_embedding_bag_forward_only", op<embedding_bag>},
    {"aten::_embedding_bag_per_sample_weights_backward", op<embedding_bag_weights_backward>},
    {"aten::_fused_adagrad", op<fused_adagrad>},
    {"aten::_fused_adagrad.tensor_lr", op<fused_adagrad>},
    {"aten::_fused_adam", op<fused_adam<false>>},
    {"aten::_fused_adam.tensor_lr", op<fused_adam<false>>},
    {"aten::_fused_adamw", op<fused_adam<true>>},
    {"aten::_fused_adamw.tensor_lr", op<fused_adam<true>>},
    {"aten::_fused_sgd", op<fused_sgd>},
    {"aten::_fused_sgd.tensor_lr", op<fused_sgd>},
    {"aten::_thnn_fused_gru_cell", op<gru_cell>},
    {"aten::_thnn_fused_gru_cell_backward", op<gru_cell_backward>},
    {"aten::_thnn_fused_lstm_cell", op<lstm_cell>},
    {"aten::_thnn_fused_lstm_cell_backward_impl", op<lstm_cell_backward>},
};

}  // namespace

const Table kTraining = kRows;

}  // namespace tpu::ops
