"""A Trainer of transformers trains within bytes, and its losses are eager's."""

import itertools

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import acknap

transformers = pytest.importorskip("transformers")

STEPS = 20


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 2 * STEPS

    def __getitem__(self, index):
        tokens = torch.arange(64).mul(index % 5 + 1).remainder(101)
        return {"input_ids": tokens, "labels": tokens}


class Peak(transformers.TrainerCallback):
    """The most bytes above the start of a late step, as the CPU's allocator sees it."""

    def on_step_begin(self, _arguments, state, _control, **_):
        if state.global_step == STEPS - 2:
            activities = [ProfilerActivity.CPU]
            self.profiler = profile(activities=activities, profile_memory=True)
            self.profiler.__enter__()

    def on_pre_optimizer_step(self, _arguments, state, _control, **_):
        if state.global_step == STEPS - 2:
            self.profiler.__exit__(None, None, None)
            events = self.profiler.profiler.kineto_results.events()
            memory = [e for e in events if e.name() == "[memory]"]
            changes = sorted((e.start_ns(), e.nbytes()) for e in memory)
            self.bytes = max(itertools.accumulate(change for _, change in changes))


def train(folder, **options):
    """The losses and the peak of a training run from one state."""
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=101,
        hidden_size=64,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        attn_implementation="eager",
    )
    model = transformers.LlamaForCausalLM(config)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **options,
    )
    peak = Peak()
    trainer = transformers.Trainer(
        model, arguments, train_dataset=Tokens(), callbacks=[peak]
    )
    trainer.train()
    logs = [log["loss"] for log in trainer.state.log_history if "loss" in log]
    return logs, peak.bytes


def test_losses_and_peak(tmp_path, record_property):
    expected, _ = train(tmp_path / "eager")
    assert len(expected) == STEPS
    torch.compiler.reset()
    with acknap.budget(1, objective="peak"):
        _, most = train(tmp_path / "default", torch_compile=True)
    default = acknap.last_report().peak
    torch.compiler.reset()
    limit = int(0.65 * default)
    with acknap.budget(limit):
        found, peak = train(tmp_path / "bound", torch_compile_backend="inductor")
    report = acknap.last_report()
    for name, size in {
        "limit": limit,
        "planned": report.peak,
        "allocated": peak,
        "allocated without": most,
    }.items():
        record_property(name, size)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert report.kept
    assert peak <= limit < most
