// The list of families.
#include "ops/ops.h"

#include "ops/tables.h"

namespace tpu::ops {

std::span<const Row* const> rows() {
  static const std::vector<const Row*> all = [] {
    std::vector<const Row*> rows;
    for (Table table : {kActivation,    kArithmetic, kAttention, kComparison, kConvolution, kCreation,   kCtc,
                        kFactorization, kFft,        kIndexing,  kLinalg,     kLoss,        kMatrix,     kNormalization,
                        kPacking,       kPointwise,  kPooling,   kRandom,     kReduction,   kResampling, kScan,
                        kShape,         kSorting,    kSpecial,   kStorage,    kTraining})
      for (const Row& row : table) rows.push_back(&row);
    return rows;
  }();
  return all;
}

}  // namespace tpu::ops
