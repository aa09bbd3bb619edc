// The scans, for one instruction set: included once per set, inside a namespace of its own.
//
// Vectors of eight lanes are the compiler's own; eight of them make a group of 64 units. One call works through a range of
// sequences; sequences do not touch each other, so any split over threads gives the same bits.
//
//   rows     a step at a time, the whole state in L1: reads and writes memory in order. Everything but the next.
//   lanes    a block of units at a time, turning with P, the state in registers for the whole sequence: final state from a
//            table, where rows come from cache in any order.
//
// Bits of a group are eight bytes: unit 8k + l is bit k of byte l, so that packing and unpacking need no shuffles.

template <class S> struct Wide;
template <> struct Wide<float> {
  typedef float vec __attribute__((vector_size(32)));
  typedef int32_t mask __attribute__((vector_size(32)));
  typedef uint32_t bitsvec __attribute__((vector_size(32)));
  typedef int32_t integer;
};
template <> struct Wide<double> {
  typedef double vec __attribute__((vector_size(64)));
  typedef int64_t mask __attribute__((vector_size(64)));
  typedef uint64_t bitsvec __attribute__((vector_size(64)));
  typedef int64_t integer;
};
typedef uint8_t bytes8 __attribute__((vector_size(8)));
typedef uint16_t half8 __attribute__((vector_size(16)));
typedef _Float16 float16x8 __attribute__((vector_size(16)));
typedef Wide<float>::vec float8;
typedef Wide<float>::bitsvec uint32x8;

struct bf16 { uint16_t x; };
struct f16 { uint16_t x; };

// The type of the state: what is stored in half is carried in float.
template <class T> struct StateOf { typedef float type; };
template <> struct StateOf<double> { typedef double type; };
template <class T> using State = typename StateOf<T>::type;

#define INLINE inline __attribute__((always_inline))
#define COLD __attribute__((noinline))

