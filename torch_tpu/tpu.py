"""torch.tpu: the device's side of PyTorch, named as on other devices."""

import contextlib
import enum

import torch

from torch_tpu import _C

__all__ = [
    "DeviceProperties",
    "EagerMode",
    "Event",
    "Stream",
    "cache_stats",
    "current_device",
    "current_eager_mode",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "fallback_stats",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_cache_stats",
    "reset_fallback_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


# ---- devices


def _index(device, optional=True):
    """The chip that a device, an index or a string names; None is the current one."""
    if device is None:
        if not optional:
            raise ValueError("expected a tpu device, got None")
        return current_device()
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device):
        raise TypeError(f"expected a device, an index or a string, got {type(device).__name__}")
    if device.type != "tpu":
        raise ValueError(f"expected a tpu device, got {device}")
    return current_device() if device.index is None else device.index


def is_available() -> bool:
    """Whether a plugin was found and has at least one device. Never raises."""
    return device_count() > 0


def device_count() -> int:
    """Number of chips this process can use; 0 where there are none. The CPU plugin has TORCH_TPU_CPU_DEVICES."""
    return _C.device_count()


def is_initialized() -> bool:
    """Whether the device has been used in this process."""
    return _C.is_initialized() and not _C.in_bad_fork()


def init() -> None:
    """Loads the plugin. The first use of the device does it too. Raises RuntimeError where that fails."""
    _C.initialize()


def _is_in_bad_fork() -> bool:
    return _C.in_bad_fork()


def current_device() -> int:
    """Index of the chip that "tpu" without an index means in this thread."""
    return _C.current_device()


def set_device(device) -> None:
    """Makes a chip the current one of this thread. Raises RuntimeError for an index out of range."""
    index = _index(device)
    if index >= 0:
        _C.set_device(index)


class device:
    """Context manager: makes a chip the current one. A negative index changes nothing."""

    def __init__(self, device):
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _C.exchange_device(self.idx)

    def __exit__(self, *exception):
        _C.exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: makes the chip of a tensor or storage the current one; others change nothing."""

    def __init__(self, obj):
        super().__init__(obj.device.index if obj.device.type == "tpu" else -1)


class DeviceProperties:
    """What is known of a chip: name, platform, kind, id, total_memory (bytes), plugin (path), api_version."""

    def __init__(self, values):
        self.__dict__.update(values)

    def __repr__(self):
        return "DeviceProperties(" + ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items()) + ")"


def get_device_properties(device=None) -> DeviceProperties:
    """Properties of a chip, the current one by default."""
    return DeviceProperties(_C.device_properties(_index(device)))


def get_device_name(device=None) -> str:
    """Name of a chip. On a machine without a TPU it says so: "XLA CPU (virtual tpu)"."""
    p = _C.device_properties(_index(device))
    return p["name"] if p["kind"] != "cpu" else "XLA CPU (virtual tpu)"


def get_device_capability(device=None) -> dict:
    """The properties of a chip as a dict."""
    return _C.device_properties(_index(device))


def synchronize(device=None) -> None:
    """Waits for all work of a chip. Raises what went wrong since the last call."""
    _C.synchronize(_index(device))


# ---- streams and events: a chip does its work in the order in which it was asked for


class _Made(type):
    """For names that make objects of PyTorch's own classes: isinstance() means such an object of a tpu device."""

    def __instancecheck__(cls, thing):
        return isinstance(thing, cls._base) and thing.device is not None and thing.device.type == "tpu"


class Stream(metaclass=_Made):
    """A name for work on a chip: a torch.Stream. All work of one chip runs in order, whatever the stream."""

    _base = torch.Stream

    def __new__(cls, device=None, priority=0, **identity):
        if identity:
            return torch.Stream(**identity)
        return torch.Stream(torch.device("tpu", _index(device)), priority=priority)


class Event(metaclass=_Made):
    """The end of the work that was asked of a chip before record(): a torch.Event."""

    _base = torch.Event

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


def current_stream(device=None) -> torch.Stream:
    """The stream that is current on a chip."""
    return torch._C._accelerator_getStream(_index(device))


def default_stream(device=None) -> torch.Stream:
    """The stream that is current on a chip at the start."""
    kind = int(torch._C._autograd.DeviceType.PrivateUse1)
    return torch.Stream(stream_id=0, device_index=_index(device), device_type=kind)


