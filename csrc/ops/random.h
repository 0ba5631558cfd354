// Random numbers from the state that a lowering is given.
#pragma once

#include "ops/promote.h"

namespace tpu::ops {

// Uniform bits; the state moves on.
Value random_bits(Rng rng, hlo::Builder& b, DType unsigned_type, const Dims& dims);
// Uniform in [0, 1), with as many random bits as the float has; t is F32 or F64.
Value uniform(Rng rng, hlo::Builder& b, DType t, const Dims& dims);
Value normal(Rng rng, hlo::Builder& b, DType t, const Dims& dims);

}  // namespace tpu::ops