template <class V, class P> INLINE V read(const P* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class V, class P> INLINE void write(P* p, V v) { __builtin_memcpy(p, &v, sizeof(V)); }

// A vector beside a number, in parts as wide as the processor's registers: where it has none for the whole, GCC adds in parts by
// itself, but compares one lane after the other.
#if defined(SRNN_AVX2)
constexpr int kRegister = 32;
#else
constexpr int kRegister = 16;
#endif
template <class R, class How, class V, class E> INLINE R by_parts(V v, E number) {
  typedef E part __attribute__((vector_size(kRegister)));
  constexpr int count = sizeof(V) / kRegister;
  if constexpr (count == 1) return (R)How::of((part)v, part{} + number);
  part parts[count];
  __builtin_memcpy(parts, &v, sizeof(V));
  #pragma GCC unroll 4
  for (int i = 0; i < count; ++i) parts[i] = (part)How::of(parts[i], part{} + number);
  return read<R>(parts);
}
struct AtMost { template <class P> static INLINE auto of(P v, P number) { return v <= number; } };
struct Below { template <class P> static INLINE auto of(P v, P number) { return v < number; } };
struct Other { template <class P> static INLINE auto of(P v, P number) { return v != number; } };
struct NotANumber { template <class P> static INLINE auto of(P v, P) { return v != v; } };
// Kept in [-limit, limit], NaN as it is. x86 has this as two instructions, of which NaN in the second operand comes out; GCC
// makes four of the plain form.
typedef float float_part __attribute__((vector_size(kRegister)));
typedef double double_part __attribute__((vector_size(kRegister)));
#if defined(SRNN_AVX2)
INLINE float_part least(float_part a, float_part b) { return __builtin_ia32_minps256(a, b); }
INLINE float_part most(float_part a, float_part b) { return __builtin_ia32_maxps256(a, b); }
INLINE double_part least(double_part a, double_part b) { return __builtin_ia32_minpd256(a, b); }
INLINE double_part most(double_part a, double_part b) { return __builtin_ia32_maxpd256(a, b); }
#elif defined(__SSE2__)
INLINE float_part least(float_part a, float_part b) { return __builtin_ia32_minps(a, b); }
INLINE float_part most(float_part a, float_part b) { return __builtin_ia32_maxps(a, b); }
INLINE double_part least(double_part a, double_part b) { return __builtin_ia32_minpd(a, b); }
INLINE double_part most(double_part a, double_part b) { return __builtin_ia32_maxpd(a, b); }
#else
template <class P> INLINE P least(P a, P b) { return a < b ? a : b; }
template <class P> INLINE P most(P a, P b) { return a > b ? a : b; }
#endif
struct Within { template <class P> static INLINE P of(P v, P limit) { return most(-limit, least(limit, v)); } };
struct AtBound {  // not |v| < bound, as integers without their sign: also true for NaN
  template <class P> static INLINE auto of(P v, P bound) {
    typedef std::conditional_t<sizeof(v[0]) == 4, int32_t, int64_t> integer;
    typedef integer bits __attribute__((vector_size(sizeof(P))));
    return ((bits)v & std::numeric_limits<integer>::max()) > (bits)bound - 1;
  }
};
template <class S> INLINE typename Wide<S>::mask at_most_zero(typename Wide<S>::vec v) {
  return by_parts<typename Wide<S>::mask, AtMost>(v, S{});
}

INLINE float8 load(const float* p) { return read<float8>(p); }
INLINE Wide<double>::vec load(const double* p) { return read<Wide<double>::vec>(p); }
INLINE float8 load(const bf16* p) {
  uint32x8 wide = __builtin_convertvector(read<half8>(p), uint32x8) << 16;
  return (float8)wide;
}
INLINE float8 load(const f16* p) { return __builtin_convertvector(read<float16x8>(p), float8); }

INLINE void store(float* p, float8 v) { write(p, v); }
INLINE void store(double* p, Wide<double>::vec v) { write(p, v); }
INLINE void store(bf16* p, float8 v) {
  uint32x8 u = (uint32x8)v;
  uint32x8 rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  uint32x8 nan = by_parts<uint32x8, NotANumber>(v, 0.0f);
  write(p, __builtin_convertvector((rounded & ~nan) | (nan & 0x7fc0), half8));
}
INLINE void store(f16* p, float8 v) { write(p, __builtin_convertvector(v, float16x8)); }

// max(0, v), but NaN passes, as in torch.relu.
INLINE float8 relu(float8 v) { return (float8)(~at_most_zero<float>(v) & (Wide<float>::mask)v); }
INLINE Wide<double>::vec relu(Wide<double>::vec v) {
  return (Wide<double>::vec)(~at_most_zero<double>(v) & (Wide<double>::mask)v);
}

// Applies relu or clip to v, NaN passes through both, and returns where the derivative is 0: of NaN with clip, not with relu.
template <Activation activation, class V> INLINE auto bounded(V& v) {
  typedef std::remove_reference_t<decltype(v[0])> S;
  if constexpr (activation == Activation::clip) {
    v = by_parts<V, Within>(v, S{1});
    return by_parts<typename Wide<S>::mask, AtBound>(v, S{1});
  } else {
    const auto flat = at_most_zero<S>(v);
    v = relu(v);
    return flat;
  }
}

// The first `count` < 64 elements of a row's end, through a buffer of full width.
template <class T> COLD const T* padded(const T* p, int64_t count, T* buffer) {
  __builtin_memset(buffer, 0, kLanes * sizeof(T));
  __builtin_memcpy(buffer, p, count * sizeof(T));
  return buffer;
}
template <class T, class S> COLD void store_units(T* p, const S* from, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) store(p + i, load(from + i));
  if (i < count) {
    T buffer[8];
    S wide[8] = {};
    __builtin_memcpy(wide, from + i, (count - i) * sizeof(S));
    store(buffer, load(wide));
    __builtin_memcpy(p + i, buffer, (count - i) * sizeof(T));
  }
}
template <class T, class S> COLD void load_units(S* to, const T* p, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) store(to + i, load(p + i));
  if (i < count) {
    T buffer[8] = {};
    S wide[8];
    __builtin_memcpy(buffer, p + i, (count - i) * sizeof(T));
    store(wide, load(buffer));
    __builtin_memcpy(to + i, wide, (count - i) * sizeof(S));
  }
}

