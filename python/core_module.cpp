// labelshift._core: the calls of the C++ library on NumPy arrays. What is pleasant about the Python package is in
// labelshift/*.py; this is what those stand on.

#include <fmt/format.h>
#include <pybind11/eigen.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "labelshift/core/base/blas.hpp"
#include "labelshift/core/base/error.hpp"
#include "labelshift/core/base/version.hpp"
#include "labelshift/core/calibration/calibration_choice.hpp"
#include "labelshift/core/correction.hpp"
#include "labelshift/core/estimators/estimators.hpp"
#include "labelshift/core/label_shift.hpp"
#include "labelshift/core/likelihood/renormalise.hpp"
#include "labelshift/core/stream.hpp"
#include "labelshift/report/label_shift_report.hpp"
#include "labelshift/report/prior_plot.hpp"
#include "labelshift/report/watch_report.hpp"

namespace py = pybind11;

namespace labelshift::python {
namespace {

/// What to write: the only table from remedy to arguments. It goes on from the message.
const char* advice(Remedy remedy) {
  switch (remedy) {
    case Remedy::kLogits:
      return "; use logits=True for raw scores";
    case Remedy::kLogitsOrRenormalise:
      return "; use logits=True for raw scores or renormalise=True for rounded ones";
    case Remedy::kLogitsOrColumns:
      return "; use logits=True for raw scores, or leave a column that is no class out";
    case Remedy::kColumns:
      return "; leave a column that is no class out";
    case Remedy::kTrainingPrior:
      return "; give the class mix it was trained on with source_prior. Only if it was never trained on the class, "
             "leave its column out instead, with renormalise=True";
    case Remedy::kTolerance:
      return " with settings={\"tolerance\": ...}";
    case Remedy::kIterations:
      return " (settings={\"max-iterations\": ...} or settings={\"tolerance\": ...})";
    case Remedy::kEstimator:
      return " with estimator=...";
    case Remedy::kCalibration:
      return " with calibration=...";
    case Remedy::kCorrectIfFits:
      return "; if_fits=True leaves them alone then";
    case Remedy::kCorrectAnyway:
      return "; drop if_fits=True to have them corrected anyway";
    case Remedy::kNone:
    case Remedy::kOwnLabels:  // the rest is about files, nets and runs, which this module does not know
    case Remedy::kDatasetSource:
    case Remedy::kGetDataset:
    case Remedy::kCpu:
    case Remedy::kMovedNet:
    case Remedy::kOutputFolder:
    case Remedy::kResume:
      return "";
  }
  return "";
}

std::vector<std::string> sentences(const std::vector<Warning>& warnings) {
  std::vector<std::string> texts;
  for (const Warning& warning : warnings) texts.push_back(warning.sentence + advice(warning.remedy));
  return texts;
}

/// Rows of an array where they are: the array must outlive the view, which the caller's reference sees to.
MatrixView view_of(const py::array& array) {
  if (array.ndim() != 2)
    throw Error(
        ErrorKind::kInput,
        fmt::format("found an array of {} dimensions, expected two: a row an example, a column a class", array.ndim()));
  const auto view = [&](const auto* data) {
    constexpr auto size = static_cast<py::ssize_t>(sizeof *data);
    for (int axis = 0; axis < 2; ++axis)
      if (array.strides(axis) < 0 || array.strides(axis) % size != 0)
        throw Error(ErrorKind::kUsage, "the array does not lie in memory as a matrix; make a copy of it");
    return MatrixView(data, array.shape(0), array.shape(1), array.strides(0) / size, array.strides(1) / size);
  };
  if (py::isinstance<py::array_t<float>>(array)) return view(static_cast<const float*>(array.data()));
  if (py::isinstance<py::array_t<double>>(array)) return view(static_cast<const double*>(array.data()));
  throw Error(ErrorKind::kUsage, "found an array of another type than float32 and float64");
}

using Labels = py::array_t<int, py::array::c_style>;
using Numbers = py::array_t<double, py::array::c_style>;

template <typename T>
std::vector<T> values_of(const std::optional<py::array_t<T, py::array::c_style>>& array) {
  if (!array) return {};
  if (array->ndim() != 1)
    throw Error(ErrorKind::kInput,
                fmt::format("found labels, weights or a prior of {} dimensions, expected one", array->ndim()));
  return {array->data(), array->data() + array->size()};
}

/// Keeps BLAS on one thread while the library works, so that results have the bits of the command's on any number of
/// cores. OpenBLAS on OpenMP has a number for each calling thread, so no other one notices.
class OneBlasThread {
 public:
  OneBlasThread() { use_blas_threads(1); }
  ~OneBlasThread() { use_blas_threads(before_); }
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;

