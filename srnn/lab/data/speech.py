"""Speech as sequences of spectral frames in decibels: read, resampled to 8 kHz, transformed once and cached."""

import hashlib
import json
import math
import os
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy
import platformdirs
import soundfile
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from srnn.errors import DataError
from srnn.lab.data.corpus import SPLITS, Utterance, twice, utterances
from srnn.lab.data.regular import regular
from srnn.lab.records.store import replacing

__all__ = ["Utterance", "frames", "load", "read", "utterances"]

Signal = NDArray[numpy.floating]
Features = dict[str, tuple[NDArray[numpy.float32], NDArray[numpy.int64]]]

RATE = 8000  # samples a second
WINDOW, HOP = 256, 128  # samples: 32 ms and 16 ms
BINS = WINDOW // 2 + 1
FLOOR = 1e-5  # added to the power, so that silence is -50 dB
RATES = range(4000, 192_001)  # of files, in Hz; and a bound on the length of the filter that resamples
LONGEST = 600  # seconds: a bound on what a header can make us allocate


def load(folder: Path, *, allow_shared_speakers: bool = False) -> Features:
    """Return for each split the frames of its utterances [total, 129] and offsets [U + 1].

    Utterance u is frames[offsets[u]:offsets[u+1]]. The arrays are mapped from the cache, so that processes on one machine share
    them. Changes to them stay private.
    """
    found = utterances(folder, allow_shared_speakers=allow_shared_speakers)
    key = fingerprint(folder, found)
    cache = Path(os.environ.get("SRNN_CACHE") or platformdirs.user_cache_path("srnn") / "features")
    path = cache / f"speech-{key[:32]}.safetensors"
    kept = _recall(path, key)
    if kept is None:
        computed = _compute(found)
        _keep(path, key, computed)
        kept = _recall(path, key) or computed
    return kept


def frames(x: Signal) -> NDArray[numpy.float32]:
    """Return 10 log10(1e-5 + |X|^2) of a signal [n] at 8 kHz: [ceil(n / 128) + 3, 129], in dB and at least -50.

    X is the Fourier transform of 256 samples under a periodic Hann window, every 128 samples. The signal is padded with zeros
    to a multiple of 128, then with 256 at both ends, so the first and the last frame are silence.
    """
    padded = numpy.zeros(2 * WINDOW + HOP * math.ceil(len(x) / HOP))
    padded[WINDOW : WINDOW + len(x)] = x
    hann = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(WINDOW) / WINDOW)
    X = numpy.fft.rfft(numpy.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP] * hann)
    return (10 * numpy.log10(FLOOR + X.real**2 + X.imag**2)).astype(numpy.float32)


def read(path: Path, samples: int | None = None) -> NDArray[numpy.float32]:
    """Return the signal of a mono file as 16-bit integers / 32768 at 8 kHz.

    Args:
        path: A WAV, FLAC or SPHERE file.
        samples: The number of samples that the file must have.

    Raises:
        DataError: The file is damaged, or has another length, rate or number of channels.
    """
    regular(path)
    try:
        with soundfile.SoundFile(path) as file:
            rate, length = file.samplerate, file.frames
            if file.channels != 1:
                raise DataError(f"{path} must have one channel, got {file.channels}. Mix or separate them first")
            if rate not in RATES or not 0 < length <= LONGEST * rate:
                limits = f"1 sample to {LONGEST} seconds at {RATES[0]} to {RATES[-1]} Hz"
                raise DataError(f"{path} must have {limits}, got {length} samples at {rate} Hz. Leave it out or cut it")
            x = file.read(dtype="float64") * 32768  # soundfile gives 16-bit integers / 32768: this is exact
    except soundfile.SoundFileError as error:
        raise DataError(
            f"{path} cannot be read, it is damaged or no WAV, FLAC or SPHERE file: {error}. Copy it again"
        ) from error
    expected = length if samples is None else samples
    if len(x) != expected:
        raise DataError(f"{path} is truncated or altered: expected {expected} samples, got {len(x)}. Copy it again")
    announced, size = _announced_bytes(path), path.stat().st_size
    if size < announced:
        raise DataError(f"{path} is truncated: its header announces {announced} bytes, got {size}. Copy it again")
    if not numpy.isfinite(x).all():
        raise DataError(f"{path} is altered: it holds samples that are not finite numbers. Copy it again")
    return (_to_int16(_resample(x, rate)) / numpy.float32(32768)).astype(numpy.float32)