// The logistic function: float by a polynomial of degree 6 to 2 ulp, double by libm.
INLINE float8 sigmoid(float8 x) {
  float8 y = -x;
  y = by_parts<float8, Within>(y, 87.0f);
  const float8 n = y * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: its last bits are round(y / ln 2)
  const float8 whole = n - 12582912.0f;
  const float8 f = whole * 2.12194440e-4f + (whole * -0.693359375f + y);
  float8 p = f * 1.3981999e-3f + 8.3334519e-3f;
  p = p * f + 4.1665796e-2f;
  p = p * f + 1.6666665e-1f;
  p = p * f + 5.0000001e-1f;
  p = p * f * f + (f + 1.0f);
  const uint32x8 scale = ((uint32x8)n - 0x4b400000u + 127u) << 23;
  return 1.0f / (p * (float8)scale + 1.0f);
}
INLINE Wide<double>::vec sigmoid(Wide<double>::vec x) {
  Wide<double>::vec y;
  for (int i = 0; i < 8; ++i) y[i] = 1.0 / (1.0 + __builtin_exp(-x[i]));
  return y;
}

// A row of units in the state's type, with its two ends repeated beyond each other.
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

// Asks for the 64 elements at p + offset, which need not exist. Rows read from the last to the first are not foreseen by the
// processor: without this, a step back in time waits for memory.
template <class T> INLINE void prefetch(const T* p, int64_t offset) {
  const uintptr_t address = (uintptr_t)p + offset * (int64_t)sizeof(T);
  for (int64_t line = 0; line < kLanes * (int64_t)sizeof(T); line += 64) __builtin_prefetch((const void*)(address + line));
}

// Where the units from i on find what they take over from the step before: in the row itself, for `slide`, or gathered.
template <class E> INLINE const E* taken(const E* row, int64_t i, int64_t w, Link link, const int32_t* index, E* buffer) {
  if (link != Link::gather) return row + i;
  for (int64_t j = 0; j < w; ++j) buffer[j] = row[index[i + j]];
  return buffer;
}

template <class S> struct Scratch {
  S* memory;
  explicit Scratch(int64_t count)
      : memory(static_cast<S*>(__builtin_calloc(count, sizeof(S)))) {}
  ~Scratch() { __builtin_free(memory); }
  Scratch(const Scratch&) = delete;
};

INLINE int64_t row_length(const Sequence& s, int64_t n) { return s.lengths ? s.lengths[n] : s.T; }

// b of a group, from memory or from the two products of the gate.
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

template <class T, bool few> struct Gated {
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  const bool open_gate;  // no gate: the second factor is 1
  T *r_row, *q_row;
  const T *r, *q;
  const S *c, *e, *u;
  vec x[few ? kFew : 1];
  T r_tail[kLanes], q_tail[kLanes];
  const int64_t width, C;
  Scratch<S> constants;  // c, e and the columns of U, each padded
  template <class A>
  Gated(const A& a, int64_t H)
      : open_gate(a.gate.made == Made::without_gate), width(Row<S>::size(H)), C(few ? a.gate.C : 0), constants((2 + C) * width) {
    if (a.gate.bias) load_units(constants.memory, static_cast<const T*>(a.gate.bias), H);
    if (a.gate.gate_bias) load_units(constants.memory + width, static_cast<const T*>(a.gate.gate_bias), H);
    for (int64_t i = 0; i < C * H; ++i)
      load_units(constants.memory + (2 + i % C) * width + i / C, static_cast<const T*>(a.gate.gate_weight) + i, 1);
  }
  template <class A> INLINE void start(const A& a, int64_t n, int64_t t) {
    const int64_t row = n * a.sequence.T + t;
    r_row = static_cast<T*>(a.gate.r) + row * a.sequence.H;
    if (!few && !open_gate) q_row = static_cast<T*>(a.gate.q) + row * a.sequence.H;
    if constexpr (few) for (int64_t l = 0; l < C; ++l) x[l] = vec{} + static_cast<const T*>(a.gate.x)[row * C + l];
  }
  INLINE void group(int64_t i, int64_t w) {
    r = w == kLanes ? r_row + i : padded(r_row + i, w, r_tail);
    if (!few && !open_gate) q = w == kLanes ? q_row + i : padded(q_row + i, w, q_tail);
    c = constants.memory + i;
    e = constants.memory + width + i;
    u = constants.memory + 2 * width + i;
  }
  INLINE vec value(int64_t j) { return load(r + j) + load(c + j); }
  INLINE vec open(int64_t j) {
    vec y = load(e + j);
    if (few) for (int64_t l = 0; l < C; ++l) y = x[l] * load(u + l * width + j) + y;
    else y += load(q + j);
    return sigmoid(y);
  }
  INLINE vec b(int64_t j) { return open_gate ? value(j) : value(j) * open(j); }
};