 private:
  int before_ = blas_threads();
};

/// Runs work without the GIL, which Ctrl-C can stop: signals are looked for whenever the library tells of progress.
/// Python handles them in its main thread alone; elsewhere none is found, and the work is done.
template <typename Work>
auto without_gil(Work&& work) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetweenLooks{20};
  const auto caller = std::this_thread::get_id();
  auto looked = Clock::now();
  const Observer observer = [&](std::string_view, double) {
    if (std::this_thread::get_id() != caller || Clock::now() - looked < kBetweenLooks) return true;
    const py::gil_scoped_acquire gil;
    looked = Clock::now();
    return PyErr_CheckSignals() == 0;
  };
  try {
    const py::gil_scoped_release release;
    const OneBlasThread one_blas_thread;
    return work(observer);
  } catch (const Stopped&) {
    throw py::error_already_set();  // what the signal's handler raised, which for Ctrl-C is KeyboardInterrupt
  }
}

/// What is known of the source. The probabilities stay in the caller's array, which must outlive this.
struct Source {
  std::optional<MatrixView> probs;
  std::vector<int> labels;
  std::vector<double> weights;
  std::optional<Eigen::VectorXd> prior;
  std::vector<std::string> class_names;  // (m) or empty; for messages
  bool logits;

  Source(const std::optional<py::array>& of_probs, const std::optional<Labels>& of_labels,
         const std::optional<Numbers>& of_weights, const std::optional<Numbers>& of_prior,
         const std::vector<std::string>& names, bool are_logits)
      : labels(values_of(of_labels)), weights(values_of(of_weights)), class_names(names), logits(are_logits) {
    if (of_probs) probs = view_of(*of_probs);
    if (!of_prior) return;
    const std::vector<double> values = values_of(of_prior);
    prior = Eigen::Map<const Eigen::VectorXd>(values.data(), std::ssize(values));
  }

  /// Checks the rows.
  std::optional<SourceExamples> examples() const {
    if (!probs) return std::nullopt;
    return SourceExamples{Scores(*probs, logits, "source probabilities"), labels, weights};
  }
};

Settings settings_for(const std::string& estimator, std::map<std::string, std::string> settings, std::uint64_t seed) {
  if (has_setting(find_estimator(estimator), "seed")) settings.try_emplace("seed", std::to_string(seed));
  return Settings(std::move(settings));
}

/// Rows corrected at a time.
constexpr Index kRows = 4096;

template <typename Scalar>
py::array corrected_as(const Correction& correction, const Scores& scores, Adaptation& adaptation) {
  py::array_t<Scalar> array({scores.rows(), scores.cols()});
  Eigen::Map<RowMajorMatrix<Scalar>> out(array.mutable_data(), scores.rows(), scores.cols());
  without_gil([&](const Observer& observer) {
    RowMajorMatrix<double> rows(std::min(kRows, scores.rows()), scores.cols());
    for (Index first = 0; first < scores.rows(); first += kRows) {
      const Index count = std::min(kRows, scores.rows() - first);
      tell(observer, "correcting", static_cast<double>(first) / static_cast<double>(scores.rows()));
      correction.apply(scores, first, rows.topRows(count), adaptation);
      out.middleRows(first, count) = rows.topRows(count).template cast<Scalar>();
    }
  });
  return array;
}

/// In the precision of the scores.
py::array corrected(const Correction& correction, const py::array& probs, bool logits, Adaptation& adaptation) {
  const MatrixView view = view_of(probs);
  if (view.cols() != correction.calibration.scale.size())
    throw Error(ErrorKind::kInput, fmt::format("found rows with {} columns, expected {}, one for each class",
                                               view.cols(), correction.calibration.scale.size()));
  const Scores scores = without_gil([&](const Observer&) { return Scores(view, logits); });
  return view.visit([&](const auto* data, Index, Index) {
    return corrected_as<std::remove_cvref_t<decltype(*data)>>(correction, scores, adaptation);
  });
}

/// An estimate, and how it is shown.
class Report {
 public:
  explicit Report(LabelShiftReport report) : report_(std::move(report)) {}

  std::string json() const { return report_json(with_warnings()); }
  std::string text() const { return report_text(report_); }
  std::string svg() const { return prior_plot(report_plot(report_)); }
  std::vector<std::string> warnings() const { return sentences(result_warnings(report_)); }
  Correction correction() const {
    return report_.adaptation && !report_.adaptation->corrected ? Correction::none(report_.result.target_prior.size())
                                                                : Correction::of(report_.result);
  }

