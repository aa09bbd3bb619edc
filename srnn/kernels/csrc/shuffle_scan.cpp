// The operators srnn::shuffle_scan* for the CPU, through torch's stable ABI: check the arguments, split the work, call the
// kernels.
//
// Work is split over sequences, in time without a change of results (split.h), or into a number of parts that depends on the
// shapes alone, so the bits do not depend on the number of threads. ops.py has the schemas, the shapes for tracing and the
// derivatives.

#include <memory>
#include <numeric>

#include "split.h"

namespace {

using namespace srnn;

// The units along the cycles of the permutation, and blocks of 64 lanes within them.
struct CyclePlan {
  std::vector<int64_t> length, padded, first;
  std::vector<int32_t> unit, order, cycle;
  Cycles cycles;

  explicit CyclePlan(const Sequence& s) {
    const bool turn = s.link != Link::identity;
    if (turn) {
      Orbits orbits(s);
      order = std::move(orbits.order);
      length = std::move(orbits.length);
    } else {
      order.resize(s.H);
      std::iota(order.begin(), order.end(), 0);
      length.push_back(s.H);
    }
    int64_t begin = 0;
    for (size_t l = 0; l < length.size(); begin += length[l++]) {
      const int64_t L = length[l], blocks = (L + kLanes - 1) / kLanes;
      padded.push_back(unit.size());
      for (int64_t j = 0; j < (blocks + 1) * kLanes; ++j) unit.push_back(order[begin + j % L]);
      for (int64_t j = 0; j < blocks; ++j) {
        cycle.push_back(l);
        first.push_back(j * kLanes);
      }
    }
    cycles = {turn,          static_cast<int64_t>(length.size()),
              length.data(), padded.data(),
              unit.data(),   static_cast<int64_t>(unit.size()),
              order.data(),  static_cast<int64_t>(first.size()),
              cycle.data(),  first.data()};
  }
};

// The plan, or null where cycles are so short that most lanes of their blocks would be idle, or where the two copies of a row
// have more places than an int32 counts.
std::unique_ptr<const CyclePlan> plan_blocks(const Sequence& s) {
  if (s.H >= 1 << 30) return nullptr;
  auto plan = std::make_unique<const CyclePlan>(s);
  return plan->cycles.blocks * kLanes <= 4 * (s.H + kLanes) ? std::move(plan) : nullptr;
}

// table [V, H] -> [V, width], in the state's type and the order of the cycles.
template <class S> void pad_rows(const Tensor& table, const Cycles& c, S* padded) {
  const int64_t V = table.size(0), H = table.size(1);
  const S* from = read<S>(table);
  parallel(V, [&](int64_t v0, int64_t v1) {
    for (int64_t v = v0; v < v1; ++v)
      for (int64_t i = 0; i < c.width; ++i) padded[v * c.width + i] = from[v * H + c.unit[i]];
  });
}

// Adds up the private copies [parts, V, width] of a table's gradient, in order; place i of a row is unit order[i] of [V, H].
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

// The number of private copies of a table's gradient: enough for the threads, few enough to be added up cheaply.
int64_t parts_for(int64_t N, int64_t T, int64_t V) {
  return std::max<int64_t>(1, std::min({N, int64_t{16}, N * T / std::max<int64_t>(1, 64 * V)}));
}

// Runs `work(n0, n1, copy)` for each part, with a zeroed copy of its own, and returns the summed gradient [V, H].
template <class F>
Tensor table_gradient(const Sequence& s, int64_t V, int64_t width, const int32_t* order, Type type, ScalarType dtype,
                      const F& work) {
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
  if (type == Type::f64) fold_rows(read<double>(copies), parts, V, width, s.H, order, data<double>(out));
  else fold_rows(read<float>(copies), parts, V, width, s.H, order, data<float>(out));
  return out.scalar_type() == dtype ? out : torch::stable::to(out, dtype);
}

Input input_of(const Tensor& b, const Plan& plan, bool table) {
  if (table) return {read(b), 0, b.stride(0), plan.ids.data()};
  return {read(b), b.stride(0), b.stride(1), nullptr};
}

// Checks what all forms of a scan over b take.
Plan plan_of(const Shape& shape, const Tensor& b, const Optional& ids, const Optional& permutation, const Optional& lengths,
             const Optional& reset, bool reverse) {
  check_borders(shape, permutation, lengths, reset);
  return Plan(shape, b.size(0), ids, permutation, lengths, reset, reverse);
}

std::tuple<Tensor, Tensor, Tensor> shuffle_scan(const Tensor& b_, const Tensor& h0_, const Optional& ids,
                                                const Optional& permutation, const Optional& lengths, const Optional& reset,
                                                bool reverse, const std::string& activation) {
  const Shape shape = check_scan_input("b", b_, ids);
  check("h0", h0_, "[N, H]", {shape.N, shape.H}, {b_.scalar_type()});
  const Plan plan = plan_of(shape, b_, ids, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const Tensor b = unit_stride(b_), h0 = dense(h0_);
  StatesOut out(s, h0, activation);
  out.forward.input = input_of(b, plan, ids.has_value());
  if (s.N && s.T) run_forward(kernels_for(type_of(b)), out.forward, 0, s.N, type_of(b));
  else if (s.N) out.copy_state(h0);
  return out.results();
}

// The last state from a table, by lanes.
void run_lanes(const Tensor& table, const Plan& plan, const Cycles& cycles, const Forward& f, Type type) {
  const Tensor wide = dense(torch::stable::to(table, state_type(type)));
  const Tensor padded = empty({table.size(0), cycles.width}, state_type(type));
  if (type == Type::f64) pad_rows(wide, cycles, data<double>(padded));
  else pad_rows(wide, cycles, data<float>(padded));
  TableScan scan{};
  scan.sequence = f.sequence;
  scan.cycles = cycles;
  scan.activation = f.activation;
  scan.ids = plan.ids.data();
  scan.table = read(padded);
  scan.h0 = f.h0;
  scan.h_n = f.h_n;
  scan.last_zero = f.last_zero;
  const Kernels kernels = kernels_for(type);
  parallel(f.sequence.N * cycles.blocks, [&](int64_t i0, int64_t i1) { kernels.table_forward(scan, i0, i1); });
}

std::tuple<Tensor, Tensor> shuffle_scan_final(const Tensor& b_, const Tensor& h0_, const Optional& ids,
                                              const Optional& permutation, const Optional& lengths, const Optional& reset,
                                              bool reverse, const std::string& activation) {
  const Shape shape = check_scan_input("b", b_, ids);
  check("h0", h0_, "[N, H]", {shape.N, shape.H}, {b_.scalar_type()});
  const Plan plan = plan_of(shape, b_, ids, permutation, lengths, reset, reverse);
  const Sequence& s = plan.sequence;
  const Tensor b = unit_stride(b_), h0 = dense(h0_);
  LastStateOut out(s, h0, activation);
  if (const auto blocks = ids && s.N ? plan_blocks(s) : nullptr) {
    run_lanes(b, plan, blocks->cycles, out.forward, type_of(b));
  } else if (s.N) {
    out.forward.input = input_of(b, plan, ids.has_value());
    run_forward(kernels_for(type_of(b)), out.forward, 0, s.N, type_of(b));
  }
  return out.results();
}

std::tuple<Tensor, Tensor> shuffle_scan_backward(const Optional& grad_, const Tensor& grad_n_, const Tensor& kept_,
                                                 const Tensor& like, const Optional& ids, const Optional& permutation,
                                                 const Optional& lengths, const Optional& reset, bool reverse) {
  const Shape shape = check_scan_input("like", like, ids);
  check_gradients(shape, like.scalar_type(), grad_, grad_n_, kept_);
  const Plan plan = plan_of(shape, like, ids, permutation, lengths, reset, reverse);
  const Tensor grad_n = dense(grad_n_), kept = dense(kept_);
  const Optional grad = unit_stride(grad_);
  const Sequence& s = plan.sequence;
  const Type type = type_of(grad_n);
  const Kernels kernels = kernels_for(type);
  const Tensor dh0 = empty({s.N, s.H}, grad_n.scalar_type());
  Backward f = backward_of(s, grad, grad_n, kept, dh0);
  f.ids = plan.ids.data();
  if (!ids) {
    const Tensor db = empty({s.N, s.T, s.H}, grad_n.scalar_type());
    f.db = data(db);
    if (s.N && s.T) run_backward(kernels, f, type);
    else if (s.N) std::memcpy(data(dh0), read(grad_n), grad_n.numel() * bytes_of(type));
    return {db, dh0};
  }
  const int64_t V = like.size(0);
  if (const auto blocks = f.kept == Kept::last_zero ? plan_blocks(s) : nullptr) {
    TableScan scan{};
    scan.sequence = s;
    scan.cycles = blocks->cycles;
    scan.ids = plan.ids.data();
    scan.grad_n = read(grad_n);
    scan.kept = f.last_zero;
    scan.dh0 = data(dh0);
    const auto work = [&](int64_t n0, int64_t n1, void* copy) {
      TableScan part = scan;
      part.dtable = copy;
      kernels.table_backward(part, n0, n1);
    };
    return {table_gradient(s, V, s.H, blocks->cycles.order, type, grad_n.scalar_type(), work), dh0};
  }
  const int64_t width = groups_of(s.H) * kLanes;
  const auto work = [&](int64_t n0, int64_t n1, void* copy) {
    Backward part = f;
    part.table = copy;
    part.table_stride = width;
    kernels.backward(part, n0, n1);
  };
  return {table_gradient(s, V, width, nullptr, type, grad_n.scalar_type(), work), dh0};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(srnn, CPU, m) {
  m.impl("shuffle_scan", TORCH_BOX(&shuffle_scan));
  m.impl("shuffle_scan_final", TORCH_BOX(&shuffle_scan_final));
  m.impl("shuffle_scan_backward", TORCH_BOX(&shuffle_scan_backward));
}
