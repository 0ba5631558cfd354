// Connectionist temporal classification: the loss of all alignments of a sequence with its targets, and its gradient.
#include <cmath>

#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/scan.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// What an alignment may be in at each step: the targets with a blank before, between and after them.
struct States {
  int64_t steps, n, classes, targets, count;  // count = 2 * targets + 1
  Value label;                                // I64 [n, count]
  Value skips;                                // Pred [n, count]: may follow the state two before it
  Value lengths, target_lengths;              // I64 [n]
};

// Values along dim 1 moved by `by` places; what comes in is `with`.
Value shifted(Value x, int64_t by, Value with) { return pad(x, with, {0, by}, {0, -by}, {0, 0}); }

// targets: [n, most], or a vector of all targets one after another, no more than `most` for each.
States states(const Value& log_probs, Value targets, Value lengths, Value target_lengths, int64_t blank, int64_t most) {
  States s{.steps = log_probs.dim(0),
           .n = log_probs.dim(1),
           .classes = log_probs.dim(2),
           .targets = most,
           .count = 2 * most + 1,
           .label = {},
           .skips = {},
           .lengths = convert(lengths, DType::I64),
           .target_lengths = convert(target_lengths, DType::I64)};
  Builder& b = *log_probs.builder;
  targets = convert(targets, DType::I64);
  const Type table{DType::I64, {s.n, most}};
  Value t = constant(b, blank, table);
  if (most > 0 && targets.count() > 0) {
    Value at = iota(b, table, 1);
    if (targets.rank() == 1) {
      Value start = cumulative_sum(s.target_lengths, 0) - s.target_lengths;
      at = minimum(broadcast_in_dim(start, table.dims, {0}) + at, like(at, targets.count() - 1));
      t = take_slices(targets, 0, at);
    } else {
      t = slice(targets, 1, 0, most);
    }
    Value real = iota(b, table, 1) < broadcast_in_dim(s.target_lengths, table.dims, {0});
    t = hlo::select(real, t, constant(b, blank, table));
    t = minimum(maximum(t, like(t, 0)), like(t, s.classes - 1));
  }
  // Targets at the odd places, blanks elsewhere.
  s.label = pad(t, constant(b, blank, {DType::I64, {}}), {0, 1}, {0, 1}, {0, 1});
  if (most == 0) s.label = constant(b, blank, {DType::I64, {s.n, 1}});
  Value none = constant(b, int64_t{-1}, {DType::I64, {}});
  Value before = s.count > 2 ? shifted(s.label, 2, none) : like(s.label, -1);
  s.skips = and_(before >= like(before, 0), before != s.label);
  return s;
}

Value log_sum(const Values& xs) {
  Value m = xs[0];
  for (const Value& x : xs) m = maximum(m, x);
  m = hlo::select(m == like(m, -HUGE_VAL), like(m, 0), m);
  Value total = like(m, 0);
  for (const Value& x : xs) total = total + exponential(x - m);
  return log(total) + m;
}
Value never(const Value& like_this) { return scalar(like_this, -HUGE_VAL); }
Value by_sequence(Value v, const Dims& dims) { return broadcast_in_dim(v, dims, {0}); }

// The log probability of each state's label at each step: [steps, n, count].
Value state_probs(Value log_probs, const States& s) {
  return pick_elements(log_probs, 2, broadcast_in_dim(s.label, {s.steps, s.n, s.count}, {1, 2}));
}
Value step_of(Value all, Value t) {
  Value zero = like(t, 0);
  return reshape(dynamic_slice(all, {t, zero, zero}, {1, all.dim(1), all.dim(2)}), {all.dim(1), all.dim(2)});
}

// Runs next(t, probabilities at t, state before) over the steps; gives the states of all: [steps, n, count].
Value over_steps(Value probs, const States& s, bool backwards, const std::function<Value(Value, Value, Value)>& next) {
  Builder& b = *probs.builder;
  Value t = constant(b, int64_t{0}, {DType::I64, {}});
  Value first = broadcast(never(probs), {s.n, s.count});
  const Values end = while_loop(
      {t, first, broadcast(never(probs), probs.dims()), probs},
      [&](const Values& v) { return Values{v[0] < like(v[0], s.steps)}; },
      [&](const Values& v) {
        Value at = backwards ? like(v[0], s.steps - 1) - v[0] : v[0], zero = like(v[0], 0);
        Value state = next(at, step_of(v[3], at), v[1]);
        Value all = dynamic_update_slice(v[2], reshape(state, {1, s.n, s.count}), {at, zero, zero});
        return Values{v[0] + like(v[0], 1), state, all, v[3]};
      });
  return end[2];
}

// Pred [n, count]: the states in which a sequence may begin.
Value begins(const States& s) {
  Value at = iota(*s.label.builder, s.label.type, 1);
  Value second = and_(at == like(at, 1), by_sequence(s.target_lengths, at.dims()) > like(at, 0));
  return or_(at == like(at, 0), second);
}
// The same for its end.
Value ends(const States& s) {
  Value at = iota(*s.label.builder, s.label.type, 1);
  Value last = by_sequence(s.target_lengths, at.dims()) * like(at, 2);
  return or_(at == last, at == last - like(last, 1));
}

