"""The device as users of PyTorch meet it: placing, moving, saving, printing, streams, random state, modules."""

import copy
import io
import multiprocessing
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHIPS = 4


# ---- loading


def test_import_torch_is_enough(prints):
    code = "import torch; print(torch.accelerator.is_available(), torch.accelerator.device_count())"
    assert prints(code, TORCH_TPU_CPU_DEVICES=None) == "True 4"


def test_importing_loads_neither_the_plugin_nor_large_packages(prints):
    code = """import sys, torch
print(torch.tpu.is_initialized(), "pjrt_c_api_cpu_plugin" in open("/proc/self/maps").read(),
      "transformers" in sys.modules, "jax" in sys.modules)"""
    assert prints(code) == "False False False False"


def test_import_works_without_autoload(prints):
    code = "import torch_tpu, torch; print(torch.ones(2, device='tpu').sum().item())"
    assert prints(code, TORCH_DEVICE_BACKEND_AUTOLOAD=0) == "2.0"


def test_number_of_virtual_chips(prints):
    assert prints("import torch; print(torch.tpu.device_count())", TORCH_TPU_CPU_DEVICES=2) == "2"


def test_other_libraries_see_the_device():
    assert torch.backends.tpu.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    from transformers.utils import is_torch_tpu_available

    assert is_torch_tpu_available()


# ---- placing and moving


def test_ways_to_name_the_device():
    assert torch.device("tpu:2").index == 2
    assert torch.ones(1, device="tpu").device == torch.device("tpu:0")
    assert torch.ones(1, device="tpu:3").device == torch.device("tpu:3")
    assert torch.ones(1).tpu().device == torch.device("tpu:0")
    assert torch.ones(1).tpu(1).device == torch.device("tpu:1")
    assert torch.ones(1).to("tpu:2").is_tpu
    assert not torch.ones(1).is_tpu
    assert torch.ones(1, dtype=torch.int32).to("tpu", torch.bfloat16).dtype == torch.bfloat16


def test_device_contexts():
    with torch.device("tpu:1"):
        assert torch.zeros(2).device == torch.device("tpu:1")
        assert nn.Linear(2, 2).weight.device == torch.device("tpu:1")
    torch.set_default_device("tpu")
    try:
        assert torch.arange(3).device == torch.device("tpu:0")
    finally:
        torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"


def test_current_device():
    assert torch.tpu.current_device() == 0
    with torch.tpu.device(2):
        assert torch.tpu.current_device() == torch.accelerator.current_device_index() == 2
        assert torch.ones(1, device="tpu").device.index == 2
        with torch.tpu.device_of(torch.ones(1, device="tpu:1")):
            assert torch.tpu.current_device() == 1
        with torch.tpu.device_of(torch.ones(1)):
            assert torch.tpu.current_device() == 2
    assert torch.tpu.current_device() == 0
    torch.tpu.set_device("tpu:3")
    try:
        assert torch.tpu.current_device() == 3
    finally:
        torch.tpu.set_device(0)


def test_every_chip_computes_and_copies_to_every_other():
    for a in range(CHIPS):
        for b in range(CHIPS):
            x = torch.arange(6.0, device=f"tpu:{a}").reshape(2, 3)
            y = x.t().to(f"tpu:{b}") * 2
            assert y.device.index == b
            assert y.cpu().tolist() == [[0, 6], [2, 8], [4, 10]]
    x = torch.zeros(3, device="tpu:1")
    x.copy_(torch.ones(3, device="tpu:2"))
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8]
    + [torch.uint8, torch.bool, torch.complex64],
)
def test_round_trip(dtype):
    for size in ((), (0,), (3, 0, 2), (2, 3, 4)):
        x = (torch.rand(size) * 9).to(dtype)
        assert torch.equal(x.to("tpu").cpu(), x)
        assert torch.equal(x.to("tpu").clone().to("cpu", non_blocking=True), x)


def test_strided_tensors_travel():
    x = torch.arange(24.0).reshape(4, 6)
    for view in (x.t(), x[:, ::2], x[1:3], x[2].expand(5, 6), x[:, 1]):
        assert torch.equal(view.to("tpu").cpu(), view)
        target = torch.zeros(view.shape[::-1], device="tpu").t() if view.dim() == 2 else torch.zeros(4, device="tpu")
        assert torch.equal(target.copy_(view).cpu(), view)


