// Preloaded by command_line_test.cpp: a BLAS that is not OpenBLAS.
extern "C" void dsyrk_() {}
