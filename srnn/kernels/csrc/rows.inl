// The scans row by row: one step in time after the other, with the whole state in L1. Memory is read and written in order.
//
// One call works through a range of sequences. Sequences do not touch each other, so any split over threads gives the same
// bits. The bits of a group of 64 units are eight bytes: unit 8 k + l is bit k of byte l, so packing needs no shuffles.

// A row of units in the state's type. Beyond each end it repeats the other end.
template <class E> struct Row {
  typedef E vec __attribute__((vector_size(8 * sizeof(E))));
  E* at;
  explicit Row(E* memory) : at(memory + kLanes) {}
  static int64_t size(int64_t H) { return (H + kLanes - 1) / kLanes * kLanes + 2 * kLanes; }
  INLINE void close(int64_t H) {
    const vec first = read<vec>(at), last = read<vec>(at + H - 8);
    write(at + H, first);
    write(at - 8, last);
  }
};

// Eight elements from p + offset on, offset -1, 0 or 1.
template <class E> INLINE auto slide(const E* p, int64_t offset) { return read<typename Row<E>::vec>(p + offset); }

// Fetches the 64 elements at p + offset, which need not exist. The processor does not foresee rows that are read from the last
// to the first: without this, a step back in time waits for memory.
template <class T> INLINE void prefetch(const T* p, int64_t offset) {
  const uintptr_t address = (uintptr_t)p + offset * (int64_t)sizeof(T);
  for (int64_t line = 0; line < kLanes * (int64_t)sizeof(T); line += 64) __builtin_prefetch((const void*)(address + line));
}

// What the units from i on take from the step before: a place in the row, for `slide`, or a gathered copy.
template <class E> INLINE const E* taken(const E* row, int64_t i, int64_t w, Link link, const int32_t* index, E* buffer) {
  if (link != Link::gather) return row + i;
  for (int64_t j = 0; j < w; ++j) buffer[j] = row[index[i + j]];
  return buffer;
}

// b of a group of units, read from memory.
template <class T> struct Plain {
  const T* row;
  const T* p;
  T tail[kLanes];
  Plain(const Forward&, int64_t) {}
  INLINE void start(const Forward& f, int64_t n, int64_t t) {
    row = static_cast<const T*>(f.input.base);
    row += f.input.ids ? f.input.ids[n * f.sequence.T + t] * f.input.stride_t : n * f.input.stride_n + t * f.input.stride_t;
  }
  INLINE void group(int64_t i, int64_t w) { p = w == kLanes ? row + i : padded(row + i, w, tail); }
  INLINE auto b(int64_t j) { return load(p + j); }
};

