# Writes the manual pages and completion scripts of the program `labelshift` into the folder `share`.
file(REMOVE_RECURSE ${share})
file(MAKE_DIRECTORY ${share}/man/man1 ${share}/bash-completion/completions ${share}/zsh/vendor-completions)
execute_process(COMMAND ${labelshift} manual ${share}/man/man1 COMMAND_ERROR_IS_FATAL ANY)
file(GLOB pages ${share}/man/man1/*)
execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${labelshift} completion bash
  OUTPUT_FILE ${share}/bash-completion/completions/labelshift COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${labelshift} completion zsh
  OUTPUT_FILE ${share}/zsh/vendor-completions/_labelshift COMMAND_ERROR_IS_FATAL ANY)
