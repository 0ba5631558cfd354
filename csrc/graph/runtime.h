// The one runtime of a process: plugin, client, caches, compiler and scheduler, started by the first use of the device.
#pragma once

#include "graph/cache.h"
#include "graph/compiler.h"
#include "graph/disk.h"
#include "graph/scheduler.h"
#include "pjrt/client.h"

namespace tpu::graph {

// Members are destroyed in the reverse order, but a process normally ends without destroying its runtime: plugin
// threads may still be at work then.
struct Runtime {
  explicit Runtime(std::unique_ptr<pjrt::Client> client);
  int device_count() const { return int(client->devices().size()); }

  std::unique_ptr<pjrt::Client> client;
  Disk disk;
  Compiler compiler;
  Cache cache;
  Scheduler scheduler;
};

// Starts it if need be; throws why that is impossible, each time anew. May be called from any thread. In a process that
// was forked off one that had started it, it throws: plugin threads don't survive a fork.
Runtime& runtime();
// Bytes {free, in all} of a chip. The CPU plugin keeps no account: there it is the machine's memory, shared by all
// chips.
std::pair<int64_t, int64_t> memory_info(int device);
bool started();
bool in_bad_fork();
// Ends the runtime's threads, before the process does: they must not be at work in the plugin while it is torn down.
void finish();

}  // namespace tpu::graph
