// emulation.h - what a test says to the emulation and asks of it: devices, order of threads, memory, faults, counts. The
// program under test knows the CUDA headers alone. Each setting can come from the environment as well, for whole programs:
//
//   PPL_EMU_DEVICES=4           devices of this process (CUDA_VISIBLE_DEVICES picks among them)
//   PPL_EMU_PROBE=35            cudaGetDeviceCount fails with this error: 35 no driver, 100 no device
//   PPL_EMU_DRIVER=12040        the driver's CUDA version: below the headers' the probe fails with 35
//   PPL_EMU_CAPABILITY=75       compute capability of the devices; below 80 there is no code for them
//   PPL_EMU_MODE=3              compute mode: 2 prohibited, 3 another process has the device
//   PPL_EMU_PEERS=0             devices do not reach each other's memory
//   PPL_EMU_MEMORY=268435456    bytes of each device
//   PPL_EMU_ORDER=greedy        ring, reverse, greedy: which thread of a block goes on when one waits
//   PPL_EMU_SEED=7              random order of a kernel's blocks, and of streams that could go on; 0: as numbered
//   PPL_EMU_WORKERS=2           threads that run streams' work
//   PPL_EMU_HANG_MS=20000       nothing moved for so long while work waits: a hang
//   PPL_EMU_NCCL=22304          what ncclGetVersion says
//   PPL_EMU_CUDNN=91500         what cudnnGetVersion says
//   PPL_EMU_FAULT=malloc:3      see emu_fail
//   PPL_EMU_HOST=name           plays another host: two of them may have the same GPU in one communicator
#ifndef EMULATION_H
#define EMULATION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum emu_order { EMU_RING, EMU_REVERSE, EMU_GREEDY } emu_order;

typedef enum emu_fault {
    EMU_FAULT_MALLOC,     // malloc: cudaMalloc says cudaErrorMemoryAllocation
    EMU_FAULT_LAUNCH,     // launch: a kernel dies while it runs: cudaErrorLaunchFailure from then on
    EMU_FAULT_REFUSED,    // refused: a launch fails at the call: cudaErrorLaunchOutOfResources
    EMU_FAULT_MATMUL,     // matmul: cublasLtMatmul says CUBLAS_STATUS_INTERNAL_ERROR
    EMU_FAULT_ATTENTION,  // attention: cudnnBackendExecute says CUDNN_STATUS_EXECUTION_FAILED
    EMU_FAULT_INIT,       // init: a communicator cannot be made: ncclSystemError
    EMU_FAULT_NCCL,       // nccl: a send, receive or collective call says ncclInternalError
    EMU_FAULT_NCCL_ASYNC, // async: it is accepted, never ends, and its communicator's state becomes ncclSystemError
    EMU_FAULT_PEER,       // peer: its rank is lost: it never ends, and the state of the others becomes ncclRemoteError
    EMU_FAULT_KINDS
} emu_fault;

// What was done since emu_reset or emu_count_from_here.
typedef struct emu_counts {
    uint64_t mallocs, frees;    // device memory and pinned memory
    uint64_t host_waits;        // calls that wait for the device, and asynchronous copies from or to pageable memory
    uint64_t launches, matmuls; // kernels, cuBLASLt products
    uint64_t copies, fills;     // of device memory
    uint64_t attentions;        // cuDNN's plans
    uint64_t transfers;         // NCCL sends, receives, collectives
    uint64_t null_stream;       // work put into stream 0
} emu_counts;

// What is still open.
typedef struct emu_open {
    uint64_t allocations, streams, events, communicators;
} emu_open;

// Back to the start, settings from the environment: waits for work, or drops it after a hang; frees what was left open.
// No other thread is in a call.
void emu_reset(void);
void emu_set_devices(int count);
void emu_set_probe(int error);    // a cudaError_t; 0: devices are found
void emu_set_driver(int version); // 0: as the headers
void emu_set_capability(int capability);
void emu_set_mode(int mode);
void emu_set_peers(int peers);
void emu_set_memory(size_t bytes); // of each device
void emu_set_order(emu_order order);
void emu_set_seed(uint64_t seed);
void emu_set_hang_ms(int ms);
void emu_set_nccl_version(int version); // what ncclGetVersion says; 0: the header's
void emu_set_cudnn_version(int version);
// The nth such call from now on fails, 1 the next; 0: none.
void emu_fail(emu_fault what, uint64_t nth);

void emu_count_from_here(void);
emu_counts emu_counted(void);
emu_open emu_still_open(void);
size_t emu_memory_peak(int device);

// The first thing that was found wrong in a kernel or hung, since emu_reset; "" where nothing was. Printed to stderr as
// well, when it is found.
const char *emu_report(void);

#ifdef __cplusplus
}
#endif
#endif
