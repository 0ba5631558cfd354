// Random generators whose state lives on a chip.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include "graph/array.h"

namespace tpu::device {

// The state is u64[2]: key and counter. Programs that draw numbers take it and leave the next one.
class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(int device);

  // Guarded by mutex_, as everything of a generator.
  graph::ArrayRef& state();

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::kPrivateUse1; }

 private:
  struct Words {
    uint64_t key = 0, counter = 0;
  };
  Words words() const;
  void set(Words words);
  GeneratorImpl* clone_impl() const override;

  int index_;
  uint64_t seed_ = c10::default_rng_seed_val;
  Words initial_;  // the state while there is no array yet
  graph::ArrayRef array_;
};

// The generator of a chip that ops use where none is given.
const at::Generator& default_generator(int device);

// Seeds the default generators of all chips, those that are made later too. Starts nothing.
void seed_defaults(uint64_t seed);

}  // namespace tpu::device