// b of a group of units, from the products r and q of the gate: loaded, or computed here from few columns.
template <class T, bool few> struct Gated {
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  const bool open_gate;  // no gate: the second factor is 1
  const int64_t K, C;    // columns of z and x, or 0: the product is loaded
  const int64_t width;   // of a padded row of constants
  Scratch<S> constants;  // c, e, the columns of W and those of U, each padded
  vec z[few ? kFewHidden : 1], x[few ? kFew : 1];
  T *r_row, *q_row;
  const T *r, *q;
  const S *c, *e, *w, *u;
  T r_tail[kLanes], q_tail[kLanes];
  template <class A>
  Gated(const A& a, int64_t H)
      : open_gate(a.gate.made == Made::without_gate), K(few ? a.gate.K : 0), C(few ? a.gate.C : 0), width(Row<S>::size(H)),
        constants((2 + K + C) * width) {
    if (a.gate.bias) load_units(constants.memory, static_cast<const T*>(a.gate.bias), H);
    if (a.gate.gate_bias) load_units(constants.memory + width, static_cast<const T*>(a.gate.gate_bias), H);
    turn(constants.memory + 2 * width, a.gate.weight, K, H);
    turn(constants.memory + (2 + K) * width, a.gate.gate_weight, C, H);
  }
  void turn(S* to, const void* weight, int64_t columns, int64_t H) {
    for (int64_t i = 0; i < columns * H; ++i)
      load_units(to + i % columns * width + i / columns, static_cast<const T*>(weight) + i, 1);
  }
  INLINE bool makes_r() const { return few && K; }
  INLINE bool makes_q() const { return few && C; }
  template <class A> INLINE void start(const A& a, int64_t n, int64_t t) {
    const int64_t step = n * a.sequence.T + t, row = step - a.gate.first * a.sequence.T;
    if (!makes_r()) r_row = static_cast<T*>(a.gate.r) + row * a.sequence.H;
    if (!makes_q() && !open_gate) q_row = static_cast<T*>(a.gate.q) + row * a.sequence.H;
    if constexpr (few) {
      for (int64_t l = 0; l < K; ++l) z[l] = vec{} + static_cast<const T*>(a.gate.z)[step * K + l];
      for (int64_t l = 0; l < C; ++l) x[l] = vec{} + static_cast<const T*>(a.gate.x)[step * C + l];
    }
  }
  INLINE void group(int64_t i, int64_t count) {
    if (!makes_r()) r = count == kLanes ? r_row + i : padded(r_row + i, count, r_tail);
    if (!makes_q() && !open_gate) q = count == kLanes ? q_row + i : padded(q_row + i, count, q_tail);
    c = constants.memory + i;
    e = c + width;
    w = e + width;
    u = w + K * width;
  }
  INLINE vec value(int64_t j) {
    vec y = load(c + j);
    if (makes_r())
      for (int64_t l = 0; l < K; ++l) y = z[l] * load(w + l * width + j) + y;
    else y = load(r + j) + y;
    return y;
  }
  INLINE vec open(int64_t j) {
    vec y = load(e + j);
    if (makes_q())
      for (int64_t l = 0; l < C; ++l) y = x[l] * load(u + l * width + j) + y;
    else y += load(q + j);
    return sigmoid(y);
  }
  INLINE vec b(int64_t j) { return open_gate ? value(j) : value(j) * open(j); }
};

template <class E> INLINE void fill(Row<E>& row, int64_t H, E value) {
  for (int64_t i = -8; i < H + 8; ++i) row.at[i] = value;
}

template <class T, class Source, Activation activation, Wanted wanted>
void forward_rows(const Forward& f, int64_t n0, int64_t n1) {
  constexpr bool final = wanted == Wanted::last_state, has_bits = is_bounded(activation) && !final;
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  typedef typename Wide<S>::mask mask;
  typedef typename Wide<S>::integer integer;
  const Sequence& s = f.sequence;
  const int64_t H = s.H, groups = groups_of(H), size = Row<S>::size(H);
  Scratch<S> state_memory(2 * size);
  Scratch<integer> zero_memory(final ? 2 * size : 0);
  Row<S> old(state_memory.memory), now(state_memory.memory + size);
  Row<integer> old_zero(zero_memory.memory), zero(zero_memory.memory + (final ? size : 0));
  S taken_h[kLanes] = {};
  integer taken_zero[kLanes] = {};
  Source source(f, H);
  const int64_t offset = s.link == Link::shift ? 1 : 0;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t length = s.length_of(n);
    load_units(old.at, static_cast<const T*>(f.h0) + n * H, H);
    old.close(H);
    if (final) fill(old_zero, H, integer{0});
    for (int64_t k = 1; k <= length; ++k) {
      const int64_t t = s.reverse ? length - k : k - 1;
      if (s.is_cut(n, length, k)) {
        fill(old, H, S{0});
        if (final) fill(old_zero, H, (integer)(k - 1));
      }
      T* out = final ? nullptr : static_cast<T*>(f.output) + (n * s.T + t) * H;
      source.start(f, n, t);
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t i = g * kLanes, w = H - i < kLanes ? H - i : kLanes;
        const S* h = taken(old.at, i, w, s.link, s.source, taken_h);
        const integer* z = final ? taken(old_zero.at, i, w, s.link, s.source, taken_zero) : nullptr;
        source.group(i, w);
        mask dead_bits = {};
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          vec v = slide(h + 8 * j, offset) + source.b(8 * j);
          if constexpr (!is_bounded(activation)) {
            for (int l = 0; l < 8; ++l) v[l] = activated<S>(activation, v[l]);
          } else {
            const mask dead = bounded<activation>(v);
            if (final) {
              const mask before = slide(z + 8 * j, offset);
              write(zero.at + i + 8 * j, (mask)((dead & (integer)k) | (~dead & before)));
            } else {
              dead_bits |= dead & (integer)(1 << j);
            }
          }
          store(now.at + i + 8 * j, v);
          if (!final && w == kLanes) store(out + i + 8 * j, v);
        }
        if (!final && w != kLanes) store_units(out + i, now.at + i, w);
        if (has_bits) {
          if (w != kLanes)
            for (int l = 0; l < 8; ++l)
              for (int j = 0; j < 8; ++j)
                if (8 * j + l >= w) dead_bits[l] |= (integer)(1 << j);
          write(f.bits + ((n * s.T + t) * groups + g) * 8, __builtin_convertvector(~dead_bits, bytes8));
        }
      }
      now.close(H);
      Row<S> swap = old;
      old = now;
      now = swap;
      if (final) {
        zero.close(H);
        Row<integer> swap_zero = old_zero;
        old_zero = zero;
        zero = swap_zero;
      }
    }
    store_units(static_cast<T*>(f.h_n) + n * H, old.at, H);
    if (final)
      for (int64_t i = 0; i < H; ++i) f.last_zero[n * H + i] = (int32_t)old_zero.at[i];
    if (!final && length < s.T) {
      __builtin_memset(static_cast<T*>(f.output) + (n * s.T + length) * H, 0, (s.T - length) * H * sizeof(T));
      if (has_bits) __builtin_memset(f.bits + (n * s.T + length) * groups * 8, 0, (s.T - length) * groups * 8);
    }
  }
}

