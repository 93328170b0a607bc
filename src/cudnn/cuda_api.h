/*
 * CUDA's and cuDNN's headers. CUDA has a vector type float4, PostgreSQL a number
 * of that name: CUDA's is renamed while its headers are read.
 */
#ifndef CUDA_API_H
#define CUDA_API_H

#define float4 cuda_float4
#include <cuda_runtime_api.h>
#include <cudnn.h>
#undef float4

/* Planning for a device rather than a handle, which we rely on, came with 9.8. */
#define NV_CUDNN_OLDEST 90800

#if CUDNN_VERSION < NV_CUDNN_OLDEST
#error "cuDNN 9.8 or later is needed"
#endif

#endif							/* CUDA_API_H */