def set_stream(stream) -> None:
    """Makes a stream the current one of its chip; None changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


@contextlib.contextmanager
def stream(stream):
    """Context manager: makes a stream the current one of its chip; None changes nothing."""
    if stream is None:
        yield
        return
    before = current_stream(stream.device)
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(before)


# ---- random numbers


class _Generators:
    """The default generator of each chip, as a sequence."""

    def __len__(self):
        return device_count()

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(_C.default_generator(i) for i in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"tpu has {len(self)} devices, got index {index}")
        return _C.default_generator(index % len(self))

    def __iter__(self):
        return (self[i] for i in range(len(self)))


default_generators = _Generators()


def _get_generator(device):
    return default_generators[_index(device)]


def manual_seed(seed: int) -> None:
    """Seeds the current chip's generator."""
    default_generators[current_device()].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all chips, as torch.manual_seed does. Loads no plugin: the seed is kept until then."""
    if not _C.in_bad_fork():
        _C.seed_defaults(int(seed) & 0xFFFFFFFFFFFFFFFF)


def seed() -> None:
    """Gives the current chip's generator a seed from the system."""
    default_generators[current_device()].seed()


def seed_all() -> None:
    """Gives the generators of all chips one seed from the system."""
    manual_seed_all(default_generators[0].seed())


def initial_seed() -> int:
    """The seed of the current chip's generator."""
    return default_generators[current_device()].initial_seed()


def get_rng_state(device="tpu") -> torch.Tensor:
    """State of a chip's generator: a uint8 tensor on the CPU."""
    return default_generators[_index(device)].get_state()


def get_rng_state_all() -> list:
    """States of the generators of all chips."""
    return [g.get_state() for g in default_generators]


def set_rng_state(new_state: torch.Tensor, device="tpu") -> None:
    """Puts a chip's generator back into a state that get_rng_state gave."""
    default_generators[_index(device)].set_state(new_state)


def set_rng_state_all(new_states) -> None:
    """Puts the generators of all chips back into states that get_rng_state_all gave."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


# ---- memory, in bytes


def memory_stats(device=None) -> dict:
    """allocated_bytes, peak_bytes, live_buffers and total_allocations of a chip."""
    return _C.memory_stats(_index(device))


def memory_allocated(device=None) -> int:
    """Bytes of the arrays alive on a chip."""
    return memory_stats(device)["allocated_bytes"]


def max_memory_allocated(device=None) -> int:
    """The most that memory_allocated was since the start or the last reset_peak_memory_stats."""
    return memory_stats(device)["peak_bytes"]


def memory_reserved(device=None) -> int:
    """The same as memory_allocated: nothing is held back."""
    return memory_allocated(device)


def max_memory_reserved(device=None) -> int:
    """The same as max_memory_allocated."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device=None) -> None:
    """Starts max_memory_allocated anew."""
    _C.reset_peak_memory_stats(_index(device))


def mem_get_info(device=None) -> tuple:
    """(free, total) bytes of a chip; of the machine, where chips are virtual."""
    return _C.mem_get_info(_index(device))


def empty_cache() -> None:
    """Forgets the numbers kept on the chips. Memory of tensors is given back at once and needs no call."""
    _C.empty_cache()


# ---- modes and counters


class EagerMode(enum.Enum):
    """How ops that are not compiled run: STRICT dispatches each at once and does not wait; DEBUG waits after each, so
    that errors show at their line, and checks indices."""

    STRICT = "strict"
    DEBUG = "debug"


def set_eager_mode(mode) -> None:
    """Sets the mode for the whole process: an EagerMode or its value."""
    _C.set_eager_mode(EagerMode(mode).value)


def current_eager_mode() -> EagerMode:
    """The mode that is set."""
    return EagerMode(_C.eager_mode())


@contextlib.contextmanager
def eager_mode(mode):
    """Context manager: sets the mode, and the old one again at the end."""
    before = _C.eager_mode()
    set_eager_mode(mode)
    try:
        yield
    finally:
        _C.set_eager_mode(before)


def cache_stats() -> dict:
    """Counts since the start or the last reset: programs compiled and the seconds it took (compiles, compile_seconds),
    loaded from the cache directory (disk_hits), shared by calls that differ (memory_hits), and run (executions); how
    many are kept in memory (programs); what the directory holds (disk)."""
    return _C.stats()


def reset_cache_stats() -> None:
    """Starts the counts of cache_stats anew."""
    _C.reset_stats()


def fallback_stats() -> dict:
    """How often each op ran on the CPU for want of a lowering: {op: count}."""
    return _C.fallback_stats()


def reset_fallback_stats() -> None:
    """Starts the counts of fallback_stats anew."""
    _C.reset_fallback_stats()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every plugin computes in bfloat16."""
    return True


def get_amp_supported_dtype() -> list:
    """The dtypes that autocast can use."""
    return [torch.bfloat16, torch.float16]
