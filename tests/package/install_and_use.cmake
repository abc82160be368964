# cmake -DBUILD=... -DSOURCE=... -DWORK=... -P install_and_use.cmake: installs the build into WORK/prefix, then configures,
# builds and runs the consumer project against it.
file(REMOVE_RECURSE ${WORK})
foreach(step IN ITEMS
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${WORK}/prefix"
    "${CMAKE_COMMAND};-S;${SOURCE}/tests/package/consumer;-B;${WORK}/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${WORK}/prefix;-DCMAKE_CXX_FLAGS=${FLAGS}"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/build/consumer;${SOURCE}/examples/tiny/target_probs.csv"
    "${WORK}/prefix/bin/labelshift;--version")
  execute_process(COMMAND ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
