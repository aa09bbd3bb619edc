// Checks of single arguments, for the operators of both libraries: an exported graph can call them with anything, and the
// kernels walk pointers by the sizes alone. A message names the argument, what was expected and what came. Texts are made on
// failure only.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "tensors.h"

namespace srnn {

[[noreturn]] inline void refuse(const std::string& message) { throw std::runtime_error(message); }

// The name of an argument, with a place for an element of a list.
struct Name {
  const char* text;
  int64_t place;
  Name(const char* text_, int64_t place_ = -1) : text(text_), place(place_) {}
  operator std::string() const { return place < 0 ? text : std::string(text) + "[" + std::to_string(place) + "]"; }
};
inline std::string must(const Name& name, const std::string& expected) { return std::string(name) + " must " + expected; }

template <class Sizes> std::string text_of(const Sizes& sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + (sizes.size() == 1 ? ",)" : ")");
}
inline std::string text_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float: return "float32";
    case ScalarType::Double: return "float64";
    case ScalarType::BFloat16: return "bfloat16";
    case ScalarType::Half: return "float16";
    case ScalarType::Byte: return "uint8";
    case ScalarType::Int: return "int32";
    case ScalarType::Long: return "int64";
    case ScalarType::Bool: return "bool";
    default: return torch::headeronly::toString(type);
  }
}

using Types = std::initializer_list<ScalarType>;
constexpr Types kFloats = {ScalarType::Float, ScalarType::Double, ScalarType::BFloat16, ScalarType::Half};
constexpr Types kWideFloats = {ScalarType::Float, ScalarType::Double};
constexpr Types kIndices = {ScalarType::Int, ScalarType::Long};
constexpr Types kSymbols = {ScalarType::Byte, ScalarType::Int, ScalarType::Long};

// One of these types, in dense memory of the CPU.
inline void check_type(const Name& name, const Tensor& t, Types types) {
  const ScalarType type = t.scalar_type();
  bool found = false;
  for (ScalarType each : types) found |= each == type;
  if (!found) {
    std::string expected;
    size_t i = 0;
    for (ScalarType each : types) expected += (i == 0 ? "" : i + 1 == types.size() ? " or " : ", ") + text_of(each), ++i;
    refuse(must(name, "be " + expected + ", got " + text_of(type)));
  }
  if (!t.is_cpu()) refuse(must(name, "be on cpu like the rest, got another device"));
  int32_t layout;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_layout(t.get(), &layout));
  if (layout != aoti_torch_layout_strided()) refuse(must(name, "have layout torch.strided, got another"));
}
inline void check_rank(const Name& name, const Tensor& t, const char* axes, int64_t rank) {
  if (t.dim() != rank) refuse(must(name, std::string("be ") + axes + ", got shape " + text_of(t.sizes())));
}
inline void check_sizes(const Name& name, const Tensor& t, const char* axes, std::initializer_list<int64_t> sizes) {
  if (has_shape(t, sizes)) return;
  refuse(must(name, std::string("be ") + axes + " = " + text_of(sizes) + ", got " + text_of(t.sizes())));
}
inline void check(const Name& name, const Tensor& t, const char* axes, std::initializer_list<int64_t> sizes, Types types) {
  check_sizes(name, t, axes, sizes);
  check_type(name, t, types);
}
// The kernels count steps, rows of a table and units in int32.
inline void check_below_limit(const Name& name, const char* axis, int64_t extent) {
  if (extent < int64_t{1} << 31) return;
  refuse(must(name, std::string("have ") + axis + " below 2^31, got " + axis + " = " + std::to_string(extent)));
}
// One of the names of a table; every entry has a `name`.
template <class Table> const auto& check_named(const char* kind, const std::string& name, const Table& table) {
  std::string names;
  for (const auto& each : table) {
    if (name == each.name) return each;
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  refuse(std::string("no ") + kind + " is called '" + name + "'. Choose one of " + names);
}

}  // namespace srnn
