// The kernels for x86 processors with AVX2; `kernels_for` in plan.h asks the processor before it calls them.
#include "kernels.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#define SRNN_AVX2  // __AVX2__ would not do: g++ 12 reads the whole file before it looks at the pragma
namespace srnn::avx2 {
#include "kernels.inl"
}
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
