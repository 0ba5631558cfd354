// Transfers.
#include "device/copy.h"

#include <Python.h>

#include <cstring>

#include "graph/runtime.h"

namespace tpu::device {
namespace {

// Gives up Python's lock while this thread waits, if it holds it.
class Unlocked {
 public:
  Unlocked() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace

graph::ArrayRef upload(const void* data, const Type& type, int device) {
  return graph::ArrayRef(
      new graph::Array(graph::shape(type), device, graph::runtime().client->from_host(data, type, device)));
}

void download(const graph::ArrayRef& array, void* data) {
  Unlocked unlocked;
  array->await();
  // The CPU plugin's arrays lie in this process's memory.
  if (graph::runtime().client->plugin().kind() == pjrt::Kind::Cpu) {
    std::memcpy(data, reinterpret_cast<const void*>(array->buffer().address()), size_t(array->shape()->bytes()));
  } else {
    array->buffer().to_host(data, array->shape()->bytes()).await();
  }
}

graph::ArrayRef transfer(const graph::ArrayRef& array, int device) {
  array->wait();
  graph::Runtime& r = graph::runtime();
  return graph::ArrayRef(
      new graph::Array(array->shape(), device, array->buffer().copy_to(r.client->devices()[size_t(device)].handle)));
}

}  // namespace tpu::device
