// driver.c - stands for the driver's library, libcuda.so.1, where the real cuDNN makes plans for a device that is not there
// (test_cudnn_plans.c): kernels can be "loaded", there is no device, and nothing else works.
static char thing[64];

int cuLibraryLoadData(void **library);
int cuLibraryLoadData(void **library) {
    *library = thing;
    return 0;
}

int cuLibraryGetKernel(void **kernel);
int cuLibraryGetKernel(void **kernel) {
    *kernel = thing;
    return 0;
}

int cuLibraryUnload(void);
int cuLibraryUnload(void) {
    return 0;
}

int cuKernelSetAttribute(void);
int cuKernelSetAttribute(void) {
    return 0;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "no device";
    return 0;
}

enum { NO_DEVICE = 100 }; // CUDA_ERROR_NO_DEVICE

// What cuDNN looks up when it loads this library: all of it has to be there.
#define ABSENT(name)                                                                                                   \
    int name(void);                                                                                                    \
    int name(void) {                                                                                                   \
        return NO_DEVICE;                                                                                              \
    }
ABSENT(cuInit)
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuDeviceGet)
ABSENT(cuDeviceGetCount)
ABSENT(cuDriverGetVersion)
ABSENT(cuGetErrorName)
ABSENT(cuKernelGetAttribute)
ABSENT(cuKernelGetFunction)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuLibraryLoadFromFile)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkCreate)
ABSENT(cuLinkDestroy)
ABSENT(cuOccupancyMaxPotentialClusterSize)
ABSENT(cuStreamGetCtx)
