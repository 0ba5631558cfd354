// Waiting for events.
#include "pjrt/event.h"

#include <memory>

namespace tpu::pjrt {
namespace {

struct Waiter {
  const PJRT_Api* api;
  Event::Done done;
};

}  // namespace

Event::~Event() {
  if (!event_) return;
  TPU_PJRT_ARGS(PJRT_Event_Destroy_Args, a);
  a.event = event_;
  if (PJRT_Error* error = api_->PJRT_Event_Destroy(&a)) translate(api_, error, "");
}

bool Event::is_ready() const {
  if (!event_) return true;
  TPU_PJRT_ARGS(PJRT_Event_IsReady_Args, a);
  a.event = event_;
  check(api_, api_->PJRT_Event_IsReady(&a), "event");
  return a.is_ready;
}

void Event::await() const {
  if (!event_) return;
  TPU_PJRT_ARGS(PJRT_Event_Await_Args, a);
  a.event = event_;
  check(api_, api_->PJRT_Event_Await(&a), "the device reported");
}

void Event::on_ready(Done done) const {
  if (!event_) return done(std::nullopt);
  // Owned by the callback, which may run before the call below returns.
  auto* waiter = new Waiter{api_, std::move(done)};
  TPU_PJRT_ARGS(PJRT_Event_OnReady_Args, a);
  a.event = event_;
  a.user_arg = waiter;
  a.callback = [](PJRT_Error* error, void* argument) {
    std::unique_ptr<Waiter> waiter(static_cast<Waiter*>(argument));
    std::optional<Error> failure;
    if (error) failure = translate(waiter->api, error, "the device reported");
    waiter->done(failure);
  };
  if (PJRT_Error* error = api_->PJRT_Event_OnReady(&a)) {
    delete waiter;
    throw translate(api_, error, "event");
  }
}

}  // namespace tpu::pjrt