def _resample(x: Signal, rate: int) -> Signal:
    if rate == RATE:
        return x
    from scipy.signal import resample_poly  # here, because the import takes a second and few files need it

    common = math.gcd(rate, RATE)
    return resample_poly(_to_int16(x), RATE // common, rate // common)


def _to_int16(x: Signal) -> NDArray[numpy.int16]:
    return numpy.clip(numpy.rint(x), -32768, 32767).astype(numpy.int16)


def _announced_bytes(path: Path) -> int:
    """Return the size of a RIFF or SPHERE file according to its header; libsndfile reads a shortened file without an error."""
    with path.open("rb") as file:
        head = file.read(1024)
    sphere = re.match(rb"NIST_1A\n *([0-9]{1,9})\n", head)
    count = re.search(rb"\nsample_count -i ([0-9]{1,12})\n", head)
    width = re.search(rb"\nsample_n_bytes -i ([1-8])\n", head)
    if sphere and count and width:
        return int(sphere[1]) + int(count[1]) * int(width[1])
    riff = int.from_bytes(head[4:8], "little") if head[:4] == b"RIFF" else 0
    return riff + 7 if riff < 2**31 - 1 else 0  # 8, less a byte of padding that some omit; a stream has 2^32 - 1


def fingerprint(folder: Path, found: list[Utterance] | None = None, *, allow_shared_speakers: bool = False) -> str:
    """Return a digest of all files, splits and settings that the features depend on.

    Raises:
        DataError: A file cannot be read, or the same bytes are in two splits.
    """
    found = utterances(folder, allow_shared_speakers=allow_shared_speakers) if found is None else found
    first: dict[str, Utterance] = {}
    settings = {"version": 1, "rate": RATE, "window": WINDOW, "hop": HOP, "floor": FLOOR}
    total = hashlib.sha256(json.dumps(settings).encode())
    for utterance in found:
        regular(utterance.path)
        try:
            content = utterance.path.read_bytes()
        except OSError as error:
            raise DataError(f"{utterance.path} cannot be read: {error.strerror or error}. Copy it again") from error
        name = utterance.path.relative_to(folder).as_posix()
        digest = hashlib.sha256(content).hexdigest()
        if (other := first.setdefault(digest, utterance)).split != utterance.split:
            raise DataError(f"{twice(folder, other, utterance)}, and it is in {other.split} and {utterance.split}: remove one")
        line = [utterance.split, name, utterance.samples, len(content), digest]
        total.update(json.dumps(line).encode())
    return total.hexdigest()


def _compute(found: list[Utterance]) -> Features:
    console = Console(stderr=True)
    features: Features = {}
    for split in SPLITS:
        chosen = [utterance for utterance in found if utterance.split == split]
        shown = track(chosen, f"{split} features", console=console, transient=True, disable=not console.is_terminal)
        parts = [frames(read(utterance.path, utterance.samples)) for utterance in shown]
        offsets = numpy.cumsum([0, *map(len, parts)], dtype=numpy.int64)
        features[split] = numpy.concatenate([*parts, numpy.empty((0, BINS), numpy.float32)]), offsets
    return features


def _keep(path: Path, key: str, features: Features) -> None:
    tensors: dict[str, NDArray[Any]] = {}
    for split, (rows, offsets) in features.items():
        tensors |= {f"{split}.frames": rows, f"{split}.offsets": offsets}
    sums = {name: str(zlib.crc32(tensor.data)) for name, tensor in tensors.items()}
    try:
        with replacing(path) as new:
            save_file(tensors, new, metadata={"key": key, **sums})
    except (OSError, SafetensorError) as error:  # works without a cache, too
        print(f"srnn: the features of the speech cannot be cached in {path.parent}: {error}", file=sys.stderr)


def _recall(path: Path, key: str) -> Features | None:
    """Return the cached features, or None if they are missing, damaged or of something else."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:  # "pt" maps the file, "np" would copy it
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None
    sums = {name: str(zlib.crc32(tensor.data)) for name, tensor in tensors.items()}
    if about != {"key": key, **sums}:
        return None
    return {split: (tensors[f"{split}.frames"], tensors[f"{split}.offsets"]) for split in SPLITS}
