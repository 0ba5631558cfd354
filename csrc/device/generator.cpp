// Seeds and states.
#include "device/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "device/copy.h"
#include "device/device.h"
#include "graph/runtime.h"

namespace tpu::device {

GeneratorImpl::GeneratorImpl(int device)
    : c10::GeneratorImpl(tpu::device::device(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      index_(device) {
  set({seed_, 0});
}

graph::ArrayRef& GeneratorImpl::state() {
  if (!array_) array_ = upload(&initial_, {DType::U64, {2}}, index_);
  return array_;
}

GeneratorImpl::Words GeneratorImpl::words() const {
  Words w = initial_;
  if (array_) translated([&] { download(array_, &w); });
  return w;
}

void GeneratorImpl::set(Words words) {
  initial_ = words;
  array_ = {};
}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  set({seed, 0});
}

void GeneratorImpl::set_offset(uint64_t offset) { set({words().key, offset}); }
uint64_t GeneratorImpl::get_offset() const { return words().counter; }

uint64_t GeneratorImpl::seed() {
  std::random_device device;
  const uint64_t fresh = (uint64_t(device()) << 32 | device()) & 0x1FFFFFFFFFFFFF;
  set_current_seed(fresh);
  return fresh;
}

// Seed, key and counter, little-endian.
void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  uint64_t raw[3];
  TORCH_CHECK(state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                  state.numel() == int64_t(sizeof raw) && state.is_contiguous(),
              "RNG state must be a torch.ByteTensor of ", sizeof raw, " bytes on the CPU");
  std::memcpy(raw, state.data(), sizeof raw);
  seed_ = raw[0];
  set({raw[1], raw[2]});
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  const Words w = words();
  const uint64_t raw[3] = {seed_, w.key, w.counter};
  at::Tensor t = at::detail::empty_cpu({int64_t(sizeof raw)}, c10::kByte);
  std::memcpy(t.mutable_data_ptr(), raw, sizeof raw);
  return t.getIntrusivePtr();
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(index_);
  copy->seed_ = seed_;
  copy->set(words());
  return copy;
}

namespace {

struct Defaults {
  std::mutex mutex;  // guards both
  std::vector<at::Generator> generators;
  std::optional<uint64_t> seed;  // asked for, perhaps before there were generators
};

Defaults& defaults() {
  static auto* all = new Defaults;
  return *all;
}

}  // namespace

const at::Generator& default_generator(int device) {
  Defaults& d = defaults();
  std::lock_guard lock(d.mutex);
  if (d.generators.empty())
    for (int i = 0; i < translated([] { return graph::runtime().device_count(); }); ++i) {
      d.generators.push_back(at::make_generator<GeneratorImpl>(i));
      if (d.seed) d.generators.back().set_current_seed(*d.seed);
    }
  return d.generators[size_t(device)];
}

void seed_defaults(uint64_t seed) {
  Defaults& d = defaults();
  std::lock_guard lock(d.mutex);
  d.seed = seed;
  for (at::Generator& g : d.generators) {
    std::lock_guard generator_lock(g.mutex());
    g.set_current_seed(seed);
  }
}

}  // namespace tpu::device
