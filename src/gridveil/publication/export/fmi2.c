/* A linear model x' = A x + B u, y = C x + D u behind the interface of FMI 2.0, written by gridveil.

   model.h has the numbers: A, B, C, D (row by row), their sizes, the GUID, and NOMINAL, the usual size
   of a state.
   Value references: states, then their derivatives, then inputs, then outputs.

   Co-simulation is exact: inputs are held over a communication step h, and
     x(t + h) = E x(t) + G u,   E = exp(A h),   G = integral of exp(A s) from 0 to h, times B.
   E and G are computed when h changes, and kept while it stays the same to nine digits.

   Model exchange gives x' to the importer's own solver. There are no events, no parameters, no
   strings, and no files: the model is its numbers. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define DERIVATIVES STATES               /* value reference of the first derivative */
#define FIRST_INPUT (2 * STATES)
#define FIRST_OUTPUT (FIRST_INPUT + INPUTS)
#define END (FIRST_OUTPUT + OUTPUTS)

#define SAME_STEP 1e-9 /* clocks round their steps: h this near, as a share, is the same */
#define TERMS 16       /* of the Taylor series where |A h| is at most 1/2: the rest is below 1e-18 */

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif
/* A static build may put the model's name in front of every function. */
#define JOIN(a, b) a##b
#define JOINED(a, b) JOIN(a, b)
#ifdef FMI2_FUNCTION_PREFIX
#define FMI(name) JOINED(FMI2_FUNCTION_PREFIX, fmi2##name)
#else
#define FMI(name) fmi2##name
#endif

/* --- the types of the interface --------------------------------------------------------------- */

typedef unsigned int Reference;
typedef int Boolean;
typedef enum { OK, WARNING, DISCARD, ERROR, FATAL, PENDING } Status;
typedef enum { MODEL_EXCHANGE, CO_SIMULATION } Kind;

typedef void (*Logger)(void *environment, const char *instance, Status, const char *category,
                       const char *message, ...);
typedef struct {
    Logger logger;
    void *(*allocate)(size_t, size_t);
    void (*release)(void *);
    void (*step_finished)(void *, Status);
    void *environment;
} Callbacks;
typedef struct {
    Boolean new_discrete_states_needed, terminate, nominals_changed, states_changed;
    Boolean next_event_defined;
    double next_event_time;
} EventInfo;

/* --- the model -------------------------------------------------------------------------------- */

typedef struct {
    double x[STATES], u[INPUTS];
    double time;
    double h; /* of E and G; 0: not computed yet */
    double E[STATES * STATES], G[STATES * INPUTS];
} Instance;

/* out = a b, of (rows, inner) and (inner, columns) */
static void multiply(double *out, const double *a, const double *b, int rows, int inner,
                     int columns) {
    memset(out, 0, sizeof(double) * rows * columns);
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < inner; k++) {
            const double factor = a[i * inner + k];
            if (factor != 0.0)
                for (int j = 0; j < columns; j++) out[i * columns + j] += factor * b[k * columns + j];
        }
}

/* out = M x + N u, of (rows, STATES) and (rows, INPUTS) */
static void apply(double *out, const double *M, const double *x, const double *N, const double *u,
                  int rows) {
    for (int i = 0; i < rows; i++) {
        double sum = 0.0;
        for (int j = 0; j < STATES; j++) sum += M[i * STATES + j] * x[j];
        for (int j = 0; j < INPUTS; j++) sum += N[i * INPUTS + j] * u[j];
        out[i] = sum;
    }
}

/* E = exp(A h) and G by their Taylor series at h / 2^k, doubled k times:
   exp(A 2s) = exp(A s)^2, and S(2s) = S(s) + exp(A s) S(s) for the integral S of exp(A s). */
static Status discretise(Instance *self, double h) {
    const int size = STATES * STATES;
    double *X = malloc(sizeof(double) * size), *S = malloc(sizeof(double) * size);
    double *next = malloc(sizeof(double) * size), *E = self->E;
    double norm = 0.0, s = h;
    int doublings = 0;
    if (!X || !S || !next) {
        free(X), free(S), free(next);
        return ERROR;
    }
    for (int i = 0; i < STATES; i++) {
        double row = 0.0;
        for (int j = 0; j < STATES; j++) row += fabs(A[i * STATES + j]);
        norm = fmax(norm, row);
    }
    while (norm * s > 0.5) s /= 2.0, doublings++;

    for (int i = 0; i < size; i++) X[i] = A[i] * s, S[i] = (i % (STATES + 1) == 0);
    for (int k = TERMS; k > 0; k--) { /* Horner: S = I + X S / (k + 1) */
        multiply(next, X, S, STATES, STATES, STATES);
        for (int i = 0; i < size; i++) S[i] = next[i] / (k + 1) + (i % (STATES + 1) == 0);
    }
    multiply(E, X, S, STATES, STATES, STATES);
    for (int i = 0; i < STATES; i++) E[i * (STATES + 1)] += 1.0;
    for (int i = 0; i < size; i++) S[i] *= s;

    for (; doublings > 0; doublings--) {
        multiply(next, E, S, STATES, STATES, STATES);
        for (int i = 0; i < size; i++) S[i] += next[i];
        multiply(next, E, E, STATES, STATES, STATES);
        memcpy(E, next, sizeof(double) * size);
    }
    multiply(self->G, S, B, STATES, STATES, INPUTS);
    self->h = h;
    free(X), free(S), free(next);
    return OK;
}

