// Reductions that other families compose.
#pragma once

#include "ops/promote.h"

namespace tpu::ops {

int64_t wrap(int64_t dim, int64_t rank);
// The dims to reduce, none given meaning all, wrapped and sorted.
Dims axes(const Value& x, const std::optional<Dims>& dims);
// Puts reduced dims back with size one if `keep`.
Value keep_dims(Value reduced, const Value& x, const Dims& dims, bool keep);
int64_t reduced_count(const Value& x, const Dims& dims);

// In x's own dtype, dims kept where asked.
Value sum(Value x, const Dims& dims, bool keep);
Value mean(Value x, const Dims& dims, bool keep);
Value amax(Value x, const Dims& dims, bool keep);
Value amin(Value x, const Dims& dims, bool keep);
Value any(Value x, const Dims& dims, bool keep);
Value all(Value x, const Dims& dims, bool keep);
// {extreme, its first position} along one dim; NaN is the extreme where there is one.
std::pair<Value, Value> extreme(Value x, int64_t dim, bool keep, bool largest);
// Of a wide float: {variance, mean}; the divisor is count - correction.
std::pair<Value, Value> variance(Value x, const Dims& dims, double correction, bool keep);

}  // namespace tpu::ops
