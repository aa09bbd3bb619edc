// Vectors of eight lanes, and what the kernels do with them; included once per instruction set, inside a namespace of its own.
//
// Vectors are those of the compiler (GCC and Clang); eight of them are a group of 64 units.

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

struct bf16 {
  uint16_t x;
};
struct f16 {
  uint16_t x;
};

// The type of the state: what is stored in half is carried in float.
template <class T> struct StateOf {
  typedef float type;
};
template <> struct StateOf<double> {
  typedef double type;
};
template <class T> using State = typename StateOf<T>::type;

#define INLINE inline __attribute__((always_inline))
#define COLD __attribute__((noinline))

template <class V, class P> INLINE V read(const P* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class V, class P> INLINE void write(P* p, V v) { __builtin_memcpy(p, &v, sizeof(V)); }

// Applies How to a vector and a number, in parts as wide as the processor's registers. GCC splits additions of wider vectors by
// itself, but compares them one lane after the other.
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
struct AtMost {
  template <class P> static INLINE auto of(P v, P number) { return v <= number; }
};
struct Below {
  template <class P> static INLINE auto of(P v, P number) { return v < number; }
};
struct Other {
  template <class P> static INLINE auto of(P v, P number) { return v != number; }
};
struct NotANumber {
  template <class P> static INLINE auto of(P v, P) { return v != v; }
};
// Clamps to [-limit, limit]; NaN passes. x86 has two instructions for it that return a NaN of the second operand; GCC makes
// four of the plain form.
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
struct Within {
  template <class P> static INLINE P of(P v, P limit) { return most(-limit, least(limit, v)); }
};
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

// Whether a lane of a mask is set.
template <class M> INLINE bool any(M mask) {
  uint64_t parts[sizeof(M) / 8], all = 0;
  __builtin_memcpy(parts, &mask, sizeof(M));
  for (uint64_t part : parts) all |= part;
  return all != 0;
}
template <class V> INLINE auto sum_of(V v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

// max(0, v), but NaN passes, as in torch.relu.
INLINE float8 relu(float8 v) { return (float8)(~at_most_zero<float>(v) & (Wide<float>::mask)v); }
INLINE Wide<double>::vec relu(Wide<double>::vec v) {
  return (Wide<double>::vec)(~at_most_zero<double>(v) & (Wide<double>::mask)v);
}

// Calls `work` with a std::integral_constant of the activation: kernels are compiled once for each.
template <class Work> INLINE void with_activation(Activation activation, Work work) {
  switch (activation) {
    case Activation::relu: return work(std::integral_constant<Activation, Activation::relu>());
    case Activation::tanh: return work(std::integral_constant<Activation, Activation::tanh>());
    case Activation::clip: return work(std::integral_constant<Activation, Activation::clip>());
  }
}

// Applies a bounded activation to v and returns where its derivative is 0. NaN passes; its derivative is 0 with clip, 1 with
// relu.
template <Activation activation, class V> INLINE auto bounded(V& v) {
  static_assert(is_bounded(activation));
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

// sigma of one number, and the gradient by v from d, that by h = sigma(v).
template <class S> INLINE S activated(Activation activation, S v) {
  switch (activation) {
    case Activation::relu: return v <= 0 ? 0 : v;
    case Activation::clip: return v > 1 ? 1 : v < -1 ? -1 : v;
    case Activation::tanh: return sizeof(S) == 4 ? __builtin_tanhf(v) : __builtin_tanh(v);
  }
  __builtin_unreachable();
}
template <class S> INLINE S passed_back(Activation activation, S d, S h) {
  switch (activation) {
    case Activation::relu: return h <= 0 ? 0 : d;
    case Activation::clip: return h < 1 && h > -1 ? d : 0;
    case Activation::tanh: return d * (1 - h * h);
  }
  __builtin_unreachable();
}

// The last `count` < 64 elements of a row, copied to a buffer of full width.
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

// Zeroed memory that is freed at the end of its scope; throws if there is none.
template <class S> struct Scratch {
  S* memory;
  explicit Scratch(int64_t count) : memory(static_cast<S*>(__builtin_calloc(count ? count : 1, sizeof(S)))) {
    if (!memory) throw std::bad_alloc();
  }
  ~Scratch() { __builtin_free(memory); }
  Scratch(const Scratch&) = delete;
};