template <class E> INLINE void fill(Row<E>& row, int64_t H, E value) {
  for (int64_t i = -8; i < H + 8; ++i) row.at[i] = value;
}

template <class T, class Source, Activation activation, bool final>
void forward_rows(const Forward& f, int64_t n0, int64_t n1) {
  constexpr bool tanh = activation == Activation::tanh;
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  typedef typename Wide<S>::mask mask;
  typedef typename Wide<S>::integer integer;
  const Sequence& s = f.sequence;
  const int64_t H = s.H, groups = (H + kLanes - 1) / kLanes, size = Row<S>::size(H);
  Scratch<S> state_memory(2 * size);
  Scratch<integer> zero_memory(final ? 2 * size : 0);
  Row<S> old(state_memory.memory), now(state_memory.memory + size);
  Row<integer> old_zero(zero_memory.memory), zero(zero_memory.memory + (final ? size : 0));
  S taken_h[kLanes] = {};
  integer taken_zero[kLanes] = {};
  Source source(f, H);
  const int64_t offset = s.link == Link::shift ? 1 : 0;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t length = row_length(s, n);
    load_units(old.at, static_cast<const T*>(f.h0) + n * H, H);
    old.close(H);
    if (final) fill(old_zero, H, integer{0});
    for (int64_t k = 1; k <= length; ++k) {
      const int64_t t = s.reverse ? length - k : k - 1;
      if (is_cut(s, n, length, k)) {
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
          if constexpr (tanh) {
            for (int l = 0; l < 8; ++l) v[l] = sizeof(S) == 4 ? __builtin_tanhf(v[l]) : __builtin_tanh(v[l]);
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
        if (!final && !tanh) {
          if (w != kLanes) for (int l = 0; l < 8; ++l) for (int j = 0; j < 8; ++j)
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
    if (final) for (int64_t i = 0; i < H; ++i) f.last_zero[n * H + i] = (int32_t)old_zero.at[i];
    if (!final && length < s.T) {
      __builtin_memset(static_cast<T*>(f.output) + (n * s.T + length) * H, 0, (s.T - length) * H * sizeof(T));
      if (!tanh) __builtin_memset(f.bits + (n * s.T + length) * groups * 8, 0, (s.T - length) * groups * 8);
    }
  }
}

template <class T, class Source> void forward_from(const Forward& f, int64_t n0, int64_t n1) {
  const bool clip = f.activation == Activation::clip;
  if (!f.output && clip) return forward_rows<T, Source, Activation::clip, true>(f, n0, n1);
  if (!f.output) return forward_rows<T, Source, Activation::relu, true>(f, n0, n1);
  if (f.activation == Activation::tanh) return forward_rows<T, Source, Activation::tanh, false>(f, n0, n1);
  if (clip) return forward_rows<T, Source, Activation::clip, false>(f, n0, n1);
  return forward_rows<T, Source, Activation::relu, false>(f, n0, n1);
}
template <class T> void forward(const Forward& f, int64_t n0, int64_t n1) {
  if constexpr (sizeof(T) == 4)
    if (f.gate.made == Made::with_few_inputs) return forward_from<T, Gated<T, true>>(f, n0, n1);
  if (f.gate.made != Made::no) return forward_from<T, Gated<T, false>>(f, n0, n1);
  return forward_from<T, Plain<T>>(f, n0, n1);
}

enum class Sink { dense, table, gate, few };

template <class T, Kept kept, Sink sink> void backward_rows(const Backward& f, int64_t n0, int64_t n1) {
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  typedef typename Wide<S>::mask mask;
  typedef typename Wide<S>::integer integer;
  const Sequence& s = f.sequence;
  const int64_t H = s.H, groups = (H + kLanes - 1) / kLanes, size = Row<S>::size(H);
  Scratch<S> state_memory(2 * size);
  Scratch<integer> zero_memory(kept == Kept::last_zero ? 2 * size : 0);
  constexpr bool few = sink == Sink::few, gated = few || sink == Sink::gate;
  const int64_t sum_rows = gated ? 2 + f.gate.C : 0;
  Scratch<S> sums(sum_rows * size);  // over time: dr, dq, and dq times each of the few inputs
  Row<S> later(state_memory.memory), now(state_memory.memory + size);
  Row<integer> later_zero(zero_memory.memory), zero(zero_memory.memory + (kept == Kept::last_zero ? size : 0));
  S taken_d[kLanes] = {};
  integer taken_zero[kLanes] = {};
  T grad_tail[kLanes], state_tail[kLanes];
  Gated<T, few> gate(f, gated ? H : 0);
  const int64_t ahead = (s.reverse ? 1 : -1) * (1 + 2048 / (H ? H : 1)) * f.grad_stride_t;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t length = row_length(s, n);
    load_units(later.at, static_cast<const T*>(f.grad_n) + n * H, H);
    if (kept == Kept::last_zero) for (int64_t i = 0; i < H; ++i) later_zero.at[i] = f.last_zero[n * H + i];
    if (gated) __builtin_memset(sums.memory, 0, sum_rows * size * sizeof(S));
    Link link = Link::identity;  // the last step takes grad_n as it is
    int64_t offset = 0;
    for (int64_t k = length; k >= 1; --k) {
      const int64_t t = s.reverse ? length - k : k - 1;
      const T* grad = f.grad ? static_cast<const T*>(f.grad) + n * f.grad_stride_n + t * f.grad_stride_t : nullptr;
      T* db = sink == Sink::dense ? static_cast<T*>(f.db) + (n * s.T + t) * H : nullptr;
      S* row = sink == Sink::table ? static_cast<S*>(f.table) + f.ids[n * s.T + t] * f.table_stride : nullptr;
      if (gated) gate.start(f, n, t);
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
          if (grad) d += load(g_t + 8 * j);
          if (kept == Kept::states) {
            const vec a = load(h + 8 * j);
            d *= 1 - a * a;
          } else {
            mask alive;
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
            S* sum = sums.memory + i + 8 * j;
            vec dr = d;
            if (!gate.open_gate) {
              const vec o = gate.open(8 * j);
              const vec dq = d * gate.value(8 * j) * o * (1 - o);
              dr = d * o;
              store(sum + size, load(sum + size) + dq);
              if (few) for (int64_t l = 0; l < gate.C; ++l) store(sum + (2 + l) * size, dq * gate.x[l] + load(sum + (2 + l) * size));
              else store((w == kLanes ? gate.q_row + i : gate.q_tail) + 8 * j, dq);
            }
            store(sum, load(sum) + dr);
            store((w == kLanes ? gate.r_row + i : gate.r_tail) + 8 * j, dr);
          }
        }
        if (w != kLanes) {
          if (sink == Sink::dense) store_units(db + i, now.at + i, w);
          if (gated) {
            __builtin_memcpy(gate.r_row + i, gate.r_tail, w * sizeof(T));
            if (!few && !gate.open_gate) __builtin_memcpy(gate.q_row + i, gate.q_tail, w * sizeof(T));
          }
        }
      }
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
      if (is_cut(s, n, length, k)) fill(later, H, S{0});
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
      const int64_t rest = (s.T - length) * H * sizeof(T), at = (n * s.T + length) * H;
      if (rest) __builtin_memset(static_cast<T*>(f.gate.r) + at, 0, rest);
      if (rest && !few && !gate.open_gate) __builtin_memset(static_cast<T*>(f.gate.q) + at, 0, rest);
      __builtin_memcpy(static_cast<S*>(f.gate.bias_sum) + n * H, sums.memory, H * sizeof(S));
      if (!gate.open_gate) __builtin_memcpy(static_cast<S*>(f.gate.gate_sum) + n * H, sums.memory + size, H * sizeof(S));
      if (few) for (int64_t l = 0; l < gate.C; ++l)
        __builtin_memcpy(static_cast<S*>(f.gate.weight_sum) + (n * gate.C + l) * H, sums.memory + (2 + l) * size, H * sizeof(S));
    }
  }
}

