#pragma once

#include <functional>

#include "labelshift/core/base/matrix_view.hpp"

namespace labelshift {

/// Runs job(0), ..., job(jobs - 1), each once, on up to `workers` threads; 0 means one a core. Jobs must not depend on
/// each other: which thread runs which, and when, is left to chance. After an exception no job is started;
/// those that run are waited for, and the first exception is thrown here.
void run_in_parallel(Index jobs, unsigned workers, const std::function<void(Index job)>& job);

}  // namespace labelshift