def test_reading_values():
    x = torch.tensor([1.5, 2.5], device="tpu")
    assert x[1].item() == 2.5 and x.tolist() == [1.5, 2.5] and float(x.sum()) == 4.0 and bool(x[0] > 1)
    assert x.cpu().numpy().tolist() == [1.5, 2.5]
    with pytest.raises(TypeError, match=r"can't convert tpu:0 device type tensor to numpy\. Use Tensor\.cpu\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        x.item()
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(x)


def test_printing():
    assert repr(torch.tensor([1.0, 2.0], device="tpu:1")) == "tensor([1., 2.], device='tpu:1')"
    assert repr(torch.tensor(3, device="tpu")) == "tensor(3, device='tpu:0')"
    assert repr(torch.empty(0, 2, device="tpu")) == "tensor([], device='tpu:0', size=(0, 2))"
    assert "..." in repr(torch.zeros(100, 100, device="tpu"))
    parameter = nn.Parameter(torch.ones(1, dtype=torch.bfloat16, device="tpu"))
    assert (
        repr(parameter)
        == "Parameter containing:\ntensor([1.], device='tpu:0', dtype=torch.bfloat16, requires_grad=True)"
    )


def test_data_pointers_tell_storages_apart():
    x, y = torch.zeros(4, device="tpu"), torch.zeros(4, device="tpu")
    assert x.data_ptr() != y.data_ptr() != 0
    assert x[2:].data_ptr() == x.data_ptr() + 8
    assert x.view(2, 2).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


# ---- saving and copying


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def test_save_and_load():
    x = torch.randn(3, 4, device="tpu:1")
    for place, expected in [(None, "tpu:1"), ("cpu", "cpu"), ("tpu:3", "tpu:3"), ({"tpu:1": "tpu:2"}, "tpu:2")]:
        loaded = saved({"x": x, "row": x[1]}, map_location=place)
        assert loaded["x"].device == torch.device(expected)
        assert torch.equal(loaded["x"].cpu(), x.cpu())
        loaded["x"].zero_()
        assert loaded["row"].cpu().abs().sum() == 0
    assert saved(torch.ones(2), map_location="tpu").device == torch.device("tpu:0")


def test_pickle_and_deepcopy():
    x = torch.randn(3, device="tpu:2", requires_grad=True)
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert made.device == x.device and made.requires_grad and torch.equal(made.cpu(), x.cpu())
        assert made.data_ptr() != x.data_ptr()
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to("tpu")
    model[1].weight = model[0].weight
    made = copy.deepcopy(model)
    assert made[1].weight is made[0].weight is not model[0].weight


def test_safetensors(tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file, save_model

    values = {"a": torch.randn(3, 4), "b": torch.ones(2, dtype=torch.bfloat16), "c": torch.arange(3)}
    path = tmp_path / "x.safetensors"
    save_file({name: x.to("tpu") for name, x in values.items()}, path)
    for place in ("cpu", "tpu", "tpu:1"):
        loaded = load_file(path, device=place)
        assert all(x.device.type == place[:3] and torch.equal(x.cpu(), values[name]) for name, x in loaded.items())
    with safe_open(path, framework="pt", device="tpu:1") as file:
        assert file.get_tensor("a").device == torch.device("tpu:1")
        assert torch.equal(file.get_slice("a")[1:, :2].cpu(), values["a"][1:, :2])
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to("tpu")
    model[1].weight = model[0].weight
    save_model(model, tmp_path / "model.safetensors")


def test_data_loader_with_pinned_memory():
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    for workers in (0, 2):
        loader = DataLoader(data, batch_size=2, num_workers=workers, pin_memory=True)
        batches = [(x.to("tpu", non_blocking=True) * 2, y.to("tpu")) for x, y in loader]
        assert [y.tolist() for _, y in batches] == [[0, 1], [2, 3], [4, 5]]
        assert batches[2][0].tolist() == [[16, 18], [20, 22]]


# ---- modules and optimizers


def tied():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[1].weight = model[0].weight
    return model


@pytest.mark.parametrize("move", [lambda m: m.to("tpu"), lambda m: m.tpu(), lambda m: m.to("tpu", torch.bfloat16)])
def test_modules_keep_their_parameters(move):
    model = tied()
    before = list(model.parameters())
    move(model)
    assert model[1].weight is model[0].weight
    assert [id(p) for p in model.parameters()] == [id(p) for p in before]
    assert {x.device for x in model.state_dict().values()} == {torch.device("tpu:0")}
    model.cpu()
    assert model[1].weight is model[0].weight and model[0].weight.device.type == "cpu"
    assert not torch.__future__.get_swap_module_params_on_conversion()


def test_modules_spread_over_chips_come_together():
    model = nn.Sequential(nn.Linear(2, 2).to("tpu:1"), nn.Linear(2, 2), nn.Linear(2, 2).to("tpu:2"))
    before = [id(p) for p in model.parameters()]
    model.to("tpu:3")
    assert {p.device.index for p in model.parameters()} == {3}
    assert [id(p) for p in model.parameters()] == before


def test_an_optimizer_built_before_still_updates():
    model = tied()
    expected = copy.deepcopy(model)
    for m, place in ((model, "tpu"), (expected, "cpu")):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        m.to(place)
        m(torch.ones(4, 3, device=place) * torch.arange(4.0, device=place)[:, None]).pow(2).sum().backward()
        optimizer.step()
    for a, b in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)


def test_gradients_and_buffers_move_too():
    model = tied()
    model(torch.randn(4, 3)).sum().backward()
    gradient = model[0].weight.grad.clone()
    model.to("tpu")
    assert model[0].weight.grad.device.type == "tpu" and model[2].running_mean.device.type == "tpu"
    torch.testing.assert_close(model[0].weight.grad.cpu(), gradient)


def test_parametrized_modules_move():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    x = torch.randn(4, 3)
    expected = model(x).detach()
    torch.testing.assert_close(model.to("tpu")(x.to("tpu")).cpu(), expected)


def test_a_parameter_in_use_elsewhere_gives_a_warning():
    model = tied()
    loss = model(torch.randn(4, 3)).sum()
    with pytest.warns(UserWarning, match="build optimizers anew"):
        model.to("tpu")
    assert {p.device.type for p in model.parameters()} == {"tpu"}
    loss.backward()


def test_moves_between_other_devices_are_left_alone():
    model = tied()
    weight = model[0].weight
    model.to(torch.float64)
    assert model[0].weight is weight
    model.to("meta")
    assert model[0].weight is not weight


# ---- streams and events


def test_streams_and_events():
    stream = torch.tpu.Stream()
    assert stream.device == torch.device("tpu:0") and stream != torch.tpu.default_stream()
    assert torch.tpu.current_stream() == torch.tpu.default_stream() == torch.accelerator.current_stream()
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == stream
        start, end = torch.tpu.Event(enable_timing=True), torch.tpu.Event(enable_timing=True)
        start.record()
        x = torch.ones(8, device="tpu") + 1
        end.record()
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
    end.synchronize()
    assert start.query() and end.query() and start.elapsed_time(end) >= 0
    torch.tpu.current_stream().wait_event(end)
    stream.wait_stream(torch.tpu.current_stream())
    stream.synchronize()
    torch.tpu.synchronize()
    torch.accelerator.synchronize()
    assert x.tolist() == [2] * 8
    assert torch.tpu.Stream(device="tpu:2").device.index == 2
    assert isinstance(stream, torch.tpu.Stream) and isinstance(end, torch.tpu.Event)
    assert not isinstance(end, torch.tpu.Stream) and not isinstance(1, torch.tpu.Event)


# ---- random numbers


def test_seeds_give_the_same_numbers():
    def draw():
        return torch.cat([torch.rand(4, device="tpu"), torch.randn(4, device="tpu")]).cpu()

    torch.manual_seed(7)
    first = draw()
    second = draw()
    torch.manual_seed(7)
    assert torch.equal(draw(), first) and not torch.equal(first, second)
    torch.tpu.manual_seed(7)
    assert torch.equal(draw(), first)
    assert torch.tpu.initial_seed() == 7
    state = torch.tpu.get_rng_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8
    third = draw()
    torch.tpu.set_rng_state(state)
    assert torch.equal(draw(), third)
    assert torch.equal(second, third)


def test_chips_have_generators_of_their_own():
    torch.tpu.manual_seed_all(3)
    states = torch.tpu.get_rng_state_all()
    a = torch.rand(3, device="tpu:1").cpu()
    assert torch.equal(torch.tpu.get_rng_state(2), states[2])
    assert not torch.equal(torch.tpu.get_rng_state("tpu:1"), states[1])
    torch.tpu.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="tpu:1").cpu(), a)
    assert len(torch.tpu.default_generators) == CHIPS


