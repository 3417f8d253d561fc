//! The options of clBuildProgram, clCompileProgram and clLinkProgram (OpenCL 1.2, 5.6.4 and 5.6.5; cl_khr_spir).