  /// Corrects the target's predictions, or with `if_fits` leaves them alone where a label shift does not fit.
  py::array correct(const py::array& probs, bool logits, bool if_fits) {
    if (if_fits && !report_.result.calibration_fit)
      throw Error(ErrorKind::kUsage, "if_fits needs a test of the fit; fit on source probabilities and labels too");
    const bool is_wanted = !if_fits || label_shift_fits(report_);
    report_.adaptation = Adaptation{.corrected = is_wanted};
    return corrected(correction(), probs, logits, *report_.adaptation);
  }

 private:
  LabelShiftReport with_warnings() const {
    LabelShiftReport report = report_;
    for (const std::string& warning : warnings()) report.warnings.push_back(warning);
    return report;
  }

  LabelShiftReport report_;
};

/// A look at a stream, and how it is shown.
class Look {
 public:
  explicit Look(WatchReport report) : report_(std::move(report)) {}
  std::string json() const { return watch_json(report_); }
  std::string text() const { return watch_text(report_); }
  std::string svg() const { return prior_plot(watch_plot(report_)); }

 private:
  WatchReport report_;
};

/// A stream of target rows, for one thread at a time.
class Stream {
 public:
  Stream(LabelShiftStream stream, std::vector<std::string> classes, double alarm)
      : stream_(std::move(stream)), classes_(std::move(classes)), alarm_(alarm) {}

  void add(const py::array& probs, bool logits) {
    const MatrixView view = view_of(probs);
    without_gil([&](const Observer&) {
      const Scores scores(view, logits);
      const std::lock_guard lock(mutex_);
      stream_.add(scores);
    });
  }

  Look look() {
    return without_gil([&](const Observer&) {
      const std::lock_guard lock(mutex_);
      return Look(watch_report(stream_, classes_, alarm_));
    });
  }

  std::vector<std::string> warnings() const {
    const auto warning = source_warning(stream_.source_evidence(), classes_);
    return warning ? std::vector{*warning} : std::vector<std::string>{};
  }

