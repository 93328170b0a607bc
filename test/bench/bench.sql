-- Data and functions of the benchmark, in a schema of its own. Everything is random.
DROP SCHEMA IF EXISTS cudnn_ops_bench CASCADE;
CREATE SCHEMA cudnn_ops_bench;

-- 2000 small images, stored in line: no row of the table is out of reach of the first read.
CREATE UNLOGGED TABLE images (img bytea);
ALTER TABLE images ALTER img SET STORAGE PLAIN;
CREATE UNLOGGED TABLE weights (w bytea, bias bytea);
INSERT INTO images SELECT tensor_random('{1,1,28,28}', i) FROM generate_series(1, 2000) AS i;
INSERT INTO weights VALUES (tensor_random('{8,1,5,5}', 1), tensor_random('{8}', 2));

-- One big tensor, and where results go.
CREATE UNLOGGED TABLE big (x bytea);
CREATE UNLOGGED TABLE big_out (x bytea);
ALTER TABLE big ALTER x SET STORAGE EXTERNAL;
ALTER TABLE big_out ALTER x SET STORAGE EXTERNAL;

-- Microseconds since a time.
CREATE FUNCTION us_since(start timestamptz) RETURNS float8 LANGUAGE sql AS $$
    SELECT extract(epoch FROM clock_timestamp() - start)::float8 * 1e6
$$;

-- Random elements, of which the tensors of time_conv are made: to draw them takes longer than to convolve them.
CREATE UNLOGGED TABLE pool (dtype text, raw bytea);
ALTER TABLE pool ALTER raw SET STORAGE EXTERNAL;
CREATE FUNCTION draw(n bigint, dtypes text[]) RETURNS void LANGUAGE sql AS $$
    TRUNCATE pool;
    INSERT INTO pool SELECT dtype, tensor_raw(tensor_random(ARRAY[n::int], 1, dtype)) FROM unnest(dtypes) AS dtype;
$$;
CREATE FUNCTION pooled(of text, shape int[]) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    size int := CASE of WHEN 'float32' THEN 4 ELSE 2 END;
    n int;
BEGIN
    FOREACH n IN ARRAY shape LOOP
        size := size * n;
    END LOOP;
    RETURN (SELECT tensor(substring(raw, 1, size), shape, of) FROM pool WHERE dtype = of);
END $$;

-- The convolution that time_conv measures.
CREATE UNLOGGED TABLE problem (dtype text, x bytea, w bytea);
ALTER TABLE problem ALTER x SET STORAGE EXTERNAL, ALTER w SET STORAGE EXTERNAL;
CREATE FUNCTION set_problem(x_shape int[], w_shape int[]) RETURNS void LANGUAGE sql AS $$
    TRUNCATE problem;
    INSERT INTO problem SELECT dtype, pooled(dtype, x_shape), pooled(dtype, w_shape) FROM pool;
$$;

-- Microseconds a call of a convolution of resident tensors, made for about round_us, or once if one takes as long. To wait
-- for the device, whose work is done in order, a result of one element is brought down. Without a device a result is
-- there when its function returns, and is not copied into a variable.
CREATE FUNCTION time_conv(of text, tf32 boolean, autotune boolean, stride int[], padding int[], dilation int[], groups int,
                          round_us float8) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    device boolean := current_setting('cudnn_ops.provider') = 'cudnn';
    one bytea := tensor_full('{1}', 1);
    x bytea;
    w bytea;
    y bytea;
    byte int;
    start timestamptz;
    us float8;
    calls int := 1;
BEGIN
    PERFORM set_config('cudnn_ops.allow_tf32', tf32::text, true), set_config('cudnn_ops.autotune', autotune::text, true);
    SELECT p.x, p.w INTO x, w FROM problem AS p WHERE p.dtype = of;
    x := tensor_to_device(x);
    w := tensor_to_device(w);
    FOR step IN 0 .. 2 LOOP
        start := clock_timestamp();
        IF device THEN
            FOR i IN 1 .. calls LOOP
                y := conv2d(x, w, NULL, stride, padding, dilation, groups);
            END LOOP;
            byte := get_byte(relu(one), 0);
        ELSE
            FOR i IN 1 .. calls LOOP
                byte := get_byte(conv2d(x, w, NULL, stride, padding, dilation, groups), 0);
            END LOOP;
        END IF;
        us := us_since(start) / calls;
        IF step > 0 THEN
            EXIT WHEN us > round_us / 2;
            calls := least(greatest(round_us / us, 1), 300);
        END IF;
    END LOOP;
    RETURN us;
END $$;

-- The same of the first layers of ResNet.
CREATE FUNCTION time_stem(dtype text, tf32 boolean, n int, calls int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    device boolean := current_setting('cudnn_ops.provider') = 'cudnn';
    one bytea := tensor_full('{1}', 1);
    x bytea := tensor_to_device(pooled(dtype, ARRAY[n, 3, 224, 224]));
    w bytea := tensor_to_device(pooled(dtype, '{64,3,7,7}'));
    mean bytea := tensor_to_device(tensor_random('{64}', 3));
    var bytea := tensor_to_device(tensor_cast(tensor_random('{64}', 4), 'float32', 0.5, 1));
    gamma bytea := tensor_to_device(tensor_random('{64}', 5));
    beta bytea := tensor_to_device(tensor_random('{64}', 6));
    y bytea;
    byte int;
    start timestamptz;
BEGIN
    PERFORM set_config('cudnn_ops.allow_tf32', tf32::text, true);
    FOR i IN 0 .. calls LOOP
        y := max_pool2d(relu(batch_norm(conv2d(x, w, NULL, '{2}', '{3}'), mean, var, gamma, beta)), '{3}', '{2}', '{1}');
        IF i = 0 AND device THEN
            byte := get_byte(relu(one), 0);
        END IF;
        IF i = 0 THEN
            start := clock_timestamp();
        END IF;
    END LOOP;
    IF device THEN
        byte := get_byte(relu(one), 0);
    END IF;
    RETURN us_since(start) / calls;
END $$;

ANALYZE images, weights;
