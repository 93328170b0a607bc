/*
 * Convolutions with oneDNN alone, as a C program calls it. For each line
 *
 *		n c h w k r s pad_h pad_w stride_h stride_w dil_h dil_w groups milliseconds
 *
 * of its input it prints three times in microseconds a call, each measured for
 * so many milliseconds, on random float32:
 *
 *		compute		in the layouts that the primitive likes best, data being there
 *		best		the same, with reorders from and to C order in every call
 *		plain		in C order
 *
 * or `error WHY`. OMP_NUM_THREADS says on how many threads.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/onednn/compat.h"

#define MAX_RANK 5
#define CHECK(call) check((call), #call)

/* A tensor, in C order and in the layout of a primitive, which may be the same. */
typedef struct Tensor
{
	DnOwnedShape shape;
	dnnl_memory_t plain;
	dnnl_memory_t inner;
	dnnl_primitive_t reorder;	/* NULL where the layouts are the same */
	bool		is_output;
} Tensor;

typedef struct Problem
{
	dnnl_dims_t x,
				w,
				y,
				stride,
				dilation,
				pad;
	int			filter_rank;
} Problem;

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void
check(dnnl_status_t status, const char *call)
{
	if (status == dnnl_success)
		return;
	printf("error %s in %.*s\n", dnnl_status2str(status), (int) strcspn(call, "("), call);
	exit(1);
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static bool
read_problem(Problem *p, double *milliseconds)
{
	int			v[14];

	for (int i = 0; i < 14; i++)
		if (scanf("%d", &v[i]) != 1)
			return false;
	if (scanf("%lf", milliseconds) != 1)
		return false;
	*p = (Problem) {
		.x = {v[0], v[1], v[2], v[3]},
		.y = {v[0], v[4], (v[2] + 2 * v[7] - v[11] * (v[5] - 1) - 1) / v[9] + 1,
			  (v[3] + 2 * v[8] - v[12] * (v[6] - 1) - 1) / v[10] + 1},
		.pad = {v[7], v[8]},
		.stride = {v[9], v[10]},
		.dilation = {v[11] - 1, v[12] - 1},
	};
	if (v[13] == 1)
		memcpy(p->w, (dnnl_dims_t) {v[4], v[1], v[5], v[6]}, sizeof(p->w));
	else
		memcpy(p->w, (dnnl_dims_t) {v[13], v[4] / v[13], v[1] / v[13], v[5], v[6]}, sizeof(p->w));
	p->filter_rank = v[13] == 1 ? 4 : 5;
	return true;
}

static void
fill(dnnl_memory_t memory, size_t size)
{
	void	   *data;
	uint32_t	state = 12345;

	CHECK(dnnl_memory_get_data_handle(memory, &data));
	for (size_t i = 0; i < size / sizeof(float); i++)
	{
		state = state * 1664525 + 1013904223;
		((float *) data)[i] = (int32_t) state / 2147483648.0f;
	}
}

static void
make_reorder(Tensor *t, DnShape from, DnShape to)
{
	dnnl_primitive_desc_t made;

	CHECK(dnnl_reorder_primitive_desc_create(&made, from, engine, to, engine, NULL));
	CHECK(dnnl_primitive_create(&t->reorder, made));
	CHECK(dnnl_primitive_desc_destroy(made));
}

static void
make_tensor(Tensor *t, const_dnnl_primitive_desc_t primitive, int arg, int rank, const dnnl_dims_t dims, bool is_output)
{
	DnShape		inner = dnnl_primitive_desc_query_md(primitive, dnnl_query_exec_arg_md, arg);

	*t = (Tensor) {.is_output = is_output};
	CHECK(dnnl_memory_desc_create_with_tag(&t->shape, rank, dims, dnnl_f32, rank == 4 ? dnnl_abcd : dnnl_abcde));
	CHECK(dnnl_memory_create(&t->plain, t->shape, engine, DNNL_MEMORY_ALLOCATE));
	fill(t->plain, dnnl_memory_desc_get_size(t->shape));
	t->inner = t->plain;
	if (dnnl_memory_desc_equal(t->shape, inner))
		return;
	CHECK(dnnl_memory_create(&t->inner, inner, engine, DNNL_MEMORY_ALLOCATE));
	if (is_output)
		make_reorder(t, inner, t->shape);
	else
		make_reorder(t, t->shape, inner);
}

static void
free_tensor(Tensor *t)
{
	if (t->inner != t->plain)
	{
		dnnl_primitive_destroy(t->reorder);
		dnnl_memory_destroy(t->inner);
	}
	dnnl_memory_destroy(t->plain);
	dnnl_memory_desc_destroy(t->shape);
}

static void
reorder(const Tensor *t)
{
	dnnl_exec_arg_t args[] = {
		{DNNL_ARG_FROM, t->is_output ? t->inner : t->plain},
		{DNNL_ARG_TO, t->is_output ? t->plain : t->inner},
	};

	if (t->reorder != NULL)
		CHECK(dnnl_primitive_execute(t->reorder, stream, 2, args));
}

static void
run(dnnl_primitive_t primitive, const Tensor *t, bool reorders)
{
	dnnl_exec_arg_t args[] = {
		{DNNL_ARG_SRC, t[0].inner}, {DNNL_ARG_WEIGHTS, t[1].inner}, {DNNL_ARG_DST, t[2].inner},
	};

	if (reorders)
	{
		reorder(&t[0]);
		reorder(&t[1]);
	}
	CHECK(dnnl_primitive_execute(primitive, stream, 3, args));
	if (reorders)
		reorder(&t[2]);
	CHECK(dnnl_stream_wait(stream));
}

static double
time_runs(dnnl_primitive_t primitive, const Tensor *t, bool reorders, double milliseconds)
{
	double		begin,
				end;
	int			runs = 0;

	run(primitive, t, reorders);
	begin = end = now();
	while (end - begin < milliseconds * 1e3)
	{
		run(primitive, t, reorders);
		runs++;
		end = now();
	}
	return (end - begin) / runs;
}

/* Microseconds of a call with layouts of the primitive's or C order; with reorders too if wanted. */
static double
measure(const Problem *p, bool plain, double *with_reorders, double milliseconds)
{
	dnnl_format_tag_t tag = plain ? dnnl_abcd : dnnl_format_tag_any;
	dnnl_format_tag_t filter_tag = plain && p->filter_rank == 5 ? dnnl_abcde : tag;
	DnOwnedShape x,
				w,
				y;
	dnnl_primitive_desc_t made;
	dnnl_primitive_t primitive;
	Tensor		t[3];
	double		us;

	CHECK(dnnl_memory_desc_create_with_tag(&x, 4, p->x, dnnl_f32, tag));
	CHECK(dnnl_memory_desc_create_with_tag(&w, p->filter_rank, p->w, dnnl_f32, filter_tag));
	CHECK(dnnl_memory_desc_create_with_tag(&y, 4, p->y, dnnl_f32, tag));
	CHECK(dnnl_convolution_forward_primitive_desc_create(&made, engine, dnnl_forward_inference, dnnl_convolution_direct,
														 x, w, NULL, y, p->stride, p->dilation, p->pad, p->pad, NULL));
	CHECK(dnnl_primitive_create(&primitive, made));
	make_tensor(&t[0], made, DNNL_ARG_SRC, 4, p->x, false);
	make_tensor(&t[1], made, DNNL_ARG_WEIGHTS, p->filter_rank, p->w, false);
	make_tensor(&t[2], made, DNNL_ARG_DST, 4, p->y, true);

	us = time_runs(primitive, t, false, milliseconds);
	if (with_reorders != NULL)
		*with_reorders = time_runs(primitive, t, true, milliseconds);

	for (int i = 0; i < 3; i++)
		free_tensor(&t[i]);
	dnnl_primitive_destroy(primitive);
	dnnl_primitive_desc_destroy(made);
	dnnl_memory_desc_destroy(x);
	dnnl_memory_desc_destroy(w);
	dnnl_memory_desc_destroy(y);
	return us;
}

int
main(void)
{
	Problem		problem;
	double		milliseconds;

	CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
	CHECK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
	while (read_problem(&problem, &milliseconds))
	{
		double		best,
					compute = measure(&problem, false, &best, milliseconds),
					plain = measure(&problem, true, NULL, milliseconds);

		printf("%.2f %.2f %.2f\n", compute, best, plain);
		fflush(stdout);
	}
	return 0;
}
