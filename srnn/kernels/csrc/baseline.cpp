// The kernels for any processor.
#include "kernels.h"

namespace srnn::baseline {
#include "kernels.inl"
}
