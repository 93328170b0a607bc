/* Activations, as their definition says. */
#include "postgres.h"

#include "ref.h"

void
ref_activation(OpTask *task)
{
	const ActivationParams *params = task->params;
	int64		n = shape_numel(&task->in[0].shape);
	const double *x = ref_load(&task->in[0]);
	double	   *y = ref_result(&task->out[0]);

	for (int64 i = 0; i < n; i++)
		switch ((ActivationKind) params->kind)
		{
			case ACTIVATION_RELU:
				y[i] = x[i] < 0 ? 0 : x[i];
				break;
		}
	ref_store(&task->out[0], y);
}
