// Small things that the operators share: tensors by their numbers, work split over rows, matrix products.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <initializer_list>

namespace srnn {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Asked first, since a call of torch's dispatcher takes longer than a small kernel.
inline Tensor dense(const Tensor& t) { return t.is_contiguous() ? t : torch::stable::contiguous(t); }

// `data` is for results, `read` for what only is read: torch may share the memory of an argument with other tensors.
template <class S> S* data(const Tensor& t) { return static_cast<S*>(t.mutable_data_ptr()); }
template <class S> const S* read(const Tensor& t) { return static_cast<const S*>(t.const_data_ptr()); }

inline bool has_shape(const Tensor& t, std::initializer_list<int64_t> shape) {
  if (t.dim() != static_cast<int64_t>(shape.size())) return false;
  int64_t i = 0;
  for (int64_t size : shape)
    if (t.size(i++) != size) return false;
  return true;
}

// `f` with a zero of the type that the numbers have.
template <class F> void by_type(const Tensor& t, const F& f) {
  if (t.scalar_type() == ScalarType::Float) return f(float(0));
  return f(double(0));
}

// out = a b, for matrices.
inline void mm_out(const Tensor& out, const Tensor& a, const Tensor& b) {
  std::array<StableIValue, 3> stack{torch::stable::detail::from(a), torch::stable::detail::from(b),
                                    torch::stable::detail::from(out)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::mm", "out", stack.data(), TORCH_ABI_VERSION));
  torch::stable::detail::to<Tensor>(stack[0]);  // takes back the reference that the call returned
}

}  // namespace srnn
