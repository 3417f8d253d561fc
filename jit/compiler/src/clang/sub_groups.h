#if defined(cl_intel_subgroups)
#define __spirula_f(T, name, ...) T __attribute__((overloadable, convergent, nothrow)) intel_sub_group_##name(__VA_ARGS__);
#define __spirula_shuffles(T) \
  __spirula_f(T, shuffle, T, uint) __spirula_f(T, shuffle_xor, T, uint) \
  __spirula_f(T, shuffle_down, T, T, uint) __spirula_f(T, shuffle_up, T, T, uint)
#define __spirula_vectors(T, f) f(T) f(T##2) f(T##3) f(T##4) f(T##8)
#define __spirula_all(T) __spirula_vectors(T, __spirula_shuffles) __spirula_shuffles(T##16)
__spirula_all(float) __spirula_all(int) __spirula_all(uint)
__spirula_all(char) __spirula_all(uchar) __spirula_all(short) __spirula_all(ushort)
__spirula_shuffles(long) __spirula_shuffles(ulong) __spirula_shuffles(half) __spirula_shuffles(double)

#define __spirula_broadcast(T) __spirula_f(T, broadcast, T, uint)
#define __spirula_combinations(T, form) \
  __spirula_f(T, form##_add, T) __spirula_f(T, form##_min, T) __spirula_f(T, form##_max, T)
#define __spirula_narrow(T) \
  __spirula_vectors(T, __spirula_broadcast) __spirula_combinations(T, reduce) \
  __spirula_combinations(T, scan_exclusive) __spirula_combinations(T, scan_inclusive)
__spirula_narrow(char) __spirula_narrow(uchar) __spirula_narrow(short) __spirula_narrow(ushort)

#if defined(__opencl_c_read_write_images)
#define __spirula_read_write(f, ...) f(read_write, __VA_ARGS__)
#else
#define __spirula_read_write(f, ...)
#endif
#define __spirula_read(access, E, T, end) __spirula_f(T, block_read##end, access image2d_t, int2)
#define __spirula_write(access, E, T, end) __spirula_f(void, block_write##end, access image2d_t, int2, T)
#define __spirula_block(E, T, end) \
  __spirula_f(T, block_read##end, const global E *) __spirula_f(T, block_read##end, const local E *) \
  __spirula_f(void, block_write##end, global E *, T) __spirula_f(void, block_write##end, local E *, T) \
  __spirula_read(read_only, E, T, end) __spirula_read_write(__spirula_read, E, T, end) \
  __spirula_write(write_only, E, T, end) __spirula_read_write(__spirula_write, E, T, end)
#define __spirula_blocks(E, end) \
  __spirula_block(E, E, end) __spirula_block(E, E##2, end##2) __spirula_block(E, E##4, end##4) __spirula_block(E, E##8, end##8)
__spirula_blocks(uint, ) __spirula_blocks(uint, _ui) __spirula_blocks(ulong, _ul)
__spirula_blocks(uchar, _uc) __spirula_block(uchar, uchar16, _uc16)
__spirula_blocks(ushort, _us) __spirula_block(ushort, ushort16, _us16)
#undef __spirula_f
#undef __spirula_shuffles
#undef __spirula_vectors
#undef __spirula_all
#undef __spirula_broadcast
#undef __spirula_combinations
#undef __spirula_narrow
#undef __spirula_read_write
#undef __spirula_read
#undef __spirula_write
#undef __spirula_block
#undef __spirula_blocks
#endif
