// Building blocks of ops whose result sizes depend on the data: arrays as large as can be, filled from the front, and
// the count of what is filled.
#include "ops/indexing.h"
#include "ops/math.h"
#include "ops/reduction.h"
#include "ops/scan.h"
#include "ops/sorting.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// For each element of a vector of flags the place it gets when those set are packed to the front; past the end where
// it is not set.
Value places(Value flags) {
  Value nth = cumulative_sum(convert(flags, DType::I32), 0) - 1.0;
  return hlo::select(flags, nth, like(nth, flags.count()));
}
Value packed(Value x, Value place) {
  ScatterDims d{
      .window = {}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
  return hlo::scatter(
      like(x, 0), reshape(place, {place.count(), 1}), x, d, [](const Values& v) { return Values{v[1]}; }, true);
}
Value count_of(Value flags) { return sum(convert(flags, DType::I64), {0}, false); }

std::pair<Value, Value> nonzero(Value x) {
  Value flags = reshape(truth(x), {x.count()});
  Value flat = packed(iota(*x.builder, {DType::I64, flags.dims()}, 0), places(flags));
  Values columns;
  const Dims strides = row_major_strides(x.dims());
  for (int64_t d = 0; d < x.rank(); ++d) {
    Value c = remainder(flat / like(flat, std::max<int64_t>(strides[size_t(d)], 1)),
                        like(flat, std::max<int64_t>(x.dim(d), 1)));
    columns.push_back(reshape(c, {x.count(), 1}));
  }
  Value rows =
      columns.empty() ? constant(*x.builder, int64_t{0}, {DType::I64, {x.count(), 0}}) : concatenate(columns, 1);
  return {rows, count_of(flags)};
}

std::pair<Value, Value> masked_select(Value x, Value mask) {
  Value flags = reshape(truth(mask), {mask.count()});
  return {packed(reshape(x, flags.dims()), places(flags)), count_of(flags)};
}

// {values, which of them each element is, how often each occurs, count} of a vector; equals stand side by side.
std::tuple<Value, Value, Value, Value> runs(Value x) {
  const int64_t n = x.count();
  Value before = concatenate({slice(x, 0, 0, 1), slice(x, 0, 0, n - 1)}, 0);
  Value first = iota(*x.builder, {DType::I64, x.dims()}, 0) == constant(*x.builder, int64_t{0}, {DType::I64, x.dims()});
  Value starts = or_(first, x != before);
  Value group = convert(cumulative_sum(convert(starts, DType::I32), 0) - 1.0, DType::I64);
  ScatterDims d{
      .window = {}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
  Value counts = hlo::scatter(like(group, 0), reshape(group, {n, 1}), like(group, 1), d,
                              [](const Values& v) { return Values{v[0] + v[1]}; });
  return {packed(x, places(starts)), group, counts, count_of(starts)};
}
std::tuple<Value, Value, Value, Value> unique_consecutive(Value x) { return runs(x); }
std::tuple<Value, Value, Value, Value> unique(Value x) {
  auto [values, positions] = sorted(x, 0, false);
  auto [packed_values, group, counts, count] = runs(values);
  ScatterDims d{
      .window = {}, .inserted = {0}, .operand_batch = {}, .index_batch = {}, .to_operand = {0}, .index_vector = 1};
  Value inverse = hlo::scatter(
      like(group, 0), reshape(positions, {x.count(), 1}), group, d, [](const Values& v) { return Values{v[1]}; }, true);
  return {packed_values, inverse, counts, count};
}

Value repeat_interleave(Value repeats, int64_t size) {
  Value ends = cumulative_sum(convert(repeats, DType::I64), 0);
  Value i = iota(*repeats.builder, {DType::I64, {size, repeats.count()}}, 0);
  Value past = i >= broadcast_in_dim(ends, i.dims(), {1});
  return sum(convert(past, DType::I64), {1}, false);
}

constexpr Row kRows[] = {
    {"tpu::masked_select", op<masked_select>},           {"tpu::nonzero", op<nonzero>},
    {"tpu::repeat_interleave", op<repeat_interleave>},   {"tpu::unique", op<unique>},
    {"tpu::unique_consecutive", op<unique_consecutive>},
};

}  // namespace

const Table kPacking = kRows;

}  // namespace tpu::ops
