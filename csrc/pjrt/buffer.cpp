// Reading, copying and freeing arrays.
#include "pjrt/buffer.h"

#include <array>

namespace tpu::pjrt {
namespace {

constexpr size_t kMaxRank = 64;  // PyTorch's own limit

}  // namespace

Buffer::~Buffer() {
  if (!buffer_) return;
  TPU_PJRT_ARGS(PJRT_Buffer_Destroy_Args, a);
  a.buffer = buffer_;
  if (PJRT_Error* error = api_->PJRT_Buffer_Destroy(&a)) translate(api_, error, "");
}

Type Buffer::type() const {
  TPU_PJRT_ARGS(PJRT_Buffer_ElementType_Args, element);
  element.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_ElementType(&element), "buffer");
  TPU_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, dims);
  dims.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_Dimensions(&dims), "buffer");
  return {dtype(element.type), Dims(dims.dims, dims.dims + dims.num_dims)};
}

int64_t Buffer::device_bytes() const {
  TPU_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes_Args, a);
  a.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_OnDeviceSizeInBytes(&a), "buffer");
  return int64_t(a.on_device_size_in_bytes);
}

Event Buffer::ready() const {
  TPU_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, a);
  a.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_ReadyEvent(&a), "buffer");
  return {api_, a.event};
}

Event Buffer::to_host(void* destination, int64_t bytes) const {
  TPU_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, dims);
  dims.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_Dimensions(&dims), "copy to the host");
  tpu::check(dims.num_dims <= kMaxRank, Code::Value, "copy to the host: expected at most ", kMaxRank,
             " dimensions, got ", dims.num_dims);
  // A device may keep the array in another order than row-major; without a layout that order would come back.
  std::array<int64_t, kMaxRank> minor_to_major;
  for (size_t i = 0; i < dims.num_dims; ++i) minor_to_major[i] = int64_t(dims.num_dims - 1 - i);
  TPU_PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = dims.num_dims;

  TPU_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, a);
  a.src = buffer_;
  a.host_layout = &layout;
  a.dst = destination;
  a.dst_size = size_t(bytes);
  check(api_, api_->PJRT_Buffer_ToHostBuffer(&a), "copy to the host");
  return {api_, a.event};
}

Buffer Buffer::copy_to(PJRT_Device* device) const {
  TPU_PJRT_ARGS(PJRT_Buffer_CopyToDevice_Args, a);
  a.buffer = buffer_;
  a.dst_device = device;
  check(api_, api_->PJRT_Buffer_CopyToDevice(&a), "copy to another device");
  return {api_, a.dst_buffer};
}

void Buffer::free() {
  TPU_PJRT_ARGS(PJRT_Buffer_Delete_Args, a);
  a.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_Delete(&a), "buffer");
}

bool Buffer::is_deleted() const {
  TPU_PJRT_ARGS(PJRT_Buffer_IsDeleted_Args, a);
  a.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_IsDeleted(&a), "buffer");
  return a.is_deleted;
}

uintptr_t Buffer::address() const {
  TPU_PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, a);
  a.buffer = buffer_;
  check(api_, api_->PJRT_Buffer_UnsafePointer(&a), "buffer");
  return a.buffer_pointer;
}

}  // namespace tpu::pjrt