def test_generators():
    generator = torch.Generator("tpu").manual_seed(5)
    a = torch.randn(3, device="tpu", generator=generator)
    b = torch.randn(3, device="tpu", generator=torch.Generator("tpu").manual_seed(5))
    assert torch.equal(a.cpu(), b.cpu()) and generator.initial_seed() == 5 and generator.device.type == "tpu"
    with pytest.raises(RuntimeError, match="tpu:0 and cpu"):
        torch.randn(3, generator=generator)


def test_fork_rng_puts_the_state_back():
    torch.manual_seed(1)
    state = torch.tpu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.rand(3, device="tpu")
    assert torch.equal(torch.tpu.get_rng_state(), state)


def test_a_seed_set_before_the_first_use_counts(prints):
    code = "import torch; torch.manual_seed(5); assert not torch.tpu.is_initialized(); " + (
        "print(torch.rand(2, device='tpu').tolist())"
    )
    again = "import torch; torch.zeros(1, device='tpu'); " + code.split("; ", 1)[1].replace("assert not", "")
    assert prints(code) == prints(again)


# ---- properties, memory, modes


def test_names_and_properties():
    assert torch.tpu.get_device_name() == "XLA CPU (virtual tpu)"
    p = torch.tpu.get_device_properties("tpu:1")
    assert (
        p.kind == "cpu"
        and p.id == 1
        and p.total_memory > 2**30
        and p.plugin.endswith(".so")
        and len(p.api_version) == 2
    )
    assert torch.tpu.is_bf16_supported() and torch.bfloat16 in torch.tpu.get_amp_supported_dtype()