static void start(Instance *self) {
    memset(self->x, 0, sizeof self->x);
    memset(self->u, 0, sizeof self->u);
    self->time = 0.0;
}

/* --- both kinds ------------------------------------------------------------------------------- */

EXPORT const char *FMI(GetTypesPlatform)(void) { return "default"; }
EXPORT const char *FMI(GetVersion)(void) { return "2.0"; }

EXPORT void *FMI(Instantiate)(const char *name, Kind kind, const char *guid, const char *resources,
                              const Callbacks *callbacks, Boolean visible, Boolean logging) {
    Instance *self;
    (void)kind, (void)resources, (void)visible, (void)logging;
    if (!guid || strcmp(guid, GUID) != 0) {
        if (callbacks && callbacks->logger)
            callbacks->logger(callbacks->environment, name, ERROR, "error",
                              "modelDescription.xml belongs to another model: the GUIDs differ.");
        return NULL;
    }
    self = malloc(sizeof *self);
    if (self) {
        start(self);
        self->h = 0.0;
    }
    return self;
}

EXPORT void FMI(FreeInstance)(void *c) { free(c); }

EXPORT Status FMI(SetDebugLogging)(void *c, Boolean on, size_t count, const char *const names[]) {
    (void)c, (void)on, (void)count, (void)names;
    return OK;
}

EXPORT Status FMI(SetupExperiment)(void *c, Boolean has_tolerance, double tolerance, double begin,
                                   Boolean has_end, double end) {
    (void)has_tolerance, (void)tolerance, (void)has_end, (void)end;
    ((Instance *)c)->time = begin;
    return OK;
}

EXPORT Status FMI(EnterInitializationMode)(void *c) { return c ? OK : ERROR; }
EXPORT Status FMI(ExitInitializationMode)(void *c) { return c ? OK : ERROR; }
EXPORT Status FMI(Terminate)(void *c) { return c ? OK : ERROR; }

EXPORT Status FMI(Reset)(void *c) {
    start(c);
    return OK;
}

EXPORT Status FMI(GetReal)(void *c, const Reference which[], size_t count, double value[]) {
    const Instance *self = c;
    for (size_t n = 0; n < count; n++) {
        const Reference r = which[n];
        int row;
        if (r < DERIVATIVES)
            value[n] = self->x[r];
        else if (r < FIRST_INPUT)
            row = r - DERIVATIVES,
            apply(&value[n], A + row * STATES, self->x, B + row * INPUTS, self->u, 1);
        else if (r < FIRST_OUTPUT)
            value[n] = self->u[r - FIRST_INPUT];
        else if (r < END)
            row = r - FIRST_OUTPUT,
            apply(&value[n], C + row * STATES, self->x, D + row * INPUTS, self->u, 1);
        else
            return ERROR;
    }
    return OK;
}

EXPORT Status FMI(SetReal)(void *c, const Reference which[], size_t count, const double value[]) {
    Instance *self = c;
    for (size_t n = 0; n < count; n++) {
        const Reference r = which[n];
        if (r < DERIVATIVES)
            self->x[r] = value[n];
        else if (r >= FIRST_INPUT && r < FIRST_OUTPUT)
            self->u[r - FIRST_INPUT] = value[n];
        else
            return ERROR;
    }
    return OK;
}

/* There are no variables but real ones: no reference is of another type. */
#define NO_VARIABLES(name, type)                                                                 \
    EXPORT Status FMI(name)(void *c, const Reference which[], size_t count, type value[]) {      \
        (void)c, (void)which, (void)value;                                                       \
        return count ? ERROR : OK;                                                               \
    }
NO_VARIABLES(GetInteger, int)
NO_VARIABLES(SetInteger, const int)
NO_VARIABLES(GetBoolean, Boolean)
NO_VARIABLES(SetBoolean, const Boolean)
NO_VARIABLES(GetString, const char *)
NO_VARIABLES(SetString, const char *const)

/* --- model exchange --------------------------------------------------------------------------- */

EXPORT Status FMI(EnterEventMode)(void *c) { return c ? OK : ERROR; }
EXPORT Status FMI(EnterContinuousTimeMode)(void *c) { return c ? OK : ERROR; }

EXPORT Status FMI(NewDiscreteStates)(void *c, EventInfo *info) {
    memset(info, 0, sizeof *info);
    return c ? OK : ERROR;
}

