import pytest
import torch

from trainer.loop.perf import data_sheet_flops, peak_flops


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H200", 989),
        ("NVIDIA H20", 148),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362),
        ("NVIDIA A10G", 70),
        ("NVIDIA GeForce RTX 4090", 165),
    ],
)
def test_a_gpu_is_known_by_its_name(name, teraflops):
    assert data_sheet_flops(name) == teraflops * 1e12


def test_a_gpu_that_is_not_listed_is_measured():
    assert data_sheet_flops("Somebody's Accelerator") is None


def test_a_cpu_is_measured():
    assert 1e8 < peak_flops(torch.device("cpu"), torch.float32) < 1e15
