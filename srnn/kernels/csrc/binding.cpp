// The operators of srnn::* for the CPU, through torch's stable ABI: checks values, splits the work, calls the kernels.
//
// Work is split over sequences or into a number of parts that follows from the shapes alone, so the bits do not depend on the
// number of threads, but for those of torch's matrix products. Schemas, shapes for tracing and derivatives are in ops.py; shapes
// and dtypes were checked before.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels.h"
#include "tensors.h"

namespace {

using namespace srnn;
using srnn::Map;
using Optional = std::optional<Tensor>;

constexpr int64_t kChunk = 1 << 17;  // elements of b that are made at once: they stay in cache until the scan has read them

Type type_of(const Tensor& t) {
  switch (t.scalar_type()) {
    case ScalarType::Float: return Type::f32;
    case ScalarType::Double: return Type::f64;
    case ScalarType::BFloat16: return Type::bf16;
    case ScalarType::Half: return Type::f16;
    default: throw std::runtime_error("shuffle_scan takes float32, float64, bfloat16 or float16");
  }
}
size_t bytes_of(Type type) { return type == Type::f64 ? 8 : type == Type::f32 ? 4 : 2; }
ScalarType state_type(Type type) { return type == Type::f64 ? ScalarType::Double : ScalarType::Float; }

// $SRNN_ISA=baseline takes those for any processor, so that they can be tested on one that has better.
Kernels kernels_for(Type type) {
#if defined(__x86_64__)
  static const char* const asked = std::getenv("SRNN_ISA");
  static const bool plain = asked && std::strcmp(asked, "baseline") == 0;
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (has_avx2 && !plain) return avx2::kernels(type);
#endif
  return baseline::kernels(type);
}

Tensor empty(torch::headeronly::IntHeaderOnlyArrayRef size, ScalarType dtype) { return torch::stable::empty(size, dtype); }
void* data(const Tensor& t) { return t.mutable_data_ptr(); }
const void* data(const Optional& t) { return t ? t->mutable_data_ptr() : nullptr; }
using srnn::dense;
Optional dense(const Optional& t) { return t ? Optional(dense(*t)) : t; }
Tensor unit_stride(const Tensor& t) { return t.stride(t.dim() - 1) == 1 || t.size(t.dim() - 1) == 1 ? t : dense(t); }

template <class F> void parallel(int64_t count, const F& f) { torch::stable::parallel_for(0, count, 1, f); }

// Integers of any width as the kernels want them, each checked to be in [0, limit).
template <class To, class From>
void take(const Tensor& t, int64_t limit, const char* name, const std::string& rule, std::vector<To>& out) {
  const From* p = static_cast<const From*>(t.mutable_data_ptr());
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
      throw std::runtime_error(std::string(name) + rule + "; got " + std::to_string(static_cast<int64_t>(p[i])));
}
template <class To> std::vector<To> integers(const Optional& tensor, int64_t limit, const char* name, const std::string& rule) {
  std::vector<To> out;
  if (!tensor) return out;
  const Tensor t = dense(*tensor);
  switch (t.scalar_type()) {
    case ScalarType::Byte: take<To, uint8_t>(t, limit, name, rule, out); break;
    case ScalarType::Int: take<To, int32_t>(t, limit, name, rule, out); break;
    case ScalarType::Long: take<To, int64_t>(t, limit, name, rule, out); break;
    default: throw std::runtime_error(std::string(name) + " must be uint8, int32 or int64");
  }
  return out;
}

Activation activation_of(const std::string& name) {
  if (name == "relu") return Activation::relu;
  if (name == "tanh") return Activation::tanh;
  if (name == "clip") return Activation::clip;
  throw std::runtime_error("activation must be relu, tanh or clip; got " + name);
}
Activation bounded_activation_of(const std::string& name) {
  const Activation activation = activation_of(name);
  require(activation != Activation::tanh, "the derivative of tanh needs all states; the final form takes relu or clip");
  return activation;
}

// A checked Sequence and the memory behind it.
struct Plan {
  std::vector<int64_t> lengths;
  std::vector<int32_t> ids, source, destination;
  Optional reset;
  Sequence sequence;

