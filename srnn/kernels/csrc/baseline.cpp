// The kernels for any processor.
#include "kernels.h"

namespace srnn::baseline {
#include "shuffle_scan.inl"
}
