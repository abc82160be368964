# OpenBLAS::OpenBLAS by name, never "whatever libblas is": Debian's default libblas is the slow reference one.
# Used by this build and, installed beside labelshift-config.cmake, by every project that links labelshift.
find_library(OpenBLAS_LIBRARY openblas PATH_SUFFIXES openblas-openmp openblas-serial openblas-pthread)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY
  REASON_FAILURE_MESSAGE "install libopenblas-openmp-dev")
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES IMPORTED_LOCATION ${OpenBLAS_LIBRARY})
endif()
