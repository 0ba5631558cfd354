// Makes the shared client.
#include "chip.h"

#include "base/config.h"

namespace tpu::test {

const pjrt::Client& chip() {
  static const pjrt::Client& client =
      *pjrt::Client::create(pjrt::Plugin::discover(config::plugin()), {.cpu_devices = 4}).release();
  return client;
}

std::vector<pjrt::Buffer> run(const pjrt::Executable& program, std::initializer_list<const pjrt::Buffer*> inputs,
                              int64_t device, std::span<const int64_t> non_donatable) {
  std::vector<PJRT_Buffer*> in, out(program.output_count());
  for (const pjrt::Buffer* buffer : inputs) in.push_back(buffer->get());
  program.execute(in, out, chip().device(device).handle, non_donatable);
  std::vector<pjrt::Buffer> outputs;
  for (PJRT_Buffer* buffer : out) outputs.push_back(chip().adopt(buffer));
  return outputs;
}

}  // namespace tpu::test
