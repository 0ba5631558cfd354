// Starting the runtime, and noticing a fork.
#include "graph/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "base/config.h"
#include "base/error.h"
#include "pjrt/plugin.h"

namespace tpu::graph {
namespace {

std::mutex start_mutex;  // guards the start
std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> forked{false};

void after_fork() {
  if (instance.load()) forked.store(true);
}

}  // namespace

Runtime::Runtime(std::unique_ptr<pjrt::Client> c) : client(std::move(c)), compiler(*client, disk), scheduler(*client) {
  scheduler.set_mode(config::eager_mode() == config::EagerMode::Debug ? EagerMode::Debug : EagerMode::Strict);
}

Runtime& runtime() {
  if (forked.load(std::memory_order_relaxed)) [[unlikely]]
    fail(Code::Runtime,
         "Cannot re-initialize tpu in forked subprocess. To use tpu with multiprocessing, you must use the 'spawn' "
         "start method");
  if (Runtime* r = instance.load(std::memory_order_acquire)) [[likely]]
    return *r;
  std::lock_guard lock(start_mutex);
  if (Runtime* r = instance.load()) return *r;
  static const int registered = pthread_atfork(nullptr, nullptr, after_fork);
  (void)registered;
  const pjrt::Plugin& plugin = pjrt::Plugin::discover(config::plugin());
  auto* r = new Runtime(pjrt::Client::create(plugin, {.cpu_devices = config::cpu_devices()}));
  instance.store(r, std::memory_order_release);
  return *r;
}

std::pair<int64_t, int64_t> memory_info(int device) {
  if (auto stats = runtime().client->memory_stats(device); stats && stats->limit > 0)
    return {stats->limit - stats->in_use, stats->limit};
  const int64_t page = sysconf(_SC_PAGESIZE);
  return {sysconf(_SC_AVPHYS_PAGES) * page, sysconf(_SC_PHYS_PAGES) * page};
}

void finish() {
  Runtime* r = instance.load();
  if (!r || forked.load()) return;
  r->compiler.stop();
  r->scheduler.stop();
}

bool started() { return instance.load() != nullptr; }
bool in_bad_fork() { return forked.load(); }

}  // namespace tpu::graph
