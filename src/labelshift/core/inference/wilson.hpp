#pragma once

namespace labelshift {

/// The values of a share that an estimate q of it does not contradict: z standard errors to each side, where a standard
/// error is that of the value and not of the estimate. Within [0, 1], and not empty where q is 0 or 1.
struct WilsonInterval {
  double low, high;
};

/// Wilson's interval: q was counted among `rows` rows, with a variance of q (1 - q) / rows.
WilsonInterval wilson_interval(double q, double rows, double z);

/// That of 95 %.
WilsonInterval wilson_interval(double q, double rows);

/// The same for an estimate whose `variance` has two more parts: what overlapping classes add, which does not depend on
/// q, and that of the source. Without these two this is Wilson's interval, with the first alone and no end of rows
/// Wald's.
///
/// A wrong calibration multiplies a share, so the source would blur a larger share more. The upper end takes the
/// source's part to grow like a count's, the lower end does not take it to shrink.
WilsonInterval wilson_interval(double q, double variance, double of_source, double rows, double z);

}  // namespace labelshift