template <class T, Kept kept> void backward_into(const Backward& f, int64_t n0, int64_t n1) {
  if constexpr (sizeof(T) == 4 && kept != Kept::states)
    if (f.gate.made == Made::with_few_inputs) return backward_rows<T, kept, Sink::few>(f, n0, n1);
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

// ---- lanes: h of 64 units in registers, row after row of the table, one place further down at each step

template <class T, Activation activation> void table_lanes(const TableScan& f, int64_t item0, int64_t item1) {
  typedef State<T> S;
  typedef typename Wide<S>::vec vec;
  typedef typename Wide<S>::mask mask;
  typedef typename Wide<S>::integer integer;
  const Sequence& s = f.sequence;
  const Cycles& c = f.cycles;
  constexpr int kVectors = 4, kBlock = 8 * kVectors;  // half a group: h and last_zero then fit the sixteen registers
  for (int64_t item = item0; item < item1; ++item) {
    const int64_t n = item / c.blocks, block = item % c.blocks, L = c.length[c.cycle[block]];
    const int64_t length = row_length(s, n), start = c.padded[c.cycle[block]];
    const int32_t* unit = c.unit + start;
    const int32_t* ids = f.ids + n * s.T;
    const S* table = static_cast<const S*>(f.table) + start;
    for (int64_t first = c.first[block]; first < c.first[block] + kLanes && first < L; first += kBlock) {
      S lane[kBlock];
      for (int64_t j = 0; j < kBlock; ++j) {
        T one[8] = {};
        S wide[8];
        one[0] = static_cast<const T*>(f.h0)[n * s.H + unit[first + j]];
        store(wide, load(one));
        lane[j] = wide[0];
      }
      vec h[kVectors];
      mask zero[kVectors] = {};
      for (int j = 0; j < kVectors; ++j) h[j] = load(lane + 8 * j);
      int64_t place = first;
      for (int64_t k = 1; k <= length; ++k) {
        if (c.turn) place = place == 0 ? L - 1 : place - 1;
        const S* row = table + ids[s.reverse ? length - k : k - 1] * c.width + place;
        const mask step = mask{} + (integer)k;
        if (is_cut(s, n, length, k))
          for (int j = 0; j < kVectors; ++j) h[j] = vec{}, zero[j] = step - 1;
        #pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          h[j] += load(row + 8 * j);
          const mask dead = bounded<activation>(h[j]);
          if constexpr (sizeof(mask) == kRegister) zero[j] = dead ? step : zero[j];
          else zero[j] = (dead & step) | (~dead & zero[j]);
        }
      }
      for (int j = 0; j < kVectors; ++j) store(lane + 8 * j, h[j]);
      integer last[kBlock];
      for (int j = 0; j < kVectors; ++j) write(last + 8 * j, zero[j]);
      for (int64_t j = 0; j < kBlock && first + j < L; ++j) {
        const int64_t at = place + j;  // the padded row repeats itself: no wrap
        store_units(static_cast<T*>(f.h_n) + n * s.H + unit[at], lane + j, 1);
        f.last_zero[n * s.H + unit[at]] = (int32_t)last[j];
      }
    }
  }
}