  Plan(int64_t N, int64_t T, int64_t H, int64_t V, const Optional& ids_, const Optional& permutation, const Optional& lengths_,
       const Optional& reset_, bool reverse)
      : lengths(integers<int64_t>(lengths_, T + 1, "lengths", " must be between 0 and T = " + std::to_string(T))),
        ids(integers<int32_t>(ids_, V, "ids (symbols)", " must be between 0 and " + std::to_string(V - 1) +
                                                            ", the table (alphabet) has " + std::to_string(V) + " rows")),
        source(integers<int32_t>(permutation, H, "permutation", " must hold each of 0 .. " + std::to_string(H - 1) + " once")),
        reset(dense(reset_)), sequence{N, T, H, lengths_ ? lengths.data() : nullptr, static_cast<const bool*>(data(reset)), reverse,
                                       Link::shift, nullptr, nullptr} {
    require(!reset || (reset->scalar_type() == ScalarType::Bool && has_shape(*reset, {N, T})), "reset must be [N, T] of bool");
    if (!permutation) return;
    destination.assign(H, -1);
    bool shift = true, identity = true;
    for (int32_t i = 0; i < H; ++i) {
      if (destination[source[i]] != -1)
        throw std::runtime_error("permutation must hold each of 0 .. " + std::to_string(H - 1) + " once; got " +
                                 std::to_string(source[i]) + " twice");
      destination[source[i]] = i;
      shift &= source[i] == (i + 1) % H;
      identity &= source[i] == i;
    }
    sequence.link = identity ? Link::identity : shift ? Link::shift : Link::gather;
    sequence.source = source.data();
    sequence.destination = destination.data();
  }
};

// Units along the cycles of the permutation, and blocks of 64 lanes within them.
struct CyclePlan {
  std::vector<int64_t> length, padded, first;
  std::vector<int32_t> unit, order, cycle;
  Cycles cycles;

  explicit CyclePlan(const Sequence& s) {
    const bool turn = s.link != Link::identity;
    std::vector<bool> seen(s.H, false);
    for (int64_t i = 0; i < s.H; ++i) {
      if (seen[i]) continue;
      const int64_t begin = order.size();
      for (int64_t u = i; u < s.H && !seen[u]; u = s.link == Link::gather ? s.source[u] : s.link == Link::shift ? (u + 1) % s.H : u + 1) {
        seen[u] = true;
        order.push_back(u);
      }
      const int64_t L = order.size() - begin, blocks = (L + kLanes - 1) / kLanes;
      padded.push_back(unit.size());
      for (int64_t j = 0; j < (blocks + 1) * kLanes; ++j) unit.push_back(order[begin + j % L]);
      for (int64_t j = 0; j < blocks; ++j) {
        cycle.push_back(length.size());
        first.push_back(j * kLanes);
      }
      length.push_back(L);
    }
    cycles = {turn, static_cast<int64_t>(length.size()), length.data(), padded.data(), unit.data(),
              static_cast<int64_t>(unit.size()), order.data(), static_cast<int64_t>(first.size()), cycle.data(), first.data()};
  }
};

// The plan, where cycles are long enough to be worth a block each: of very short ones most lanes would be idle.
std::unique_ptr<const CyclePlan> plan_blocks(const Sequence& s) {
  auto plan = std::make_unique<const CyclePlan>(s);
  return plan->cycles.blocks * kLanes <= 4 * (s.H + kLanes) ? std::move(plan) : nullptr;
}

// table [V, H] -> [V, width], in the state's type and the order of the cycles.
template <class S> void pad_rows(const Tensor& table, const Cycles& c, S* padded) {
  const int64_t V = table.size(0), H = table.size(1);
  const S* from = static_cast<const S*>(data(table));
  parallel(V, [&](int64_t v0, int64_t v1) {
    for (int64_t v = v0; v < v1; ++v)
      for (int64_t i = 0; i < c.width; ++i) padded[v * c.width + i] = from[v * H + c.unit[i]];
  });
}

// The private copies [parts, V, width] of a table's gradient, added up in order; place i of a row is unit order[i] of [V, H].
template <class S>
void fold_rows(const S* copies, int64_t parts, int64_t V, int64_t width, int64_t H, const int32_t* order, S* out) {
  parallel(V, [&](int64_t v0, int64_t v1) {
    std::vector<S> sum(width);
    for (int64_t v = v0; v < v1; ++v) {
      std::copy_n(copies + v * width, width, sum.begin());
      for (int64_t p = 1; p < parts; ++p)
        for (int64_t i = 0; i < width; ++i) sum[i] += copies[(p * V + v) * width + i];
      for (int64_t i = 0; i < H; ++i) out[v * H + (order ? order[i] : i)] = sum[i];
    }
  });
}

// How many private copies of a table's gradient: enough for the threads, few enough that adding them up stays cheap.
int64_t parts_for(int64_t N, int64_t T, int64_t V) {
  return std::max<int64_t>(1, std::min({N, int64_t{16}, N * T / std::max<int64_t>(1, 64 * V)}));
}

// Runs `work(part, n0, n1, copy)` over the parts, each with its own zeroed copy, and returns the summed gradient [V, H].
template <class F>
Tensor table_gradient(const Sequence& s, int64_t V, int64_t width, const int32_t* order, Type type, ScalarType dtype, const F& work) {
  const int64_t parts = parts_for(s.N, s.T, V);
  const Tensor copies = empty({parts, V, width}, state_type(type));
  const size_t size = V * width * bytes_of(type == Type::f64 ? Type::f64 : Type::f32);
  parallel(parts, [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p) {
      char* copy = static_cast<char*>(data(copies)) + p * size;
      std::memset(copy, 0, size);
      work(p * s.N / parts, (p + 1) * s.N / parts, static_cast<void*>(copy));
    }
  });
  Tensor out = empty({V, s.H}, state_type(type));
  if (type == Type::f64) fold_rows(static_cast<double*>(data(copies)), parts, V, width, s.H, order, static_cast<double*>(data(out)));
  else fold_rows(static_cast<float*>(data(copies)), parts, V, width, s.H, order, static_cast<float*>(data(out)));
  return out.scalar_type() == dtype ? out : torch::stable::to(out, dtype);
}

