# cmake -DBUILD=... -DSOURCE=... -DWORK=... -P install_and_use.cmake: installs the build into WORK/prefix, then configures,
# builds and runs the consumer project against it.
file(REMOVE_RECURSE ${WORK})
file(GLOB with_learning RELATIVE ${BUILD} ${BUILD}/liblabelshift_torch.so)  # whether this build has the learning layer
foreach(step IN ITEMS
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${WORK}/prefix"
    "${CMAKE_COMMAND};-S;${SOURCE}/tests/package/consumer;-B;${WORK}/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${WORK}/prefix;-DCMAKE_CXX_FLAGS=${FLAGS}"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/build/consumer;${SOURCE}/examples/tiny/target_probs.csv"
    "${WORK}/prefix/bin/labelshift;--version")
  execute_process(COMMAND ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# An installed header includes nothing that the package does not ask its user to have.
file(GLOB_RECURSE headers ${WORK}/prefix/include/*.hpp)
foreach(header IN LISTS headers)
  file(STRINGS ${header} foreign REGEX "#include <[^>]*[/.]")
  list(FILTER foreign EXCLUDE REGEX "<Eigen/")
  if(foreign)
    message(FATAL_ERROR "${header} needs headers of others: ${foreign}")
  endif()
endforeach()
if(with_learning)
  file(GLOB_RECURSE module ${WORK}/prefix/liblabelshift_torch.so)
  get_filename_component(folder ${module} DIRECTORY)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${folder} ${WORK}/build/trainer COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/build/federation COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/prefix/bin/labelshift train --data ${SOURCE}/examples/small-fashion-mnist --model mlp
    --epochs 1 --output ${WORK}/predictor.safetensors COMMAND_ERROR_IS_FATAL ANY)
endif()
