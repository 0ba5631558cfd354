// What PyTorch asks of every accelerator: device and stream guards, events, and the hooks.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>

#include "device/device.h"
#include "device/generator.h"
#include "device/guard.h"
#include "device/storage.h"
#include "graph/runtime.h"

namespace tpu::device {
namespace {

// The work of a chip is done in the order in which it was asked for, whatever the stream: streams only have names.
thread_local std::map<int, c10::StreamId> current_streams;
std::atomic<c10::StreamId> next_stream{1};

struct Moment {
  std::chrono::steady_clock::time_point time;
};

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device before = getDevice();
    if (d.has_index() && d.index() != before.index()) set_current(d.index());
    return before;
  }
  c10::Device getDevice() const override { return device(current()); }
  void setDevice(c10::Device d) const override {
    if (d.has_index() && d.index() != current()) set_current(d.index());
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    try {
      setDevice(d);
    } catch (...) {
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(count()); }

  c10::Stream getStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::UNSAFE, device(index(d)), current_streams[index(d)]);
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::DEFAULT, device(index(d)));
  }
  c10::Stream getNewStream(c10::Device d, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, device(index(d)), next_stream.fetch_add(1));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return getNewStream(d, 0); }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const c10::Stream before = getStream(s.device());
    current_streams[s.device_index()] = s.id();
    return before;
  }
  bool queryStream(const c10::Stream& s) const override { return done(s.device_index()); }
  void synchronizeStream(const c10::Stream& s) const override { synchronize(s.device_index()); }
  void synchronizeDevice(c10::DeviceIndex i) const override { synchronize(i); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  // An event stands for the end of the work asked of its chip before it. One that keeps time waits for that end.
  void record(void** event, const c10::Stream& s, c10::DeviceIndex, c10::EventFlag flag) const override {
    if (!*event) *event = new Moment;
    if (flag != c10::EventFlag::INVALID) synchronize(s.device_index());
    static_cast<Moment*>(*event)->time = std::chrono::steady_clock::now();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override { return !event || done(current()); }
  void synchronizeEvent(void* event) const override {
    if (event) synchronize(current());
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Moment*>(event); }
  double elapsedTime(void* start, void* end, c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "Both events must be recorded before calculating elapsed time.");
    const auto elapsed = static_cast<Moment*>(end)->time - static_cast<Moment*>(start)->time;
    return std::chrono::duration<double, std::milli>(elapsed).count();
  }

 private:
  static bool done(int i) {
    return !graph::started() || (graph::runtime().scheduler.idle(i) && graph::all_computed(i));
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Host memory that counts as pinned. Every transfer copies from it, so plain memory does.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = c10::GetCPUAllocator()->allocate(bytes);
    auto* kept = new Kept{this, std::move(data)};
    void* address = kept->data.get();
    std::lock_guard lock(mutex_);
    ranges_[address] = bytes;
    return {address, kept, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool owns(const void* address) {
    std::lock_guard lock(mutex_);
    auto it = ranges_.upper_bound(address);
    if (it == ranges_.begin()) return false;
    --it;
    return static_cast<const char*>(address) < static_cast<const char*>(it->first) + it->second;
  }

 private:
  struct Kept {
    PinnedAllocator* allocator;
    c10::DataPtr data;
  };
  static void release(void* context) {
    auto* kept = static_cast<Kept*>(context);
    {
      std::lock_guard lock(kept->allocator->mutex_);
      kept->allocator->ranges_.erase(kept->data.get());
    }
    delete kept;
  }
  std::mutex mutex_;  // guards ranges_
  std::map<const void*, size_t> ranges_;
};

PinnedAllocator& pinned() {
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return graph::started(); }
  void init() const override {
    translated([] { graph::runtime(); });
  }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(count()); }
  void setCurrentDevice(c10::DeviceIndex i) const override { set_current(i); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex i) const override {
    const auto before = getCurrentDevice();
    if (i >= 0) set_current(i);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex i) const override { return exchangeDevice(i); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex i) const override {
    return default_generator(index({c10::kPrivateUse1, i}));
  }
  at::Generator getNewGenerator(c10::DeviceIndex i) const override {
    return at::make_generator<GeneratorImpl>(index({c10::kPrivateUse1, i}));
  }
  at::Device getDeviceFromPtr(void*) const override { return device(current()); }
  bool isPinnedPtr(const void* data) const override { return pinned().owns(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned(); }
  void resizePrivateUse1Bytes(const c10::Storage& s, size_t bytes) const override {
    resize(*s.unsafeGetStorageImpl(), int64_t(bytes));
  }
};

}  // namespace

void synchronize(int i) {
  if (!graph::started() && !graph::in_bad_fork()) return;
  const int chip = index(device(i));
  translated([chip] { graph::runtime().scheduler.synchronize(chip); });
}

void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

}  // namespace tpu::device