def test_memory_is_counted():
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    torch.tpu.reset_peak_memory_stats()
    x = torch.ones(256, 1024, device="tpu")
    torch.tpu.synchronize()
    assert torch.tpu.memory_allocated() - before == 2**20 == torch.accelerator.memory_allocated() - before
    del x
    assert torch.tpu.memory_allocated() == before
    assert torch.tpu.max_memory_allocated() >= before + 2**20
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == before == torch.tpu.memory_reserved()
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total
    torch.tpu.empty_cache()
    torch.accelerator.empty_cache()
    assert set(torch.tpu.memory_stats()) >= {"allocated_bytes", "peak_bytes", "live_buffers"}


def test_modes():
    assert torch.tpu.current_eager_mode() == torch.tpu.EagerMode.STRICT
    with torch.tpu.eager_mode(torch.tpu.EagerMode.DEBUG):
        assert torch.tpu.current_eager_mode() == torch.tpu.EagerMode.DEBUG
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
    torch.tpu.set_eager_mode("debug")
    torch.tpu.set_eager_mode("strict")
    with pytest.raises(ValueError, match="'lazy' is not a valid EagerMode"):
        torch.tpu.set_eager_mode("lazy")


def test_counters():
    torch.tpu.reset_cache_stats()
    x = torch.ones(5, device="tpu")
    for _ in range(3):
        x = x * 3
    x.cpu()
    stats = torch.tpu.cache_stats()
    assert 3 <= stats["executions"] <= 4 and stats["compiles"] + stats["disk_hits"] <= 2 <= stats["programs"]


# ---- processes


def in_child(queue):
    try:
        torch.ones(1, device="tpu")
        queue.put("no error")
    except RuntimeError as error:
        queue.put(str(error))


def test_a_fork_after_use_gives_a_clear_error():
    torch.ones(1, device="tpu").cpu()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    text = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert "Cannot re-initialize tpu in forked subprocess" in text and "'spawn' start method" in text


def test_a_forked_child_may_work_on_the_cpu(prints):
    code = """import os, torch
torch.ones(1, device="tpu").cpu()
pid = os.fork()
if pid == 0:
    torch.manual_seed(1)
    os._exit(0 if torch.rand(3).sum() > 0 and not torch.tpu.is_initialized() else 1)
print(os.waitpid(pid, 0)[1])"""
    assert prints(code) == "0"
