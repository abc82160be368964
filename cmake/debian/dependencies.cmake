# What the packages depend on. cpack reads this when everything has been built. CPACK_DEBIAN_PACKAGE_SHLIBDEPS looks at all
# files of a package alike, and would have the command depend on LibTorch, which its module alone is linked with.

# Sets Depends and Recommends to the packages that programs of this build are linked with, as dpkg-shlibdeps finds them.
function(linked_packages)
  file(WRITE ${CPACK_LABELSHIFT_BUILD}/debian/control "Source: labelshift\n\nPackage: labelshift\nArchitecture: any\n")
  execute_process(COMMAND dpkg-shlibdeps -O ${ARGN} WORKING_DIRECTORY ${CPACK_LABELSHIFT_BUILD} OUTPUT_VARIABLE found
    ERROR_VARIABLE warnings RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "dpkg-shlibdeps of package dpkg-dev failed: ${status}\n${warnings}")
  endif()
  foreach(field IN ITEMS Depends Recommends)
    string(REGEX MATCH "shlibs:${field}=([^\n]*)" line "${found}")
    # Any OpenBLAS will do, but apt would take the variant whose threads get in the way of ours.
    string(REGEX REPLACE "libopenblas0(,|$)" "libopenblas0-openmp | libopenblas0\\1" packages "${CMAKE_MATCH_1}")
    set(${field} "${packages}" PARENT_SCOPE)
  endforeach()
endfunction()

linked_packages(-dDepends -e${CPACK_LABELSHIFT_BUILD}/labelshift
  -dRecommends -e${CPACK_LABELSHIFT_BUILD}/liblabelshift_torch.so)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "${Depends}")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "${Recommends}, dataset-fashion-mnist")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "openmpi-bin")

# What cmake/labelshift-config.cmake looks for, and the command's module.
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "labelshift (= ${CPACK_PACKAGE_VERSION}), libeigen3-dev (>= 3.4), libfmt-dev, \
libopenblas-openmp-dev | libopenblas-dev, libpng-dev, libssl-dev, libturbojpeg0-dev, zlib1g-dev")

file(GLOB module ${CPACK_LABELSHIFT_BUILD}/python/labelshift/_core.*.so)
if(module)
  linked_packages(-dDepends -e${module})
  string(REGEX REPLACE "3\\.(.*)" "\\1" minor ${CPACK_LABELSHIFT_PYTHON})
  math(EXPR next "${minor} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= 3.${minor}~), python3 (<< 3.${next}), python3-numpy, python3-sklearn, ${Depends}")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "labelshift, python3-pandas, python3-torch")  # the first has the documents
endif()
