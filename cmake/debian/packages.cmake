# What `cpack -G DEB` makes. A component of the install rules is a package.
set(packages command:labelshift dev:liblabelshift-dev)
if(LABELSHIFT_WITH_PYTHON)
  list(APPEND packages python:python3-labelshift)
endif()
foreach(pair IN LISTS packages)
  string(REGEX MATCH "(.*):(.*)" pair ${pair})
  set(component ${CMAKE_MATCH_1})
  set(documents ${CMAKE_INSTALL_DATADIR}/doc/${CMAKE_MATCH_2})
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${CMAKE_MATCH_2})
  install(CODE "execute_process(COMMAND gzip -9nc \"${PROJECT_SOURCE_DIR}/CHANGELOG.md\"
    OUTPUT_FILE \"${PROJECT_BINARY_DIR}/changelog.gz\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/copyright ${PROJECT_BINARY_DIR}/changelog.gz DESTINATION ${documents}
    COMPONENT ${component})
endforeach()
# The documents as they lie in the repository, so that the commands of the README work from this folder.
install(FILES README.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/labelshift COMPONENT command)
install(DIRECTORY docs examples experiments DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/labelshift COMPONENT command
  PATTERN __pycache__ EXCLUDE)

set(CPACK_PACKAGE_CONTACT "labelshift maintainers <maintainers@labelshift.invalid>" CACHE STRING
  "Who answers for the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each has its own
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "estimate and correct label shift
The labelshift command estimates how the label mix of new data differs from
that of the data a classifier was trained on, says how sure it is, and corrects
predictions. It also trains one model across nodes whose label mixes differ.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_COMPONENT_DEV_DESCRIPTION "estimate and correct label shift - C++ library
Headers, static libraries and CMake targets of labelshift, which estimates how
the label mix of new data differs from that of the data a classifier was
trained on.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "estimate and correct label shift - Python package
LabelShiftEstimator estimates how the label mix of new data differs from that
of the data a classifier was trained on, and LabelShiftClassifier corrects the
predictions of a scikit-learn classifier.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/postinst ${CMAKE_CURRENT_LIST_DIR}/prerm)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
set(CPACK_LABELSHIFT_BUILD ${PROJECT_BINARY_DIR})  # for that file
set(CPACK_LABELSHIFT_PYTHON ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
include(CPack)
