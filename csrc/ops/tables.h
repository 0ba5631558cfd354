// The families of lowerings, one table each. A new family is declared here and listed in ops.cpp.
#pragma once

#include "ops/ops.h"

namespace tpu::ops {

using Table = std::span<const Row>;

extern const Table kActivation, kArithmetic, kAttention, kComparison, kConvolution, kCreation, kCtc, kFactorization,
    kFft, kIndexing, kLinalg, kLoss, kMatrix, kNormalization, kPacking, kPointwise, kPooling, kRandom, kReduction,
    kResampling, kScan, kShape, kSorting, kSpecial, kStorage, kTraining;

}  // namespace tpu::ops