 private:
  std::mutex mutex_;
  LabelShiftStream stream_;
  std::vector<std::string> classes_;
  double alarm_;
};

Report analyse(const std::optional<py::array>& source_probs, const std::optional<Labels>& source_labels,
               const std::optional<Numbers>& source_weights, const std::optional<Numbers>& source_prior,
               const py::array& target_probs, const std::optional<Numbers>& target_weights,
               const std::vector<std::string>& classes, bool named, bool logits, const std::string& estimator,
               const std::map<std::string, std::string>& settings, const std::string& calibration, double level,
               int bootstrap, std::uint64_t seed, double smoothing, bool bound_terms) {
  const Source source(source_probs, source_labels, source_weights, source_prior,
                      named ? classes : std::vector<std::string>{}, logits);
  const MatrixView target = view_of(target_probs);
  const std::vector<double> weights = values_of(target_weights);
  LabelShiftReport report{.options = {.estimator = estimator,
                                      .settings = settings_for(estimator, settings, seed),
                                      .calibration = calibration,
                                      .level = level,
                                      .bootstrap = bootstrap,
                                      .seed = seed,
                                      .smoothing = smoothing,
                                      .bound_terms = bound_terms},
                          .classes = classes};
  report.result = without_gil([&](const Observer& observer) {
    const LabelShiftProblem problem{.source = source.examples(),
                                    .source_prior = source.prior,
                                    .target = Scores(target, logits, "target probabilities"),
                                    .target_weights = weights,
                                    .class_names = source.class_names};
    return analyse_label_shift(problem, report.options, observer);
  });
  return Report(std::move(report));
}

std::unique_ptr<Stream> follow(const py::array& source_probs, const Labels& source_labels,
                               const std::optional<Numbers>& source_weights, const std::optional<Numbers>& source_prior,
                               const std::vector<std::string>& classes, bool named, bool logits,
                               const std::string& estimator, const std::map<std::string, std::string>& settings,
                               const std::string& calibration, double level, double smoothing, double half_life,
                               double alarm) {
  const Source source(source_probs, source_labels, source_weights, source_prior,
                      named ? classes : std::vector<std::string>{}, logits);
  const StreamOptions options{.incremental = {.estimator = estimator,
                                              .settings = settings_for(estimator, settings, 0),
                                              .half_life = half_life,
                                              .level = level},
                              .calibration = calibration,
                              .smoothing = smoothing};
  return without_gil([&](const Observer& observer) {
    return std::make_unique<Stream>(
        LabelShiftStream(*source.examples(), source.prior, source.class_names, options, observer), classes, alarm);
  });
}

/// What fit() can say before there is a target.
void check_fitted(const std::optional<py::array>& probs, const std::optional<Labels>& labels,
                  const std::optional<Numbers>& weights, bool logits) {
  const Source source(probs, labels, weights, {}, {}, logits);
  without_gil([&](const Observer&) {
    if (const auto examples = source.examples()) check_source(*examples);
  });
}

py::array renormalise(const py::array& probs) {
  const MatrixView view = view_of(probs);
  const CalibratedProbabilities rows =
      without_gil([&](const Observer&) { return renormalise_rows(view, "probabilities"); });
  return std::visit([](const auto& values) { return py::array(py::cast(values)); }, rows.values);
}

template <typename Rows>
py::list names_of(const Rows& rows) {
  py::list names;
  for (const auto& row : rows) names.append(py::make_tuple(row.name, row.summary));
  return names;
}

py::tuple state_of(const Correction& c) {
  return py::make_tuple(c.calibration.scale, c.calibration.bias, c.calibration.mixing, c.ratio, c.target_prior);
}

Correction correction_from(const py::tuple& state) {
  Correction c{.calibration = {state[0].cast<Eigen::VectorXd>(), state[1].cast<Eigen::VectorXd>(),
                               state[2].cast<Eigen::MatrixXd>()},
               .ratio = state[3].cast<Eigen::VectorXd>(),
               .target_prior = state[4].cast<Eigen::VectorXd>()};
  const Index m = c.calibration.scale.size();
  const auto is_one_of = [](Index size, Index a, Index b) { return size == a || size == b; };
  if (c.calibration.bias.size() != m || !is_one_of(c.calibration.mixing.size(), 0, m * m) ||
      !is_one_of(c.ratio.size(), 0, m) || c.target_prior.size() != c.ratio.size())
    throw Error(ErrorKind::kInput, "the pickle of a correction is damaged");
  return c;
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  static PyObject* const error = PyErr_NewExceptionWithDoc(
      "labelshift.LabelShiftError",
      "What the input or the arguments ask for cannot be done. The message is a sentence that says what to do next.",
      PyExc_ValueError, nullptr);
  module.attr("LabelShiftError") = py::handle(error);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& found) {
      const bool by_caller = found.kind() == ErrorKind::kInput || found.kind() == ErrorKind::kUsage;
      PyErr_SetString(by_caller ? error : PyExc_RuntimeError,
                      (std::string(found.what()) + advice(found.remedy())).c_str());
    }
  });

  module.attr("__version__") = version();
  module.def("estimators", [] { return names_of(estimators()); });
  module.def("calibrations", [] { return names_of(calibrations()); });
  module.def("renormalise", &renormalise);
  module.def("check_fitted", &check_fitted, py::kw_only(), py::arg("probs"), py::arg("labels"), py::arg("weights"),
             py::arg("logits"));
  module.def("analyse", &analyse, py::kw_only(), py::arg("source_probs"), py::arg("source_labels"),
             py::arg("source_weights"), py::arg("source_prior"), py::arg("target_probs"), py::arg("target_weights"),
             py::arg("classes"), py::arg("named"), py::arg("logits"), py::arg("estimator"), py::arg("settings"),
             py::arg("calibration"), py::arg("level"), py::arg("bootstrap"), py::arg("seed"), py::arg("smoothing"),
             py::arg("bound_terms"));
  module.def("follow", &follow, py::kw_only(), py::arg("source_probs"), py::arg("source_labels"),
             py::arg("source_weights"), py::arg("source_prior"), py::arg("classes"), py::arg("named"),
             py::arg("logits"), py::arg("estimator"), py::arg("settings"), py::arg("calibration"), py::arg("level"),
             py::arg("smoothing"), py::arg("half_life"), py::arg("alarm"));

  py::class_<Correction>(module, "Correction")
      .def("apply",
           [](const Correction& correction, const py::array& probs, bool logits) {
             Adaptation ignored;
             return corrected(correction, probs, logits, ignored);
           })
      .def(py::pickle(&state_of, &correction_from));
  py::class_<Report>(module, "Report")
      .def("json", &Report::json)
      .def("text", &Report::text)
      .def("svg", &Report::svg)
      .def("warnings", &Report::warnings)
      .def("correction", &Report::correction)
      .def("correct", &Report::correct);
  py::class_<Look>(module, "Look").def("json", &Look::json).def("text", &Look::text).def("svg", &Look::svg);
  py::class_<Stream>(module, "Stream")
      .def("add", &Stream::add)
      .def("look", &Stream::look)
      .def("warnings", &Stream::warnings);
}

}  // namespace labelshift::python
