SELECT tensor_shape(y), tensor_to_real(y) FROM relu(tensor(ARRAY[[-1, 2], [0, -4]]::real[])) AS y;
SELECT tensor_to_real(relu(tensor(ARRAY['NaN', 'Infinity', '-Infinity']::real[])));
SELECT relu(NULL) IS NULL;

-- Any rank from 0 on, and no elements at all.
SELECT tensor_item(relu(tensor_full('{}', 3))), tensor_shape(relu(tensor_full('{1,1,1,1,1,1,1,2}', 3))), tensor_shape(relu(tensor_full('{0,3}', 1)));

-- Nested calls.
SELECT tensor_to_real(max_pool2d(relu(conv2d(tensor(ARRAY[[[[1, 2], [3, 4]]]]::real[]), tensor(ARRAY[[[[-1]]], [[[1]]]]::real[]))), '{2}'));

-- In PL/pgSQL a variable holds a tensor, and an error leaves the session alive.
DO $$
DECLARE
	x bytea := tensor(ARRAY[-1, 2]::real[]);
	y bytea;
BEGIN
	FOR i IN 1..3 LOOP
		y := relu(x);
		x := y;
	END LOOP;
	BEGIN
		y := conv2d(x, y);
	EXCEPTION WHEN data_exception THEN
		RAISE NOTICE '%: %', SQLSTATE, SQLERRM;
	END;
	RAISE NOTICE '%', tensor_to_real(y);
END
$$;

-- float64; auto, for a CPU library may lack it.
SET cudnn_ops.provider = auto;
SELECT tensor_to_float8(relu(tensor(ARRAY[-1, 16777217]::float8[])));
RESET cudnn_ops.provider;

SELECT relu(tensor_full('{2}', 1, 'uint8'));
SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
