// Types: sizes, strides, names.
#include "base/type.h"

#include "test.h"

namespace tpu::test {

void type() {
  test("sizes and names", [] {
    CHECK_EQUAL((Type{DType::BF16, {2, 3}}.bytes()), 12);
    CHECK_EQUAL((Type{DType::C128, {}}.bytes()), 16);
    CHECK_EQUAL((Type{DType::F32, {0, 3}}.bytes()), 0);
    CHECK_EQUAL((Type{DType::F32, {2, 3}}.str()), "tensor<2x3xf32>");
    CHECK_EQUAL((Type{DType::Pred, {}}.str()), "tensor<i1>");
  });
  test("strides", [] {
    CHECK(row_major_strides(Dims{2, 3, 4}) == (Dims{12, 4, 1}));
    CHECK(row_major_strides(Dims{}).empty());
  });
}

}  // namespace tpu::test
