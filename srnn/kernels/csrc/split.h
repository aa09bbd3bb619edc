// A scan of a few long sequences, split over threads in time.
//
// Every sequence is cut into pieces. All pieces run at once, each but the first from a guess: zeros instead of the state before
// it. Then, piece by piece, each runs again from the true state until that is, bit for bit, what the first run had at the same
// step. What follows is the same in both runs, because a step depends on nothing but the state and b. A bounded activation gets
// there: a unit at a bound forgets what came before. The results are therefore those of one run from beginning to end, to the
// bit, for any number of pieces. If nothing is ever forgotten, the second runs are sequential, and all first runs were in vain.
// So a probe comes first: a small part of the second piece runs from zeros and from a state of the first piece. If the two runs
// do not meet, all pieces run one after the other, each once.
//
// The backward pass does the same from the end: the derivative of a unit at a bound is 0, whatever later steps pass back.
//
// States are compared at the ends of segments, so the kernels need not know of any of this: a segment is a short sequence. Each
// segment of a piece is twice as long as the one before. So there are few, and a second run ends before it has taken twice as
// many steps as necessary.
#pragma once

#include <cstdio>

#include "plan.h"

namespace srnn {

struct Split {
  int64_t pieces, segment;  // of each sequence, and the steps of the first segment of a piece
  int64_t probe;            // steps; 0 for none
};
constexpr int64_t kPiece = 1 << 15;   // steps: a shorter piece gains less than starting threads and second runs may cost
constexpr int64_t kSegment = 1 << 9;  // steps: some microseconds, compared with which a call of the kernel is cheap
constexpr int64_t kProbe = 32;        // of so many parts of a piece one is probed, three times: that costs little

// How N sequences are split: into one piece if their number alone, or their length, makes more pieces useless. There are never
// more pieces than threads, or the second runs could take longer than one thread needs for everything. Half precision is not
// split, since the state between two segments is in the type of the tensors, nor is tanh, which never forgets.
// $SRNN_SPLIT=pieces,segment or pieces,segment,probe splits short sequences too, so that small cases can test it.
inline Split split_of(int64_t N, int64_t T, Type type, bool forgets) {
  if (bytes_of(type) == 2 || !forgets || N == 0) return {1, kSegment, 0};
  long pieces, segment, probe = 0;
  const char* const asked = std::getenv("SRNN_SPLIT");
  if (asked && std::sscanf(asked, "%ld,%ld,%ld", &pieces, &segment, &probe) >= 2 && pieces > 0 && segment > 0)
    return {pieces, segment, probe};
  const int64_t threads = torch::stable::get_num_threads();
  const int64_t most = std::max<int64_t>(1, std::min(threads / N, T / kPiece));
  return {most, kSegment, T / most / kProbe};
}

// Steps k0 + 1 to k1 of sequence n, which are `count` places of [T] from t0 on. If `cut`, no state passes into them.
struct Segment {
  int64_t n, k0, k1, t0, count;
  bool cut;
};

// The segments of sequences n0 to n1 - 1, piece by piece, in the order in which they run: from the last step if `back`.
struct Segments {
  std::vector<Segment> all;
  std::vector<int64_t> first;  // the first segment of each piece, and the number of all

