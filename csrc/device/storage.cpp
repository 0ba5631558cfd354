// The allocator: it hands out cells and addresses that are never followed.
#include "device/storage.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "graph/runtime.h"

namespace tpu::device {
namespace {

// What a DataPtr owns. The address keeps the size it was taken for when the storage is resized.
struct Owned : graph::Cell {
  void* address = nullptr;
  size_t reserved = 0;
  Owned* previous = nullptr;  // in the list of all, guarded by the address space's lock
  Owned* next = nullptr;
};

// Addresses come from a stretch that is reserved but can't be touched. Each live storage has its own, as large as the
// storage, so that PyTorch's comparisons of data pointers mean what they mean elsewhere.
class AddressSpace {
 public:
  AddressSpace() {
    // As much as the system grants: address space costs nothing.
    for (size_t size = size_t{1} << 45; size >= size_t{1} << 36; size >>= 1) {
      void* start = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (start == MAP_FAILED) continue;
      next_ = reinterpret_cast<uintptr_t>(start);
      end_ = next_ + size;
      return;
    }
    fail(Code::OutOfMemory, "no address space is left for the storages of tpu tensors");
  }

  // Gives a cell its address.
  void take(Owned& owned) {
    std::lock_guard lock(mutex_);
    owned.address = address(owned.reserved);
    owned.next = first_;
    if (first_) first_->previous = &owned;
    first_ = &owned;
  }

  void give(Owned& owned) {
    std::lock_guard lock(mutex_);
    (owned.previous ? owned.previous->next : first_) = owned.next;
    if (owned.next) owned.next->previous = owned.previous;
    free_[size_t(size_class(owned.reserved))].push_back(owned.address);
  }

  // The cell whose storage begins there, for tensors that were made from a bare address. Slow; null if there is none.
  graph::Cell* find(const void* address) {
    std::lock_guard lock(mutex_);
    for (Owned* o = first_; o; o = o->next)
      if (o->address == address) return o;
    return nullptr;
  }

 private:
  void* address(size_t bytes) {
    const int c = size_class(bytes);
    if (auto& free = free_[size_t(c)]; !free.empty()) {
      void* address = free.back();
      free.pop_back();
      return address;
    }
    const size_t size = size_t{1} << c;
    check(size <= end_ - next_, Code::OutOfMemory, "no address space is left for a storage of ", bytes, " bytes");
    return reinterpret_cast<void*>(std::exchange(next_, next_ + size));
  }

  // Powers of two from 64 bytes, one past the end included.
  static int size_class(size_t bytes) { return std::bit_width(std::max<size_t>(bytes, 63)); }
  std::mutex mutex_;  // guards all below
  std::array<std::vector<void*>, 64> free_;
  uintptr_t next_ = 0, end_ = 0;
  Owned* first_ = nullptr;
};

AddressSpace& addresses() {
  static auto* space = new AddressSpace;
  return *space;
}

void destroy(void* context) {
  auto* owned = static_cast<Owned*>(static_cast<graph::Cell*>(context));
  addresses().give(*owned);
  delete owned;
}

c10::DataPtr data(int64_t bytes, int index) {
  auto owned = std::make_unique<Owned>();
  owned->bytes = bytes;
  owned->device = index;
  owned->reserved = size_t(bytes);
  translated([&] { addresses().take(*owned); });
  void* address = owned->address;
  return {address, static_cast<graph::Cell*>(owned.release()), &destroy, device(index)};
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return data(int64_t(bytes), current()); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "tpu memory can't be copied by address");
  }

  bool initialized() override { return graph::started(); }
  // Nothing is cached: memory goes back to the plugin at once.
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const graph::MemoryStats stats = graph::memory_stats(device);
    c10::CachingDeviceAllocator::DeviceStats result;
    for (auto* bytes : {&result.allocated_bytes, &result.reserved_bytes, &result.active_bytes}) {
      auto& all = (*bytes)[0];
      all.current = stats.bytes;
      all.peak = stats.peak_bytes;
    }
    result.allocation[0].current = stats.arrays;
    return result;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override { graph::reset_peak_memory(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
};

Allocator instance;
REGISTER_ALLOCATOR(c10::kPrivateUse1, &instance);

std::pair<size_t, size_t> Allocator::getMemoryInfo(c10::DeviceIndex device) {
  const auto [free, total] = translated([&] { return graph::memory_info(device); });
  return {size_t(free), size_t(total)};
}

}  // namespace

graph::Cell& cell(const c10::StorageImpl& s) {
  if (s.data_ptr().get_deleter() == &destroy) return *static_cast<graph::Cell*>(s.data_ptr().get_context());
  graph::Cell* found = addresses().find(s.data_ptr().get());
  TORCH_CHECK(found, "a tpu tensor over memory that is not of the tpu allocator");
  return *found;
}

c10::Allocator* allocator() { return &instance; }

c10::Storage storage(int64_t bytes, int index) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                            data(bytes, index), &instance, /*resizable=*/true));
}

namespace {

at::Tensor wrap(c10::Storage s, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      std::move(s), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(dtype));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

}  // namespace

at::Tensor tensor(const graph::Layout& layout, int index, graph::ArrayRef array) {
  const int64_t bytes = element_count(layout.sizes) * element_size(layout.dtype);
  c10::Storage s = storage(bytes, index);
  cell(*s.unsafeGetStorageImpl()).array = std::move(array);
  return wrap(std::move(s), scalar_type(layout.dtype), layout.sizes, layout.strides);
}

at::Tensor tensor(c10::ScalarType t, c10::IntArrayRef sizes, c10::IntArrayRef strides, int index) {
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(t));
  return wrap(storage(int64_t(bytes), index), t, sizes, strides);
}

graph::View view(const at::TensorBase& t) {
  return {.dtype = device::dtype(t.scalar_type()),
          .sizes = t.sizes(),
          .strides = t.strides(),
          .offset = t.storage_offset()};
}

void resize(c10::StorageImpl& s, int64_t bytes) {
  graph::Cell& old = cell(s);
  c10::DataPtr fresh = data(bytes, old.device);
  // A larger storage keeps its array: what the array lacks reads as zeros.
  if (bytes > 0) static_cast<graph::Cell*>(fresh.get_context())->array = old.array;
  s.set_data_ptr_noswap(std::move(fresh));
  s.set_nbytes(size_t(bytes));
}

}  // namespace tpu::device