Input input_of(const Tensor& b, const Plan& plan, bool table) {
  if (table) return {data(b), 0, b.stride(0), plan.ids.data()};
  return {data(b), b.stride(0), b.stride(1), nullptr};
}

Plan plan_of(const Tensor& b, const Optional& ids, const Optional& permutation, const Optional& lengths, const Optional& reset,
             bool reverse) {
  const Tensor& rows = ids ? *ids : b;
  return Plan(rows.size(0), rows.size(1), b.size(b.dim() - 1), b.size(0), ids, permutation, lengths, reset, reverse);
}

std::tuple<Tensor, Tensor, Tensor> shuffle_scan(const Tensor& b_, const Tensor& h0_, const Optional& ids, const Optional& permutation,
                                                const Optional& lengths, const Optional& reset, bool reverse,
                                                const std::string& activation) {
  const Tensor b = unit_stride(b_), h0 = dense(h0_);
  const Plan plan = plan_of(b, ids, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const bool tanh = activation_of(activation) == Activation::tanh;
  const Tensor output = empty({s.N, s.T, s.H}, b.scalar_type()), h_n = empty({s.N, s.H}, b.scalar_type());
  const Tensor bits = tanh ? empty({0}, ScalarType::Byte)
                           : empty({s.N, s.T, (s.H + kLanes - 1) / kLanes * 8}, ScalarType::Byte);
  Forward f{};
  f.sequence = s;
  f.input = input_of(b, plan, ids.has_value());
  f.activation = activation_of(activation);
  f.h0 = data(h0);
  f.output = data(output);
  f.bits = static_cast<uint8_t*>(data(bits));
  f.h_n = data(h_n);
  const Kernels kernels = kernels_for(type_of(b));
  if (s.N && s.T) parallel(s.N, [&](int64_t n0, int64_t n1) { kernels.forward(f, n0, n1); });
  else if (s.N) std::memcpy(data(h_n), data(h0), h0.numel() * bytes_of(type_of(b)));
  return {output, h_n, bits};
}

std::tuple<Tensor, Tensor> shuffle_scan_final(const Tensor& b_, const Tensor& h0_, const Optional& ids, const Optional& permutation,
                                              const Optional& lengths, const Optional& reset, bool reverse,
                                              const std::string& activation) {
  const Tensor b = unit_stride(b_), h0 = dense(h0_);
  const Plan plan = plan_of(b, ids, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const Type type = type_of(b);
  const Kernels kernels = kernels_for(type);
  const Tensor h_n = empty({s.N, s.H}, b.scalar_type()), last_zero = empty({s.N, s.H}, ScalarType::Int);
  if (const auto blocks = ids && s.N ? plan_blocks(s) : nullptr) {
    const CyclePlan& plan_c = *blocks;
    const Tensor wide = dense(torch::stable::to(b, state_type(type)));
    const Tensor padded = empty({b.size(0), plan_c.cycles.width}, state_type(type));
    if (type == Type::f64) pad_rows(wide, plan_c.cycles, static_cast<double*>(data(padded)));
    else pad_rows(wide, plan_c.cycles, static_cast<float*>(data(padded)));
    TableScan f{};
    f.sequence = s;
    f.cycles = plan_c.cycles;
    f.ids = plan.ids.data();
    f.table = data(padded);
    f.h0 = data(h0);
    f.h_n = data(h_n);
    f.last_zero = static_cast<int32_t*>(data(last_zero));
    f.activation = bounded_activation_of(activation);
    parallel(s.N * f.cycles.blocks, [&](int64_t i0, int64_t i1) { kernels.table_forward(f, i0, i1); });
  } else if (s.N) {
    Forward f{};
    f.sequence = s;
    f.input = input_of(b, plan, ids.has_value());
    f.h0 = data(h0);
    f.h_n = data(h_n);
    f.last_zero = static_cast<int32_t*>(data(last_zero));
    f.activation = bounded_activation_of(activation);
    parallel(s.N, [&](int64_t n0, int64_t n1) { kernels.forward(f, n0, n1); });
  }
  return {h_n, last_zero};
}

// What was kept in the forward pass tells by its type what it is.
void set_kept(Backward& f, const Tensor& kept) {
  if (kept.scalar_type() == ScalarType::Byte) {
    f.kept = Kept::bits;
    f.bits = static_cast<const uint8_t*>(data(kept));
  } else if (kept.scalar_type() == ScalarType::Int) {
    f.kept = Kept::last_zero;
    f.last_zero = static_cast<const int32_t*>(data(kept));
  } else {
    f.kept = Kept::states;
    f.states = data(kept);
  }
}

std::tuple<Tensor, Tensor> shuffle_scan_backward(const Optional& grad_, const Tensor& grad_n_, const Tensor& kept_, const Tensor& like,
                                                 const Optional& ids, const Optional& permutation, const Optional& lengths,
                                                 const Optional& reset, bool reverse) {
  const Tensor grad_n = dense(grad_n_), kept = dense(kept_);
  const Optional grad = grad_ ? Optional(unit_stride(*grad_)) : grad_;
  const Plan plan = plan_of(like, ids, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const Type type = type_of(grad_n);
  const Kernels kernels = kernels_for(type);
  const Tensor dh0 = empty({s.N, s.H}, grad_n.scalar_type());
  Backward f{};
  f.sequence = s;
  f.grad = data(grad);
  if (grad) f.grad_stride_n = grad->stride(0), f.grad_stride_t = grad->stride(1);
  f.grad_n = data(grad_n);
  set_kept(f, kept);
  f.ids = plan.ids.data();
  f.dh0 = data(dh0);
  if (!ids) {
    const Tensor db = empty({s.N, s.T, s.H}, grad_n.scalar_type());
    f.db = data(db);
    if (s.N && s.T) parallel(s.N, [&](int64_t n0, int64_t n1) { kernels.backward(f, n0, n1); });
    else if (s.N) std::memcpy(data(dh0), data(grad_n), grad_n.numel() * bytes_of(type));
    return {db, dh0};
  }
  const int64_t V = like.size(0);
  if (const auto blocks = f.kept == Kept::last_zero ? plan_blocks(s) : nullptr) {
    const CyclePlan& plan_c = *blocks;
    TableScan scan{};
    scan.sequence = s;
    scan.cycles = plan_c.cycles;
    scan.ids = plan.ids.data();
    scan.grad_n = data(grad_n);
    scan.last_zero = const_cast<int32_t*>(f.last_zero);
    scan.dh0 = data(dh0);
    const auto work = [&](int64_t n0, int64_t n1, void* copy) {
      TableScan part = scan;
      part.dtable = copy;
      kernels.table_backward(part, n0, n1);
    };
    return {table_gradient(s, V, s.H, plan_c.cycles.order, type, grad_n.scalar_type(), work), dh0};
  }
  const int64_t width = (s.H + kLanes - 1) / kLanes * kLanes;
  const auto work = [&](int64_t n0, int64_t n1, void* copy) {
    Backward part = f;
    part.table = copy;
    part.table_stride = width;
    kernels.backward(part, n0, n1);
  };
  return {table_gradient(s, V, width, nullptr, type, grad_n.scalar_type(), work), dh0};
}

// ---- b = (z W^T + c) * sigmoid(x U^T + e), made a few sequences at a time

Tensor flat(const Tensor& t) { return torch::stable::view(dense(t), {t.size(0) * t.size(1), t.size(2)}); }
Tensor rows(const Tensor& t, int64_t start, int64_t count) {
  Tensor whole = t;
  return torch::stable::narrow(whole, 0, start, count);
}
Tensor turned(const Tensor& t) { return torch::stable::transpose(t, 0, 1); }

// The tensors of b and the buffers of one chunk of sequences.
struct Drive {
  Tensor z, x, weight;
  Optional bias, gate_weight, gate_bias;
  int64_t N, T, H, chunk;
  bool few;  // the gate's product is made inside the scan
  Tensor r, q;

  Drive(const Tensor& z_, const Tensor& weight_, const Optional& bias_, const Tensor& x_, const Optional& gate_weight_,
        const Optional& gate_bias_, bool may_skip_product)
      : z(flat(z_)), x(flat(x_)), weight(weight_), bias(dense(bias_)), gate_weight(dense(gate_weight_)), gate_bias(dense(gate_bias_)),
        N(z_.size(0)), T(z_.size(1)), H(weight_.size(0)),
        // half precision in one piece: partial sums of its gradients would be rounded to half
        chunk(bytes_of(type_of(z_)) == 2 ? N : std::min(N, std::max<int64_t>(4, kChunk / std::max<int64_t>(1, T * H)))),
        few(may_skip_product && gate_weight && x.size(1) <= kFew && type_of(z_) == Type::f32),
        r(empty({chunk * T, H}, z_.scalar_type())), q(empty({gate_weight && !few ? chunk * T : 0, H}, z_.scalar_type())) {}

  // r and q of `count` sequences from n0 on.
  Gate make(int64_t n0, int64_t count) const {
    mm_out(rows(r, 0, count * T), rows(z, n0 * T, count * T), turned(weight));
    const Tensor inputs = rows(x, n0 * T, count * T);
    if (gate_weight && !few) mm_out(rows(q, 0, count * T), inputs, turned(*gate_weight));
    Gate gate{};
    gate.made = !gate_weight ? Made::without_gate : few ? Made::with_few_inputs : Made::by_products;
    gate.bias = data(bias);
    gate.gate_bias = data(gate_bias);
    gate.r = data(r);
    gate.q = data(q);
    gate.x = data(inputs);
    gate.gate_weight = data(gate_weight);
    gate.C = few ? x.size(1) : 0;
    return gate;
  }
};

// `f` for the sequences from n0 on: the same pointers, further on.
template <class T> T* shifted(T* p, int64_t bytes) {
  return p ? const_cast<T*>(reinterpret_cast<const T*>(reinterpret_cast<const char*>(p) + bytes)) : p;
}
void* shifted(void* p, int64_t bytes) { return p ? static_cast<char*>(p) + bytes : p; }
const void* shifted(const void* p, int64_t bytes) { return p ? static_cast<const char*>(p) + bytes : p; }

Sequence from(const Sequence& s, int64_t n0, int64_t count) {
  Sequence part = s;
  part.N = count;
  if (part.lengths) part.lengths += n0;
  if (part.reset) part.reset += n0 * s.T;
  return part;
}

void run_gated(const Drive& drive, const Forward& whole, Type type) {
  const Kernels kernels = kernels_for(type);
  const Sequence& s = whole.sequence;
  const int64_t row = s.H * bytes_of(type), bits_row = (s.H + kLanes - 1) / kLanes * 8;
  for (int64_t n0 = 0; n0 < s.N; n0 += drive.chunk) {
    const int64_t count = std::min(drive.chunk, s.N - n0);
    Forward f = whole;
    f.sequence = from(s, n0, count);
    f.gate = drive.make(n0, count);
    f.h0 = shifted(f.h0, n0 * row);
    f.h_n = shifted(f.h_n, n0 * row);
    f.output = shifted(f.output, n0 * s.T * row);
    f.bits = shifted(f.bits, n0 * s.T * bits_row);
    f.last_zero = shifted(f.last_zero, n0 * s.H * int64_t{sizeof(int32_t)});
    parallel(count, [&](int64_t a, int64_t b) { kernels.forward(f, a, b); });
  }
}

std::tuple<Tensor, Tensor, Tensor> gated_scan(const Tensor& z, const Tensor& weight, const Optional& bias, const Tensor& x,
                                              const Optional& gate_weight, const Optional& gate_bias, const Tensor& h0_,
                                              const Optional& permutation, const Optional& lengths, const Optional& reset,
                                              bool reverse, const std::string& activation) {
  const Tensor h0 = dense(h0_);
  const Plan plan(z.size(0), z.size(1), weight.size(0), 0, std::nullopt, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const bool tanh = activation_of(activation) == Activation::tanh;
  const Tensor output = empty({s.N, s.T, s.H}, z.scalar_type()), h_n = empty({s.N, s.H}, z.scalar_type());
  const Tensor bits = tanh ? empty({0}, ScalarType::Byte)
                           : empty({s.N, s.T, (s.H + kLanes - 1) / kLanes * 8}, ScalarType::Byte);
  Forward f{};
  f.sequence = s;
  f.activation = activation_of(activation);
  f.h0 = data(h0);
  f.output = data(output);
  f.bits = static_cast<uint8_t*>(data(bits));
  f.h_n = data(h_n);
  if (s.N && s.T) run_gated(Drive(z, weight, bias, x, gate_weight, gate_bias, !tanh), f, type_of(z));
  else if (s.N) std::memcpy(data(h_n), data(h0), h0.numel() * bytes_of(type_of(z)));
  return {output, h_n, bits};
}

std::tuple<Tensor, Tensor> gated_scan_final(const Tensor& z, const Tensor& weight, const Optional& bias, const Tensor& x,
                                            const Optional& gate_weight, const Optional& gate_bias, const Tensor& h0_,
                                            const Optional& permutation, const Optional& lengths, const Optional& reset,
                                            bool reverse, const std::string& activation) {
  const Tensor h0 = dense(h0_);
  const Plan plan(z.size(0), z.size(1), weight.size(0), 0, std::nullopt, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const Tensor h_n = empty({s.N, s.H}, z.scalar_type()), last_zero = empty({s.N, s.H}, ScalarType::Int);
  Forward f{};
  f.sequence = s;
  f.h0 = data(h0);
  f.h_n = data(h_n);
  f.last_zero = static_cast<int32_t*>(data(last_zero));
  f.activation = bounded_activation_of(activation);
  if (s.N) run_gated(Drive(z, weight, bias, x, gate_weight, gate_bias, true), f, type_of(z));
  return {h_n, last_zero};
}

// sum += part, `repeat` times in a row, element by element.
void add_to(const Tensor& sum, const Tensor& part, int64_t repeat) {
  const auto add = [&](auto* a, const auto* b) {
    const int64_t count = sum.numel();
    for (int64_t n = 0; n < repeat; ++n, b += count)
      for (int64_t i = 0; i < count; ++i) a[i] += b[i];
  };
  if (sum.scalar_type() == ScalarType::Double) add(static_cast<double*>(data(sum)), static_cast<const double*>(data(part)));
  else add(static_cast<float*>(data(sum)), static_cast<const float*>(data(part)));
}

// Gradients of one linear map y = v M^T + c, chunk after chunk. The kernel leaves dc of each sequence in `bias_rows`, and for
// few inputs dM^T in `weight_rows`.
struct MapGradient {
  bool need_v, need_m, few, wide;  // wide: dM is summed as [C, H], the faster product when v has few columns
  Tensor dv, weight, part, bias, bias_rows, weight_rows;

  MapGradient(const Tensor& v, int64_t chunk, int64_t H, bool need_v_, bool need_m_, bool few_)
      : need_v(need_v_), need_m(need_m_), few(few_), wide(few || v.size(1) < 16),
        dv(empty({need_v ? v.size(0) : 0, v.size(1)}, v.scalar_type())),
        weight(wide ? empty({v.size(1), H}, v.scalar_type()) : empty({H, v.size(1)}, v.scalar_type())),
        part(torch::stable::empty_like(weight)), bias(empty({H}, state_type(type_of(v)))),
        bias_rows(empty({chunk, H}, state_type(type_of(v)))),
        weight_rows(empty({few ? chunk : 0, v.size(1), H}, state_type(type_of(v)))) {
    torch::stable::zero_(weight);
    torch::stable::zero_(bias);
  }
  // dy [rows, H] and v [rows, C] of `sequences` sequences; v's own gradient goes to the rows from `start` on.
  void add(const Tensor& dy, const Tensor& v, const Tensor& m, int64_t start, int64_t sequences, bool only) {
    if (need_v) mm_out(rows(dv, start, v.size(0)), dy, m);
    if (!need_m) return;
    add_to(bias, bias_rows, sequences);
    if (few) return add_to(weight, weight_rows, sequences);
    const Tensor& to = only ? weight : part;
    wide ? mm_out(to, turned(v), dy) : mm_out(to, turned(dy), v);
    if (!only) add_to(weight, part, 1);
  }
  Tensor weight_gradient() const { return wide ? dense(turned(weight)) : weight; }
};

using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
Seven gated_scan_backward(const Optional& grad_, const Tensor& grad_n_, const Tensor& kept_, const Tensor& z, const Tensor& weight,
                          const Optional& bias, const Tensor& x, const Optional& gate_weight, const Optional& gate_bias,
                          const Optional& permutation, const Optional& lengths, const Optional& reset, bool reverse,
                          const std::vector<int64_t>& needs) {
  const Tensor grad_n = dense(grad_n_), kept = dense(kept_);
  const Optional grad = grad_ ? Optional(unit_stride(*grad_)) : grad_;
  const Plan plan(z.size(0), z.size(1), weight.size(0), 0, std::nullopt, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const Type type = type_of(z);
  const Kernels kernels = kernels_for(type);
  const Drive drive(z, weight, bias, x, gate_weight, gate_bias, !needs[2] && (kept.scalar_type() == ScalarType::Byte || kept.scalar_type() == ScalarType::Int));
  const Tensor dh0 = empty({s.N, s.H}, z.scalar_type());
  const auto nothing = [&] { return empty({0}, z.scalar_type()); };
  MapGradient f_map(drive.z, drive.chunk, s.H, needs[0], needs[1], false);
  MapGradient g_map(drive.x, drive.chunk, s.H, needs[2] && gate_weight, needs[3] && gate_weight, drive.few);
  Backward whole{};
  whole.sequence = s;
  whole.grad = data(grad);
  if (grad) whole.grad_stride_n = grad->stride(0), whole.grad_stride_t = grad->stride(1);
  whole.grad_n = data(grad_n);
  set_kept(whole, kept);
  whole.dh0 = data(dh0);
  const int64_t row = s.H * bytes_of(type), bits_row = (s.H + kLanes - 1) / kLanes * 8;
  for (int64_t n0 = 0; n0 < s.N; n0 += drive.chunk) {
    const int64_t count = std::min(drive.chunk, s.N - n0), steps = count * s.T;
    Backward f = whole;
    f.sequence = from(s, n0, count);
    f.gate = drive.make(n0, count);
    f.gate.bias_sum = data(f_map.bias_rows);
    f.gate.gate_sum = data(g_map.bias_rows);
    f.gate.weight_sum = data(g_map.weight_rows);
    f.grad = shifted(f.grad, n0 * f.grad_stride_n * bytes_of(type));
    f.grad_n = shifted(f.grad_n, n0 * row);
    f.bits = shifted(f.bits, n0 * s.T * bits_row);
    f.states = shifted(f.states, n0 * s.T * row);
    f.last_zero = shifted(f.last_zero, n0 * s.H * int64_t{sizeof(int32_t)});
    f.dh0 = shifted(f.dh0, n0 * row);
    parallel(count, [&](int64_t a, int64_t b) { kernels.backward(f, a, b); });
    const bool only = drive.chunk == s.N;
    const Tensor dq = rows(drive.q, 0, drive.few || !gate_weight ? 0 : steps);
    f_map.add(rows(drive.r, 0, steps), rows(drive.z, n0 * s.T, steps), drive.weight, n0 * s.T, count, only);
    if (gate_weight) g_map.add(dq, rows(drive.x, n0 * s.T, steps), *gate_weight, n0 * s.T, count, only);
  }
  const auto sized = [&](const Tensor& t, const Tensor& like) { return torch::stable::view(t, {like.size(0), like.size(1), like.size(2)}); };
  const auto typed = [&](const Tensor& t) { return t.scalar_type() == z.scalar_type() ? t : torch::stable::to(t, z.scalar_type()); };
  return {needs[0] ? sized(f_map.dv, z) : nothing(),
          needs[1] ? f_map.weight_gradient() : nothing(),
          needs[1] && bias ? typed(f_map.bias) : nothing(),
          needs[2] && gate_weight ? sized(g_map.dv, x) : nothing(),
          needs[3] && gate_weight ? g_map.weight_gradient() : nothing(),
          needs[3] && gate_bias ? typed(g_map.bias) : nothing(),
          dh0};
}

// ---- one step

Tensor made_like(const Tensor& t) { return empty(t.sizes(), t.scalar_type()); }

// The linear maps of f_r in order, then the gate: `maps` holds a weight and, with `bias`, a bias for each.
struct CellPlan {
  std::vector<Tensor> held;  // dense forms of the tensors below
  std::vector<Map> hidden;
  std::vector<int64_t> source;
  Cell cell{};

  CellPlan(const Tensor& x, const Tensor& h, const std::vector<Tensor>& maps, const Optional& permutation, bool gate, bool bias,
           const std::string& activation) {
    const int64_t each = bias ? 2 : 1, count = static_cast<int64_t>(maps.size()) / each, depth = count - 1 - (gate ? 1 : 0);
    require(maps.size() % each == 0 && depth >= 0, "cell: maps must hold f_r's linear maps and the gate");
    const int64_t H = h.size(h.dim() - 1), C = x.size(x.dim() - 1), N = x.numel() / std::max<int64_t>(1, C);
    require(h.numel() == N * H, "cell: x and h must have the same rows");
    held.reserve(maps.size() + 2);
    int64_t width = C;
    for (int64_t i = 0; i < count; ++i) {
      const bool is_gate = gate && i == count - 1;
      const int64_t columns = is_gate ? C : width, rows = maps[i * each].size(0);
      require(has_shape(maps[i * each], {rows, columns}) && (i < depth || rows == H), "cell: a weight does not fit");
      require(!bias || has_shape(maps[i * each + 1], {rows}), "cell: a bias does not fit");
      const void* weight = pointer(maps[i * each], x);
      const Map map{weight, bias ? pointer(maps[i * each + 1], x) : nullptr, rows};
      if (i < depth) hidden.push_back(map), width = rows;
      else (is_gate ? cell.gate : cell.linear) = map;
    }
    if (permutation) {
      source = integers<int64_t>(permutation, H, "permutation", " must hold each of 0 .. " + std::to_string(H - 1) + " once");
      require(static_cast<int64_t>(source.size()) == H, "cell: the permutation does not fit");
      cell.source = source.data();
    }
    cell.N = N;
    cell.C = C;
    cell.H = H;
    cell.depth = depth;
    cell.hidden = hidden.data();
    cell.activation = activation_of(activation);
    cell.x = pointer(x, x);
    cell.h = pointer(h, x);
  }
  const void* pointer(const Tensor& t, const Tensor& like) {
    require(t.scalar_type() == like.scalar_type(), "cell: the tensors must be of one dtype");
    held.push_back(dense(t));
    return data(held.back());
  }
};

void (*cell_kernel(const Tensor& x))(const Cell&) {
  const auto kernel = kernels_for(type_of(x)).cell;
  require(kernel, "cell takes float32 or float64");
  return kernel;
}

Tensor cell(const Tensor& x, const Tensor& h, const std::vector<Tensor>& maps, const Optional& permutation, bool gate, bool bias,
            const std::string& activation) {
  const auto kernel = cell_kernel(x);
  CellPlan plan(x, h, maps, permutation, gate, bias, activation);
  const Tensor out = made_like(h);
  plan.cell.out = data(out);
  kernel(plan.cell);
  return out;
}

// Gradients of x, h and the maps, in this order; empty where `needs` has 0.
std::vector<Tensor> cell_backward(const Tensor& grad, const Tensor& x, const Tensor& out, const std::vector<Tensor>& maps,
                                  const Optional& permutation, bool gate, bool bias, const std::string& activation,
                                  const std::vector<int64_t>& needs) {
  cell_kernel(x);
  CellPlan plan(x, out, maps, permutation, gate, bias, activation);
  require(needs.size() == maps.size() + 2, "cell_backward: needs must have a number for x, h and each map");
  require(grad.numel() == out.numel() && grad.scalar_type() == x.scalar_type(), "cell_backward: grad must be like out");
  const Tensor g = dense(grad);
  std::vector<Tensor> found;
  const auto made = [&](const Tensor& like, int64_t need) {
    found.push_back(need ? made_like(like) : empty({0}, x.scalar_type()));
    return need ? data(found.back()) : nullptr;
  };
  CellGradient gradient{};
  gradient.grad = data(g);
  gradient.dx = made(x, needs[0]);
  gradient.dh = made(out, needs[1]);
  std::vector<MapGradientOut> each;
  for (size_t i = 0, step = bias ? 2 : 1; i < maps.size(); i += step) {
    void* weight = made(maps[i], needs[i + 2]);
    each.push_back({weight, bias ? made(maps[i + 1], needs[i + 3]) : nullptr});
  }
  if (gate) gradient.gate = each.back(), each.pop_back();
  gradient.linear = each.back();
  gradient.hidden = each.data();
  plan.cell.out = const_cast<void*>(plan.cell.h);
  kernels_for(type_of(x)).cell_backward(plan.cell, gradient);
  return found;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(srnn, CPU, m) {
  m.impl("shuffle_scan", TORCH_BOX(&shuffle_scan));
  m.impl("shuffle_scan_final", TORCH_BOX(&shuffle_scan_final));
  m.impl("shuffle_scan_backward", TORCH_BOX(&shuffle_scan_backward));
  m.impl("gated_scan", TORCH_BOX(&gated_scan));
  m.impl("gated_scan_final", TORCH_BOX(&gated_scan_final));
  m.impl("gated_scan_backward", TORCH_BOX(&gated_scan_backward));
  m.impl("cell", TORCH_BOX(&cell));
  m.impl("cell_backward", TORCH_BOX(&cell_backward));
}