EXPORT Status FMI(CompletedIntegratorStep)(void *c, Boolean no_return, Boolean *enter_event_mode,
                                           Boolean *terminate) {
    (void)no_return;
    *enter_event_mode = *terminate = 0;
    return c ? OK : ERROR;
}

EXPORT Status FMI(SetTime)(void *c, double time) {
    ((Instance *)c)->time = time;
    return OK;
}

EXPORT Status FMI(SetContinuousStates)(void *c, const double x[], size_t count) {
    if (count != STATES) return ERROR;
    memcpy(((Instance *)c)->x, x, sizeof(double) * STATES);
    return OK;
}

EXPORT Status FMI(GetContinuousStates)(void *c, double x[], size_t count) {
    if (count != STATES) return ERROR;
    memcpy(x, ((const Instance *)c)->x, sizeof(double) * STATES);
    return OK;
}

EXPORT Status FMI(GetDerivatives)(void *c, double derivatives[], size_t count) {
    const Instance *self = c;
    if (count != STATES) return ERROR;
    apply(derivatives, A, self->x, B, self->u, STATES);
    return OK;
}

EXPORT Status FMI(GetEventIndicators)(void *c, double indicators[], size_t count) {
    (void)c, (void)indicators;
    return count ? ERROR : OK;
}

EXPORT Status FMI(GetNominalsOfContinuousStates)(void *c, double nominals[], size_t count) {
    (void)c;
    if (count != STATES) return ERROR;
    for (size_t n = 0; n < count; n++) nominals[n] = NOMINAL;
    return OK;
}

/* --- co-simulation ---------------------------------------------------------------------------- */

EXPORT Status FMI(DoStep)(void *c, double time, double h, Boolean no_return) {
    Instance *self = c;
    double next[STATES];
    (void)no_return;
    if (!(h >= 0.0) || isinf(h)) return ERROR;
    if (h > 0.0) {
        if (fabs(h - self->h) > SAME_STEP * h && discretise(self, h) != OK) return ERROR;
        apply(next, self->E, self->x, self->G, self->u, STATES);
        memcpy(self->x, next, sizeof next);
    }
    self->time = time + h;
    return OK;
}

/* Steps end when DoStep returns, so there is never one to cancel or to ask about. */
EXPORT Status FMI(CancelStep)(void *c) {
    (void)c;
    return ERROR;
}

EXPORT Status FMI(GetRealStatus)(void *c, int kind, double *value) {
    (void)kind;
    *value = ((const Instance *)c)->time; /* of the last step that succeeded */
    return OK;
}

EXPORT Status FMI(GetBooleanStatus)(void *c, int kind, Boolean *value) {
    (void)c, (void)kind;
    *value = 0; /* it has not ended the simulation */
    return OK;
}

EXPORT Status FMI(GetStatus)(void *c, int kind, Status *value) {
    (void)c, (void)kind, (void)value;
    return DISCARD;
}

EXPORT Status FMI(GetIntegerStatus)(void *c, int kind, int *value) {
    (void)c, (void)kind, (void)value;
    return DISCARD;
}

EXPORT Status FMI(GetStringStatus)(void *c, int kind, const char **value) {
    (void)c, (void)kind, (void)value;
    return DISCARD;
}

/* --- what modelDescription.xml says is not offered -------------------------------------------- */

EXPORT Status FMI(SetRealInputDerivatives)(void *c, const Reference which[], size_t count,
                                           const int order[], const double value[]) {
    (void)c, (void)which, (void)count, (void)order, (void)value;
    return ERROR;
}

EXPORT Status FMI(GetRealOutputDerivatives)(void *c, const Reference which[], size_t count,
                                            const int order[], double value[]) {
    (void)c, (void)which, (void)count, (void)order, (void)value;
    return ERROR;
}

EXPORT Status FMI(GetDirectionalDerivative)(void *c, const Reference unknown[], size_t unknowns,
                                            const Reference known[], size_t knowns,
                                            const double seed[], double value[]) {
    (void)c, (void)unknown, (void)unknowns, (void)known, (void)knowns, (void)seed, (void)value;
    return ERROR;
}

EXPORT Status FMI(GetFMUstate)(void *c, void **state) {
    (void)c, (void)state;
    return ERROR;
}

EXPORT Status FMI(SetFMUstate)(void *c, void *state) {
    (void)c, (void)state;
    return ERROR;
}

EXPORT Status FMI(FreeFMUstate)(void *c, void **state) {
    (void)c, (void)state;
    return ERROR;
}

EXPORT Status FMI(SerializedFMUstateSize)(void *c, void *state, size_t *size) {
    (void)c, (void)state, (void)size;
    return ERROR;
}

EXPORT Status FMI(SerializeFMUstate)(void *c, void *state, char bytes[], size_t size) {
    (void)c, (void)state, (void)bytes, (void)size;
    return ERROR;
}

EXPORT Status FMI(DeSerializeFMUstate)(void *c, const char bytes[], size_t size, void **state) {
    (void)c, (void)bytes, (void)size, (void)state;
    return ERROR;
}
