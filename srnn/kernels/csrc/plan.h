// What the operators share: the type of their numbers, checked integers, and the plan of a scan.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "arguments.h"

namespace srnn {

inline Type type_of(const Tensor& t) {
  switch (t.scalar_type()) {
    case ScalarType::Float: return Type::f32;
    case ScalarType::Double: return Type::f64;
    case ScalarType::BFloat16: return Type::bf16;
    case ScalarType::Half: return Type::f16;
    default: refuse("the tensors must be float32, float64, bfloat16 or float16, got " + text_of(t.scalar_type()));
  }
}
inline size_t bytes_of(Type type) { return type == Type::f64 ? 8 : type == Type::f32 ? 4 : 2; }
inline ScalarType state_type(Type type) { return type == Type::f64 ? ScalarType::Double : ScalarType::Float; }

// $SRNN_ISA=baseline selects the kernels for any processor, so that they can be tested on one that has AVX2.
inline Kernels kernels_for(Type type) {
#if defined(__x86_64__)
  static const char* const asked = std::getenv("SRNN_ISA");
  static const bool plain = asked && std::strcmp(asked, "baseline") == 0;
  static const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (has_avx2 && !plain) return avx2::kernels(type);
#endif
  return baseline::kernels(type);
}

inline Tensor empty(torch::headeronly::IntHeaderOnlyArrayRef size, ScalarType dtype) {
  return torch::stable::empty(size, dtype);
}
inline void* data(const Tensor& t) { return t.mutable_data_ptr(); }
inline const void* read(const Tensor& t) { return t.const_data_ptr(); }
inline const void* read(const Optional& t) { return t ? t->const_data_ptr() : nullptr; }
inline Optional dense(const Optional& t) { return t ? Optional(dense(*t)) : t; }
inline Tensor unit_stride(const Tensor& t) { return t.stride(t.dim() - 1) == 1 || t.size(t.dim() - 1) == 1 ? t : dense(t); }
inline Optional unit_stride(const Optional& t) { return t ? Optional(unit_stride(*t)) : t; }

template <class F> void parallel(int64_t count, const F& f) { torch::stable::parallel_for(0, count, 1, f); }

// Integers of any width as the kernels take them; throws unless each is in [0, limit).
template <class To, class From>
void take(const Tensor& t, int64_t limit, const char* name, const std::string& rule, std::vector<To>& out) {
  const From* p = read<From>(t);
  const int64_t count = t.numel();
  out.resize(count);
  bool outside = false;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = static_cast<int64_t>(p[i]);
    outside |= static_cast<uint64_t>(value) >= static_cast<uint64_t>(limit);
    out[i] = static_cast<To>(value);
  }
  if (!outside) return;
  for (int64_t i = 0; i < count; ++i)
    if (static_cast<uint64_t>(static_cast<int64_t>(p[i])) >= static_cast<uint64_t>(limit))
      refuse(std::string(name) + rule + ", got " + std::to_string(static_cast<int64_t>(p[i])));
}
template <class To> std::vector<To> integers(const Optional& tensor, int64_t limit, const char* name, const std::string& rule) {
  std::vector<To> out;
  if (!tensor) return out;
  const Tensor t = dense(*tensor);
  switch (t.scalar_type()) {
    case ScalarType::Byte: take<To, uint8_t>(t, limit, name, rule, out); break;
    case ScalarType::Int: take<To, int32_t>(t, limit, name, rule, out); break;
    case ScalarType::Long: take<To, int64_t>(t, limit, name, rule, out); break;
    default: refuse(must(name, "be uint8, int32 or int64, got " + text_of(t.scalar_type())));
  }
  return out;
}

inline std::string within_table(int64_t V) {
  return " must be between 0 and " + std::to_string(V - 1) + ", because the table (alphabet) has " + std::to_string(V) +
         " rows";
}

// The index of a permutation [H], and its inverse; throws unless each unit is there once.
struct Order {
  std::vector<int32_t> source, destination;

  Order(const Optional& permutation, int64_t H)
      : source(integers<int32_t>(permutation, H, "permutation", " must hold each of 0 to " + std::to_string(H - 1) + " once")) {
    if (!permutation) return;
    destination.assign(H, -1);
    for (int64_t i = 0; i < H; ++i) {
      if (destination[source[i]] != -1)
        refuse(must("permutation",
                    "hold each of 0 to " + std::to_string(H - 1) + " once, got " + std::to_string(source[i]) + " twice"));
      destination[source[i]] = i;
    }
  }
};

// A Sequence whose values are checked, and the memory behind it. Shapes and types were checked before.
struct Plan {
  std::vector<int64_t> lengths;
  std::vector<int32_t> ids;
  Order order;
  Optional reset;
  Sequence sequence;

  // A scan of N sequences; ids are below V.
  Plan(const Shape& shape, int64_t V, const Optional& ids_, const Optional& permutation, const Optional& lengths_,
       const Optional& reset_, bool reverse)
      : lengths(integers<int64_t>(lengths_, shape.T + 1, "lengths", " must be between 0 and T = " + std::to_string(shape.T))),
        ids(integers<int32_t>(ids_, V, "ids (symbols)", within_table(V))), order(permutation, shape.H), reset(dense(reset_)) {
    const int64_t* ends = lengths_ ? lengths.data() : nullptr;
    const int64_t H = shape.H;
    sequence = {shape.N, shape.T, H, ends, static_cast<const bool*>(read(reset)), reverse, Link::shift, nullptr, nullptr};
    if (!permutation) return;
    bool shift = true, identity = true;
    for (int64_t i = 0; i < H; ++i) {
      shift &= order.source[i] == (i + 1) % H;
      identity &= order.source[i] == i;
    }
    sequence.link = identity ? Link::identity : shift ? Link::shift : Link::gather;
    sequence.source = order.source.data();
    sequence.destination = order.destination.data();
  }
};