  Segments(const Sequence& s, int64_t n0, int64_t n1, const Split& split, bool back) {
    for (int64_t piece = n0 * split.pieces; piece < n1 * split.pieces; ++piece) {
      const int64_t n = piece / split.pieces, p = piece % split.pieces, length = s.length_of(n);
      const int64_t end = (p + 1) * length / split.pieces;
      first.push_back(all.size());
      int64_t count, most = split.segment;
      for (int64_t a = p * length / split.pieces; a < end; a += count, most *= 2) {
        count = std::min(most, end - a);
        const int64_t k0 = back ? length - a - count : a, k1 = k0 + count;
        const bool cut = a > 0 && s.is_cut(n, length, (back ? k1 : k0) + 1);
        all.push_back({n, k0, k1, s.reverse ? length - k1 : k0, count, cut});
      }
    }
    first.push_back(all.size());
  }
};

// Calls `run(i, from, to)` for segments i, as often as needed: it writes the results of a segment, and its last state [H] to
// `to`. `start` and `end` are the states [N, H] before and after all segments of the sequences from n0 on, `size` the bytes of
// one.
template <class Run>
void run_split(const Segments& segments, const Split& split, int64_t n0, size_t size, const void* start, void* end,
               const Run& run) {
  const int64_t pieces = segments.first.size() - 1;
  std::vector<char> states(segments.all.size() * size);
  const std::vector<char> zeros(size);
  // Returns the state after piece q.
  const auto run_piece = [&](int64_t q, const char* state, bool again) {
    std::vector<char> second(size);
    bool differs = true;
    for (int64_t i = segments.first[q]; i < segments.first[q + 1]; ++i) {
      char* const to = states.data() + i * size;
      if (differs) run(i, segments.all[i].cut ? zeros.data() : state, again ? second.data() : to);
      if (differs && again) {
        differs = std::memcmp(second.data(), to, size) != 0;
        std::memcpy(to, second.data(), size);
      }
      state = to;
    }
    return state;
  };
  const auto start_of = [&](int64_t q) { return static_cast<const char*>(start) + (n0 + q / split.pieces) * size; };
  // Whether piece q ends up with the same states from zeros and from a state of the piece before.
  const auto forgets = [&](int64_t q) {
    const auto pass = [&](int64_t i, std::vector<char>& state) {
      run(i, segments.all[i].cut ? zeros.data() : state.data(), state.data());
    };
    const int64_t before = segments.first[q - 1], here = segments.first[q];
    const int64_t most = std::min(here - before, segments.first[q + 1] - here);
    std::vector<char> state(start_of(q), start_of(q) + size), guess(size);
    int64_t count = 0;
    for (int64_t steps = 0; count < most && steps < split.probe; ++count) {
      steps += segments.all[here + count].count;
      pass(before + count, state);
    }
    for (int64_t i = here; i < here + count; ++i) pass(i, state), pass(i, guess);
    return state == guess;
  };
  const int64_t sequences = pieces / split.pieces;
  std::vector<char> worth_it(sequences, true);
  if (split.probe && split.pieces > 1)
    parallel(sequences, [&](int64_t m0, int64_t m1) {
      for (int64_t m = m0; m < m1; ++m) worth_it[m] = forgets(m * split.pieces + 1);
    });
  parallel(pieces, [&](int64_t q0, int64_t q1) {
    for (int64_t q = q0; q < q1; ++q)
      if (q % split.pieces == 0) run_piece(q, start_of(q), false);
      else if (worth_it[q / split.pieces]) run_piece(q, zeros.data(), false);
  });
  parallel(sequences, [&](int64_t m0, int64_t m1) {
    for (int64_t m = m0; m < m1; ++m) {
      int64_t q = m * split.pieces;
      const char* state = start_of(q);
      if (segments.first[q + 1] > segments.first[q]) state = states.data() + (segments.first[q + 1] - 1) * size;
      for (++q; q < (m + 1) * split.pieces; ++q) state = run_piece(q, state, worth_it[m]);
      std::memcpy(static_cast<char*>(end) + (n0 + m) * size, state, size);
    }
  });
}

// `count` places of [T] of sequence n from t0 on, as a sequence of its own.
inline Sequence part_of(const Sequence& s, int64_t n, int64_t t0, int64_t count) {
  Sequence part = s;
  part.N = 1;
  part.T = count;
  part.lengths = nullptr;
  if (s.reset) part.reset += n * s.T + t0;
  return part;
}
// p + count elements of `size` bytes; null stays null.
template <class P> P* moved(P* p, int64_t count, size_t size) {
  typedef std::conditional_t<std::is_const_v<P>, const char, char> byte;
  return p ? static_cast<byte*>(p) + count * static_cast<int64_t>(size) : p;
}
inline Forward part_of(const Forward& f, int64_t n, int64_t t0, int64_t count, size_t size) {
  const Sequence& s = f.sequence;
  const int64_t row = n * s.T + t0, of_chunk = row - f.gate.first * s.T;
  Forward part = f;
  part.sequence = part_of(s, n, t0, count);
  if (f.input.ids) part.input.ids += row;
  else part.input.base = moved(f.input.base, n * f.input.stride_n + t0 * f.input.stride_t, size);
  part.gate.first = 0;
  part.gate.r = moved(f.gate.r, of_chunk * s.H, size);
  part.gate.q = moved(f.gate.q, of_chunk * s.H, size);
  part.gate.z = moved(f.gate.z, row * f.gate.K, size);
  part.gate.x = moved(f.gate.x, row * f.gate.C, size);
  part.output = moved(f.output, row * s.H, size);
  if (f.bits) part.bits += row * groups_of(s.H) * 8;
  return part;
}
inline Backward part_of(const Backward& f, int64_t n, int64_t t0, int64_t count, size_t size) {
  const Sequence& s = f.sequence;
  const int64_t row = n * s.T + t0;
  Backward part = f;
  part.sequence = part_of(s, n, t0, count);
  part.grad = moved(f.grad, n * f.grad_stride_n + t0 * f.grad_stride_t, size);
  if (f.bits) part.bits += row * groups_of(s.H) * 8;
  part.db = moved(f.db, row * s.H, size);
  return part;
}

// Clears what the kernel `run` writes behind the end of each row: the results of a row of no steps.
template <class Args, class Run> void clear_rests(const Args& f, int64_t n0, int64_t n1, size_t size, const Run& run) {
  static const int64_t none = 0;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t length = f.sequence.length_of(n), rest = f.sequence.T - length;
    if (rest == 0) continue;
    std::vector<char> state(f.sequence.H * size);
    std::vector<int32_t> last_zero(f.sequence.H);
    Args part = part_of(f, n, length, rest, size);
    part.sequence.lengths = &none;
    run(part, state.data(), state.data(), last_zero.data());
  }
}