template <class T> void table_forward(const TableScan& f, int64_t item0, int64_t item1) {
  if (f.activation == Activation::clip) return table_lanes<T, Activation::clip>(f, item0, item1);
  return table_lanes<T, Activation::relu>(f, item0, item1);
}

template <class S> INLINE void add_units(S* to, const S* from, int64_t count) {
  int64_t i = 0;
  #pragma GCC unroll 4
  for (; i + 8 <= count; i += 8) store(to + i, load(to + i) + load(from + i));
  for (; i < count; ++i) to[i] += from[i];
}

// A lane's derivative is its grad_n from the end back to the last step at which it was zero, and nothing before. So it is
// written down once per sequence, every cycle twice over; each step adds it to a row of the table's gradient, from a place that
// moves back by one, after putting to zero the lanes whose last zero this step was.
template <class T> void table_backward(const TableScan& f, int64_t n0, int64_t n1) {
  typedef State<T> S;
  const Sequence& s = f.sequence;
  const Cycles& c = f.cycles;
  const int64_t H = s.H;
  Scratch<S> lanes(2 * H), grad(H);
  Scratch<int64_t> from(c.count);            // where in its two copies each cycle is read from
  Scratch<int32_t> dying(s.T + 1), also(H);  // linked lists, plus 1: the places whose last zero is this step
  Scratch<int32_t> first(H), second(H);      // where a place stands in `lanes`
  for (int64_t j = 0, start = 0; j < c.count; start += c.length[j++])
    for (int64_t i = 0; i < c.length[j]; ++i) {
      first.memory[start + i] = (int32_t)(2 * start + i);
      second.memory[start + i] = (int32_t)(2 * start + i + c.length[j]);
    }
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t length = row_length(s, n);
    const int32_t *ids = f.ids + n * s.T, *last_zero = f.last_zero + n * H;
    load_units(grad.memory, static_cast<const T*>(f.grad_n) + n * H, H);
    dying.memory[0] = 0;
    for (int64_t i = 0; i < H; ++i) {
      const int32_t unit = c.order[i], zero = last_zero[unit];
      lanes.memory[first.memory[i]] = lanes.memory[second.memory[i]] = grad.memory[unit];
      also.memory[i] = dying.memory[zero];
      dying.memory[zero] = (int32_t)i + 1;
    }
    for (int64_t j = 0; j < c.count; ++j) from.memory[j] = 0;
    int64_t alive = H;
    for (int64_t k = length; k >= 1; --k) {
      for (int32_t i = dying.memory[k]; i; i = also.memory[i - 1], --alive)
        lanes.memory[first.memory[i - 1]] = lanes.memory[second.memory[i - 1]] = 0;
      dying.memory[k] = 0;
      if (!alive) break;
      S* row = static_cast<S*>(f.dtable) + ids[s.reverse ? length - k : k - 1] * H;
      for (int64_t j = 0, start = 0; j < c.count; start += c.length[j++]) {
        add_units(row + start, lanes.memory + 2 * start + from.memory[j], c.length[j]);
        if (c.turn) from.memory[j] = from.memory[j] == 0 ? c.length[j] - 1 : from.memory[j] - 1;
      }
    }
    for (int64_t j = 0, start = 0; j < c.count; start += c.length[j++])
      for (int64_t i = 0; i < c.length[j]; ++i)
        grad.memory[c.order[start + i]] = lanes.memory[2 * start + from.memory[j] + i];
    if (length && is_cut(s, n, length, 1)) __builtin_memset(grad.memory, 0, H * sizeof(S));
    store_units(static_cast<T*>(f.dh0) + n * H, grad.memory, H);
  }
}

#include "cell.inl"

template <class T> Kernels kernels_of() {
  Kernels kernels{forward<T>, backward<T>, table_forward<T>, table_backward<T>, nullptr, nullptr};
  if constexpr (std::is_floating_point_v<T>) kernels.cell = cell<T>, kernels.cell_backward = cell_backward<T>;
  return kernels;
}

Kernels kernels(Type type) {
  switch (type) {
    case Type::f64: return kernels_of<double>();
    case Type::bf16: return kernels_of<bf16>();
    case Type::f16: return kernels_of<f16>();
    default: return kernels_of<float>();
  }
}
