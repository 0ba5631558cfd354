// The client all tests share, and what they run on it.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "pjrt/client.h"

namespace tpu::test {

// Of the plugin that TORCH_TPU_PLUGIN names, with four chips; made at the first call and never destroyed.
const pjrt::Client& chip();

// Runs a program on one chip.
std::vector<pjrt::Buffer> run(const pjrt::Executable& program, std::initializer_list<const pjrt::Buffer*> inputs,
                              int64_t device = 0, std::span<const int64_t> non_donatable = {});

// The elements of an array; T must be as large as they are.
template <class T>
std::vector<T> host(const pjrt::Buffer& buffer) {
  Type type = buffer.type();
  std::vector<T> elements(size_t(type.count()));
  buffer.to_host(elements.data(), int64_t(elements.size() * sizeof(T))).await();
  return elements;
}

}  // namespace tpu::test