template <class T, class Source, Activation activation> void forward_as(const Forward& f, int64_t n0, int64_t n1) {
  if constexpr (is_bounded(activation))
    if (f.wanted == Wanted::last_state) return forward_rows<T, Source, activation, Wanted::last_state>(f, n0, n1);
  forward_rows<T, Source, activation, Wanted::states>(f, n0, n1);
}
template <class T, class Source> void forward_from(const Forward& f, int64_t n0, int64_t n1) {
  with_activation(f.activation, [&](auto sigma) { forward_as<T, Source, decltype(sigma)::value>(f, n0, n1); });
}
template <class T> void forward(const Forward& f, int64_t n0, int64_t n1) {
  if constexpr (sizeof(T) == 4)
    if (f.gate.K || f.gate.C) return forward_from<T, Gated<T, true>>(f, n0, n1);
  if (f.gate.made != Made::no) return forward_from<T, Gated<T, false>>(f, n0, n1);
  return forward_from<T, Plain<T>>(f, n0, n1);
}

// Where the derivative of b goes: to [N, T, H], to the rows of a table, or on through the gate.
enum class Sink { dense, table, gate, few };

template <class T, Kept kept, Sink sink> void backward_rows(const Backward& f, int64_t n0, int64_t n1) {
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  typedef typename Wide<S>::mask mask;
  typedef typename Wide<S>::integer integer;
  const Sequence& s = f.sequence;
  const int64_t H = s.H, groups = groups_of(H), size = Row<S>::size(H);
  Scratch<S> state_memory(2 * size);
  Scratch<integer> zero_memory(kept == Kept::last_zero ? 2 * size : 0);
  constexpr bool few = sink == Sink::few, gated = few || sink == Sink::gate;
  Gated<T, few> gate(f, gated ? H : 0);
  const int64_t K = few ? gate.K : 0, C = few ? gate.C : 0, sum_rows = gated ? 2 + K + C : 0;
  Scratch<S> sums(sum_rows * size);  // over time: dr, dq, dr times each column of z, dq times each of x
  vec dz[few ? kFewHidden : 1];
  Row<S> later(state_memory.memory), now(state_memory.memory + size);
  Row<integer> later_zero(zero_memory.memory), zero(zero_memory.memory + (kept == Kept::last_zero ? size : 0));
  S taken_d[kLanes] = {};
  integer taken_zero[kLanes] = {};
  T grad_tail[kLanes], state_tail[kLanes];
  const int64_t ahead = (s.reverse ? 1 : -1) * (1 + 2048 / (H ? H : 1)) * f.grad_stride_t;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t length = s.length_of(n);
    load_units(later.at, static_cast<const T*>(f.grad_n) + n * H, H);
    if (kept == Kept::last_zero)
      for (int64_t i = 0; i < H; ++i) later_zero.at[i] = f.last_zero[n * H + i];
    if (gated) __builtin_memset(sums.memory, 0, sum_rows * size * sizeof(S));
    Link link = Link::identity;  // the last step takes grad_n as it is
    int64_t offset = 0;
    for (int64_t k = length; k >= 1; --k) {
      const int64_t t = s.reverse ? length - k : k - 1;
      const T* grad = f.grad ? static_cast<const T*>(f.grad) + n * f.grad_stride_n + t * f.grad_stride_t : nullptr;
      T* db = sink == Sink::dense ? static_cast<T*>(f.db) + (n * s.T + t) * H : nullptr;
      S* row = sink == Sink::table ? static_cast<S*>(f.table) + f.ids[n * s.T + t] * f.table_stride : nullptr;
      if (gated) gate.start(f, n, t);
      for (int64_t l = 0; l < K; ++l) dz[l] = vec{};
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t i = g * kLanes, w = H - i < kLanes ? H - i : kLanes;
        const S* e = taken(later.at, i, w, link, s.destination, taken_d);
        const integer* z = nullptr;
        if (kept == Kept::last_zero) z = taken(later_zero.at, i, w, link, s.destination, taken_zero);
        const T* g_t = grad ? (w == kLanes ? grad + i : padded(grad + i, w, grad_tail)) : nullptr;
        const T* h = nullptr;
        mask alive_bits = {};
        if (kept == Kept::states) {
          h = static_cast<const T*>(f.states) + (n * s.T + t) * H + i;
          if (w != kLanes) h = padded(h, w, state_tail);
        }
        if (kept == Kept::bits)
          alive_bits = __builtin_convertvector(read<bytes8>(f.bits + ((n * s.T + t) * groups + g) * 8), mask);
        if (gated) gate.group(i, w);
        if (grad) prefetch(grad + i, ahead);
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
          vec d = slide(e + 8 * j, offset);
          mask alive = {};
          if (grad) d += load(g_t + 8 * j);
          if (kept == Kept::states) {
            const vec a = load(h + 8 * j);
            d *= 1 - a * a;
          } else {
            if (kept == Kept::bits) {
              alive = by_parts<mask, Other>(alive_bits & (integer)(1 << j), integer{});
            } else {
              const mask before = slide(z + 8 * j, offset);
              alive = by_parts<mask, Below>(before, (integer)k);
              write(zero.at + i + 8 * j, before);
            }
            d = (vec)((mask)d & alive);
          }
          store(now.at + i + 8 * j, d);
          if (sink == Sink::dense && w == kLanes) store(db + i + 8 * j, d);
          if (sink == Sink::table) store(row + i + 8 * j, load(row + i + 8 * j) + d);
          if (gated) {
            // The derivative of the last state ends at the last zero of a path, so most vectors of early steps are 0.
            const bool is_zero = kept == Kept::last_zero && !any(alive);
            S* sum = sums.memory + i + 8 * j;
            vec dr = d, dq = d;
            if (!gate.open_gate && !is_zero) {
              const vec o = gate.open(8 * j);
              dq = d * gate.value(8 * j) * o * (1 - o);
              dr = d * o;
            }
            if (!is_zero) {
              store(sum, load(sum) + dr);
              sum += size;
              if (!gate.open_gate) store(sum, load(sum) + dq);
              for (int64_t l = 0; l < K; ++l) {
                sum += size;
                store(sum, dr * gate.z[l] + load(sum));
                dz[l] += dr * load(gate.w + l * gate.width + 8 * j);
              }
              for (int64_t l = 0; l < C; ++l) {
                sum += size;
                store(sum, dq * gate.x[l] + load(sum));
              }
            }
            if (!K) store((w == kLanes ? gate.r_row + i : gate.r_tail) + 8 * j, dr);
            if (!C && !gate.open_gate) store((w == kLanes ? gate.q_row + i : gate.q_tail) + 8 * j, dq);
          }
        }
        if (w != kLanes) {
          if (sink == Sink::dense) store_units(db + i, now.at + i, w);
          if (gated) {
            if (!K) __builtin_memcpy(gate.r_row + i, gate.r_tail, w * sizeof(T));
            if (!C && !gate.open_gate) __builtin_memcpy(gate.q_row + i, gate.q_tail, w * sizeof(T));
          }
        }
      }
      if constexpr (few)
        for (int64_t l = 0; f.gate.dz && l < K; ++l) static_cast<T*>(f.gate.dz)[(n * s.T + t) * K + l] = sum_of(dz[l]);
      now.close(H);
      Row<S> swap = later;
      later = now;
      now = swap;
      if (kept == Kept::last_zero) {
        zero.close(H);
        Row<integer> swap_zero = later_zero;
        later_zero = zero;
        zero = swap_zero;
      }
      if (s.is_cut(n, length, k)) fill(later, H, S{0});
      link = s.link;
      offset = link == Link::shift ? -1 : 0;
    }
    T* dh0 = static_cast<T*>(f.dh0) + n * H;
    for (int64_t i = 0; i < H; i += kLanes) {
      const int64_t w = H - i < kLanes ? H - i : kLanes;
      store_units(dh0 + i, taken(later.at, i, w, link, s.destination, taken_d) + offset, w);
    }
    if (sink == Sink::dense && length < s.T)
      __builtin_memset(static_cast<T*>(f.db) + (n * s.T + length) * H, 0, (s.T - length) * H * sizeof(T));
    if (gated) {
      const int64_t m = n - f.gate.first, rest = s.T - length, at = (m * s.T + length) * H;
      const auto clear = [&](void* p, int64_t at, int64_t width) {
        if (rest) __builtin_memset(static_cast<T*>(p) + at, 0, rest * width * sizeof(T));
      };
      const auto keep = [&](void* p, int64_t first, int64_t count) {
        for (int64_t l = 0; l < count; ++l)
          __builtin_memcpy(static_cast<S*>(p) + (m * count + l) * H, sums.memory + (first + l) * size, H * sizeof(S));
      };
      if (!K) clear(f.gate.r, at, H);
      if (!C && !gate.open_gate) clear(f.gate.q, at, H);
      if (K && f.gate.dz) clear(f.gate.dz, (n * s.T + length) * K, K);
      keep(f.gate.bias_sum, 0, 1);
      if (!gate.open_gate) keep(f.gate.gate_sum, 1, 1);
      keep(f.gate.weight_sum, 2, K);
      keep(f.gate.gate_weight_sum, 2 + K, C);
    }
  }
}

template <class T, Kept kept> void backward_into(const Backward& f, int64_t n0, int64_t n1) {
  if constexpr (sizeof(T) == 4 && kept != Kept::states)
    if (f.gate.K || f.gate.C) return backward_rows<T, kept, Sink::few>(f, n0, n1);
  if (f.gate.made != Made::no) return backward_rows<T, kept, Sink::gate>(f, n0, n1);
  if (f.table) return backward_rows<T, kept, Sink::table>(f, n0, n1);
  return backward_rows<T, kept, Sink::dense>(f, n0, n1);
}
template <class T> void backward(const Backward& f, int64_t n0, int64_t n1) {
  switch (f.kept) {
    case Kept::bits: return backward_into<T, Kept::bits>(f, n0, n1);
    case Kept::states: return backward_into<T, Kept::states>(f, n0, n1);
    case Kept::last_zero: return backward_into<T, Kept::last_zero>(f, n0, n1);
  }
}