// Runs a forward pass for sequences n0 to n1 - 1.
inline void run_forward(const Kernels& kernels, const Forward& f, int64_t n0, int64_t n1, Type type) {
  const Sequence& s = f.sequence;
  const Split split = split_of(n1 - n0, s.T, type, is_bounded(f.activation));
  if (split.pieces == 1) return parallel(n1 - n0, [&](int64_t a, int64_t b) { kernels.forward(f, n0 + a, n0 + b); });
  const Segments segments(s, n0, n1, split, false);
  const size_t size = bytes_of(type);
  const bool final = f.wanted == Wanted::last_state;
  std::vector<int32_t> last_zeros(final ? segments.all.size() * s.H : 0);  // within each segment, or 0
  const auto run = [&](Forward& part, const void* from, void* to, int32_t* last_zero) {
    part.h0 = from;
    part.h_n = to;
    part.last_zero = last_zero;
    kernels.forward(part, 0, 1);
  };
  run_split(segments, split, n0, s.H * size, f.h0, f.h_n, [&](int64_t i, const void* from, void* to) {
    const Segment& at = segments.all[i];
    Forward part = part_of(f, at.n, at.t0, at.count, size);
    run(part, from, to, final ? last_zeros.data() + i * s.H : nullptr);
  });
  if (!final) return clear_rests(f, n0, n1, size, run);
  const Orbits orbits(s);
  std::fill_n(f.last_zero + n0 * s.H, (n1 - n0) * s.H, 0);
  std::vector<int32_t> before(s.H);
  for (size_t i = 0; i < segments.all.size(); ++i) {
    const Segment& at = segments.all[i];
    int32_t* const zero = f.last_zero + at.n * s.H;
    std::copy_n(zero, s.H, before.begin());
    for (int64_t u = 0; u < s.H; ++u) {
      const int32_t inside = last_zeros[i * s.H + u];
      zero[u] = inside || at.cut ? at.k0 + inside : before[orbits.unit(u, at.count)];
    }
  }
}

// Runs a backward pass for all sequences, whose sink is dense.
inline void run_backward(const Kernels& kernels, const Backward& f, Type type) {
  const Sequence& s = f.sequence;
  const Split split = split_of(s.N, s.T, type, f.kept != Kept::states);
  if (split.pieces == 1) return parallel(s.N, [&](int64_t n0, int64_t n1) { kernels.backward(f, n0, n1); });
  const Segments segments(s, 0, s.N, split, true);
  const Orbits orbits(s);
  const size_t size = bytes_of(type);
  const auto run = [&](Backward& part, const void* from, void* to, const int32_t* last_zero) {
    part.grad_n = from;
    part.dh0 = to;
    part.last_zero = last_zero;
    kernels.backward(part, 0, 1);
  };
  run_split(segments, split, 0, s.H * size, f.grad_n, f.dh0, [&](int64_t i, const void* from, void* to) {
    const Segment& at = segments.all[i];
    std::vector<int32_t> last_zero(f.kept == Kept::last_zero ? s.H : 0);  // of the units where their paths are at step k1
    for (size_t u = 0; u < last_zero.size(); ++u)
      last_zero[u] = f.last_zero[at.n * s.H + orbits.unit(u, at.k1 - s.length_of(at.n))] - at.k0;
    Backward part = part_of(f, at.n, at.t0, at.count, size);
    run(part, from, to, last_zero.data());
  });
  clear_rests(f, 0, s.N, size, run);
}

}  // namespace srnn