// The cycles of the permutation: a path through time visits the units of one, in turn.
struct Orbits {
  std::vector<int32_t> order;               // [H] the units, cycle after cycle, each followed by its predecessor p[i]
  std::vector<int64_t> length;              // of each cycle
  std::vector<int32_t> place, first, size;  // [H] of each unit: its place in `order`, and the start and length of its cycle

  explicit Orbits(const Sequence& s) : place(s.H, -1), first(s.H), size(s.H) {
    for (int64_t i = 0; i < s.H; ++i) {
      if (place[i] != -1) continue;
      const int64_t begin = order.size();
      for (int64_t u = i; place[u] == -1; u = predecessor(s, u)) {
        place[u] = order.size();
        order.push_back(u);
      }
      length.push_back(order.size() - begin);
      for (size_t j = begin; j < order.size(); ++j) first[order[j]] = begin, size[order[j]] = length.back();
    }
  }
  // Where the path through unit u was `steps` steps before, or will be if `steps` is negative.
  int32_t unit(int64_t u, int64_t steps) const {
    const int64_t j = (place[u] - first[u] + steps) % size[u];
    return order[first[u] + (j < 0 ? j + size[u] : j)];
  }
  static int64_t predecessor(const Sequence& s, int64_t u) {
    switch (s.link) {
      case Link::identity: return u;
      case Link::shift: return (u + 1) % s.H;
      case Link::gather: return s.source[u];
    }
    __builtin_unreachable();
  }
};

// Throws unless each last zero [N, H] is a step of its row, or 0 for none, and none is before the last reset: the derivative
// keeps lists by step, and takes it that nothing passes a reset.
inline void check_last_zeros(const Sequence& s, const int32_t* last_zero) {
  for (int64_t n = 0; n < s.N; ++n) {
    const int64_t length = s.length_of(n);
    int64_t least = s.reset && length ? length - 1 : 0;  // one step before the last one that starts from zeros
    while (least > 0 && !s.is_cut(n, length, least + 1)) --least;
    const auto [low, high] = std::minmax_element(last_zero + n * s.H, last_zero + (n + 1) * s.H);
    if (s.H && (*low < least || *high > length))
      refuse(must("kept", "hold last zeros between the last reset of their row, or 0, and its length, here between " +
                              std::to_string(least) + " and " + std::to_string(length) + ", got " +
                              std::to_string(*low) + " to " + std::to_string(*high)));
  }
}

// The results of a forward pass over a plan, and a Forward that writes to them.
struct StatesOut {
  Tensor output, h_n, bits;
  Forward forward{};

  StatesOut(const Sequence& s, const Tensor& h0, const std::string& activation)
      : output(empty({s.N, s.T, s.H}, h0.scalar_type())), h_n(empty({s.N, s.H}, h0.scalar_type())),
        bits(is_bounded(activation_of(activation)) ? empty({s.N, s.T, groups_of(s.H) * 8}, ScalarType::Byte)
                                                   : empty({0}, ScalarType::Byte)) {
    forward.sequence = s;
    forward.activation = activation_of(activation);
    forward.wanted = Wanted::states;
    forward.h0 = read(h0);
    forward.output = data(output);
    forward.bits = data<uint8_t>(bits);
    forward.h_n = data(h_n);
  }
  // The result for rows of no steps.
  void copy_state(const Tensor& h0) const { std::memcpy(data(h_n), read(h0), h0.numel() * bytes_of(type_of(h0))); }
  std::tuple<Tensor, Tensor, Tensor> results() const { return {output, h_n, bits}; }
};
struct LastStateOut {
  Tensor h_n, last_zero;
  Forward forward{};

  LastStateOut(const Sequence& s, const Tensor& h0, const std::string& activation)
      : h_n(empty({s.N, s.H}, h0.scalar_type())), last_zero(empty({s.N, s.H}, ScalarType::Int)) {
    forward.activation = activation_of(activation);
    if (!is_bounded(forward.activation))
      refuse("the derivative of " + activation + " needs all states. The final form takes a bounded one, such as relu");
    forward.sequence = s;
    forward.wanted = Wanted::last_state;
    forward.h0 = read(h0);
    forward.h_n = data(h_n);
    forward.last_zero = data<int32_t>(last_zero);
  }
  std::tuple<Tensor, Tensor> results() const { return {h_n, last_zero}; }
};

// A Backward from the gradients of a scan and what its forward pass kept. The type of `kept` says what it is.
inline Backward backward_of(const Sequence& s, const Optional& grad, const Tensor& grad_n, const Tensor& kept,
                            const Tensor& dh0) {
  Backward f{};
  f.sequence = s;
  f.grad = read(grad);
  if (grad) f.grad_stride_n = grad->stride(0), f.grad_stride_t = grad->stride(1);
  f.grad_n = read(grad_n);
  f.dh0 = data(dh0);
  switch (kept.scalar_type()) {
    case ScalarType::Byte:
      f.kept = Kept::bits;
      f.bits = read<uint8_t>(kept);
      break;
    case ScalarType::Int:
      f.kept = Kept::last_zero;
      f.last_zero = read<int32_t>(kept);
      check_last_zeros(s, f.last_zero);
      break;
    default: f.kept = Kept::states; f.states = read(kept);
  }
  return f;
}

}  // namespace srnn
