// What the runtime itself asks of arrays, beside PyTorch's ops.
#include "hlo/hlo.h"
#include "ops/tables.h"

namespace tpu::ops {
namespace {

using namespace hlo;

// Complex elements as pairs of their parts, and back.
Value parts(Value x) {
  Dims pair = x.dims();
  pair.push_back(1);
  Value both = concatenate({reshape(real(x), pair), reshape(imag(x), pair)}, x.rank());
  return reshape(both, {both.count()});
}

Value paired(Value x, DType t) {
  x = reshape(x, {x.count() / 2, 2});
  Value re = slice(x, 1, 0, 1), im = slice(x, 1, 1, 2);
  Value z = complex(reshape(re, {x.dim(0)}), reshape(im, {x.dim(0)}));
  return convert(z, t);
}

// The same bytes as elements of dtype t, flat; bytes that make no whole element are dropped.
Value retype(Value x, DType t) {
  if (is_complex(x.dtype())) x = parts(x);
  if (is_complex(t)) return paired(retype(x, real_type(t)), t);
  x = reshape(x, {x.count()});
  // A bool is a byte that is not zero.
  if (x.dtype() == DType::Pred) x = convert(x, DType::U8);
  const DType bits = t == DType::Pred ? DType::U8 : t;
  const int64_t from = element_size(x.dtype()), to = element_size(bits);
  if (from < to) {
    const int64_t group = to / from, count = x.count() / group;
    x = bitcast(reshape(slice(x, 0, 0, count * group), {count, group}), {bits, {count}});
  } else if (from > to) {
    x = bitcast(x, {bits, {x.count(), from / to}});
    x = reshape(x, {x.count()});
  } else {
    x = bitcast(x, {bits, x.dims()});
  }
  return convert(x, t);
}

constexpr Row kRows[] = {
    {"tpu::retype", op<retype>},
};

}  // namespace

const Table kStorage = kRows;

}  // namespace tpu::ops