// {losses, log alpha}; log alpha: [n, steps, count]
std::pair<Value, Value> ctc_loss(Value log_probs, Value targets, Value lengths, Value target_lengths, int64_t blank,
                                 int64_t most) {
  const States s = states(log_probs, targets, lengths, target_lengths, blank, most);
  Builder& b = *log_probs.builder;
  Value low = never(log_probs);
  if (s.steps == 0 || s.n == 0) {
    Value no_targets = s.target_lengths == like(s.target_lengths, 0);
    Value zero = constant(b, 0.0, {log_probs.dtype(), {s.n}});
    return {hlo::select(no_targets, zero, like(zero, HUGE_VAL)),
            constant(b, 0.0, {log_probs.dtype(), {s.n, s.steps, s.count}})};
  }
  Value probs = state_probs(log_probs, s), start = begins(s);
  Value alpha = over_steps(probs, s, false, [&](Value t, Value p, Value before) {
    Value begun = hlo::select(start, p, broadcast(low, p.dims()));
    Values from{before};
    if (s.count > 1) from.push_back(shifted(before, 1, low));
    if (s.count > 2) from.push_back(hlo::select(s.skips, shifted(before, 2, low), broadcast(low, p.dims())));
    return hlo::select(broadcast(t == like(t, 0), p.dims()), begun, log_sum(from) + p);
  });
  alpha = transpose(alpha, {1, 0, 2});
  // At its last step a sequence is in one of its last two states.
  Value step = iota(b, {DType::I64, alpha.dims()}, 1);
  Value at_end = and_(step == by_sequence(s.lengths - like(s.lengths, 1), step.dims()),
                      broadcast_in_dim(ends(s), step.dims(), {0, 2}));
  Value last = hlo::select(at_end, alpha, broadcast(low, alpha.dims()));
  Value m = amax(last, {1, 2}, true);
  m = hlo::select(m == like(m, -HUGE_VAL), like(m, 0), m);
  Value total = log(sum(exponential(last - stretch(m, last)), {1, 2}, false)) + reshape(m, {s.n});
  Value loss = negate(total);
  // A sequence without steps has a loss only if it has targets.
  Value empty = hlo::select(s.target_lengths == like(s.lengths, 0), like(loss, 0), like(loss, HUGE_VAL));
  return {hlo::select(s.lengths == like(s.lengths, 0), empty, loss), alpha};
}

Value ctc_loss_backward(Value gradient, Value log_probs, Value targets, Value lengths, Value target_lengths, Value loss,
                        Value log_alpha, int64_t blank, bool zero_infinity) {
  const States s = states(log_probs, targets, lengths, target_lengths, blank, (log_alpha.dim(2) - 1) / 2);
  if (log_probs.count() == 0) return log_probs;
  Value low = never(log_probs), probs = state_probs(log_probs, s), end = ends(s);
  Value skip = s.count > 2 ? shifted(s.skips, -2, constant(*s.skips.builder, int64_t{0}, {DType::Pred, {}})) : s.skips;
  Value beta = over_steps(probs, s, true, [&](Value t, Value p, Value after) {
    Value nothing = broadcast(low, p.dims());
    Values to{after};
    if (s.count > 1) to.push_back(shifted(after, -1, low));
    if (s.count > 2) to.push_back(hlo::select(skip, shifted(after, -2, low), nothing));
    Value last = s.lengths - like(s.lengths, 1), now = broadcast(t, {s.n});
    Value is_last = by_sequence(now == last, p.dims()), behind = by_sequence(now > last, p.dims());
    Value ended = hlo::select(end, p, nothing);
    return hlo::select(behind, nothing, hlo::select(is_last, ended, log_sum(to) + p));
  });
  // The share of all alignments that are in each state at each step, summed for each class.
  Value wide_loss = broadcast_in_dim(loss, probs.dims(), {1});
  Value reached = transpose(log_alpha, {1, 0, 2}) + beta;
  Value share = exponential(hlo::select(reached == like(reached, -HUGE_VAL), reached, reached - probs + wide_loss));
  const Dims hot{s.n, s.count, s.classes};
  Value one_hot = broadcast_in_dim(s.label, hot, {0, 1}) == iota(*share.builder, {DType::I64, hot}, 2);
  Value by_class = dot(share, convert(one_hot, share.dtype()),
                       {.batch_x = {1}, .batch_y = {0}, .contract_x = {2}, .contract_y = {1}}, share.dtype());
  Value slope = exponential(log_probs) - transpose(by_class, {1, 0, 2});
  const Dims& dims = slope.dims();
  Value infinite = broadcast_in_dim(loss == like(loss, HUGE_VAL), dims, {1});
  slope = hlo::select(infinite, like(slope, zero_infinity ? 0.0 : std::nan("")), slope);
  slope = slope * broadcast_in_dim(convert(gradient, slope.dtype()), dims, {1});
  if (zero_infinity) slope = hlo::select(infinite, like(slope, 0), slope);
  Value step = iota(*slope.builder, {DType::I64, dims}, 0);
  return hlo::select(step < broadcast_in_dim(s.lengths, dims, {1}), slope, like(slope, 0));
}

// dispatch/loss.cpp brings lengths to the device before.
constexpr Row kRows[] = {
    {"tpu::ctc_loss", op<ctc_loss>},
    {"tpu::ctc_loss_backward", op<ctc_loss_backward>},
};

}  // namespace

const Table kCtc = kRows;

}  // namespace tpu::ops
