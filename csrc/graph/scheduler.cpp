// The queues and their workers.
#include "graph/scheduler.h"

#include <array>

#include "base/error.h"
#include "base/log.h"

namespace tpu::graph {

Scheduler::Scheduler(pjrt::Client& client) : client_(client) {
  for (int i = 0; i < int(client.devices().size()); ++i) queues_.push_back(std::make_unique<Queue>());
}

Scheduler::~Scheduler() { stop(); }

void Scheduler::stop() {
  for (auto& queue : queues_) {
    {
      std::lock_guard lock(queue->mutex);
      queue->stop = true;
    }
    queue->wake.notify_all();
    if (queue->worker.joinable()) queue->worker.join();
  }
}

void Scheduler::run(const Program& program, std::span<const ArrayRef> inputs, int device, uint32_t holders,
                    std::vector<ArrayRef>& results) {
  // What was asked for before debug mode began may still wait for its compile.
  if (mode() == EagerMode::Debug && !idle(device)) drain(device);
  results.clear();
  std::array<ArrayRef, 16> few;
  std::vector<ArrayRef> many;
  size_t count = 0;
  for (const Slot& slot : program.slots) {
    if (slot.input >= 0) {
      results.push_back(inputs[size_t(slot.input)]);
    } else if (slot.output < 0) {
      results.emplace_back();
    } else {
      results.emplace_back(new Array(slot.shape, device));
      if (count < few.size() && many.empty()) {
        few[count] = results.back();
      } else {
        if (many.empty()) many.assign(few.begin(), few.begin() + int64_t(count));
        many.push_back(results.back());
      }
      ++count;
    }
  }
  if (program.output_count == 0) return;
  std::span<const ArrayRef> outputs = many.empty() ? std::span<const ArrayRef>(few.data(), count) : many;
  Queue& queue = *queues_[size_t(device)];
  if (queue.length.load(std::memory_order_acquire) == 0 && (program.code->ready() || mode() == EagerMode::Debug)) {
    program.code->executable();  // in debug mode a failed compile is thrown here
    execute(program, inputs, device, holders, outputs);
    return;
  }
  std::lock_guard lock(queue.mutex);
  if (!queue.worker.joinable()) queue.worker = std::thread([this, device] { work(device); });
  queue.length.fetch_add(1, std::memory_order_release);
  queue.runs.push_back({&program, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}});
  queue.wake.notify_one();
}

void Scheduler::execute(const Program& program, std::span<const ArrayRef> inputs, int device, uint32_t holders,
                        std::span<const ArrayRef> outputs) {
  constexpr size_t kFew = 64;
  std::array<PJRT_Buffer*, kFew> few_in, few_out;
  std::vector<PJRT_Buffer*> many_in, many_out;
  PJRT_Buffer** in = few_in.data();
  PJRT_Buffer** out = few_out.data();
  if (inputs.size() > kFew) in = (many_in.resize(inputs.size()), many_in.data());
  if (size_t(program.output_count) > kFew) out = (many_out.resize(size_t(program.output_count)), many_out.data());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->ready()) inputs[i]->wait();
    in[i] = inputs[i]->buffer().get();
  }
  std::array<int64_t, kFew> few_kept;
  std::vector<int64_t> many_kept;
  int64_t* kept = few_kept.data();
  if (program.donated.size() > kFew) kept = (many_kept.resize(program.donated.size()), many_kept.data());
  size_t kept_count = 0;
  for (int i : program.donated)
    if (inputs[size_t(i)]->use_count() > holders) kept[kept_count++] = i;
  (**program.code)
      .execute({in, inputs.size()}, {out, size_t(program.output_count)}, client_.devices()[size_t(device)].handle,
               {kept, kept_count});
  executions_.fetch_add(1, std::memory_order_relaxed);
  log::line(log::Event::Execute, program.name, " on tpu:", device);
  const PJRT_Api* api = client_.api();
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i]->set(pjrt::Buffer(api, out[i]));
  if (mode() == EagerMode::Debug || !program.checks.empty()) {
    std::vector<pjrt::Buffer> checks;
    for (size_t i = outputs.size(); i < size_t(program.output_count); ++i) checks.emplace_back(api, out[i]);
    verify(program, outputs, checks);
  }
}

void Scheduler::verify(const Program& program, std::span<const ArrayRef> outputs, std::vector<pjrt::Buffer>& checks) {
  for (const ArrayRef& output : outputs) output->buffer().ready().await();
  for (size_t i = 0; i < checks.size(); ++i) {
    bool holds = false;
    checks[i].to_host(&holds, 1).await();
    check(holds, Code::Index, program.checks[i]);
  }
}

void Scheduler::work(int device) {
  Queue& queue = *queues_[size_t(device)];
  std::unique_lock lock(queue.mutex);
  while (true) {
    queue.wake.wait(lock, [&] { return queue.stop || !queue.runs.empty(); });
    if (queue.runs.empty()) return;
    Run run = std::move(queue.runs.front());
    queue.runs.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      run.program->code->executable();
      execute(*run.program, run.inputs, device, 1, run.outputs);
    } catch (...) {
      error = std::current_exception();
      for (const ArrayRef& output : run.outputs)
        if (output->pending()) output->set(error);
    }
    run = {};
    lock.lock();
    if (error && !queue.error) queue.error = error;
    if (queue.length.fetch_sub(1, std::memory_order_acq_rel) == 1) queue.idle.notify_all();
  }
}

bool Scheduler::idle(int device) { return queues_[size_t(device)]->length.load(std::memory_order_acquire) == 0; }

void Scheduler::drain(int device) {
  Queue& queue = *queues_[size_t(device)];
  std::unique_lock lock(queue.mutex);
  queue.idle.wait(lock, [&] { return queue.length.load() == 0; });
  if (std::exception_ptr error = std::exchange(queue.error, nullptr)) std::rethrow_exception(error);
}

void Scheduler::synchronize(int device) {
  drain(device);
  await_all(device);
}

}  // namespace tpu::graph
