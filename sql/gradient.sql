-- Every backward function against central differences of its forward, and
-- convolution against its adjoint; in float64. A CPU library that lacks it
-- leaves it to the next provider.
DO $$
BEGIN
	IF current_setting('cudnn_ops.provider', true) = 'onednn' THEN
		SET cudnn_ops.provider = auto;
	END IF;
END
$$;

CREATE FUNCTION r(shape int[], seed int) RETURNS bytea LANGUAGE sql AS
$$ SELECT tensor_random(shape, seed, 'float64') $$;

CREATE FUNCTION dot(a bytea, b bytea) RETURNS float8 LANGUAGE sql AS
$$ SELECT sum(x * y) FROM unnest(tensor_to_float8(a), tensor_to_float8(b)) AS u(x, y) $$;

-- Is the relative error of `gradient` less than 1e-6? It is an expression over x
-- ($1) and the gradient of the output ($2); `forward` one over x.
CREATE FUNCTION gradient_fits(x bytea, forward text, gradient text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	h CONSTANT float8 := 1e-5;
	shape int[] := tensor_shape(x);
	v float8[] := tensor_to_float8(tensor_reshape(x, '{-1}'));
	y bytea;
	g bytea;
	numeric_gradient float8[];
	up float8;
	down float8;
	difference float8;
BEGIN
	EXECUTE format('SELECT %s', forward) INTO y USING x;
	g := r(tensor_shape(y), 99);
	FOR i IN 1 .. array_length(v, 1) LOOP
		EXECUTE format('SELECT dot(%s, $2)', forward) INTO up
			USING tensor(v[:i - 1] || (v[i] + h) || v[i + 1:], shape), g;
		EXECUTE format('SELECT dot(%s, $2)', forward) INTO down
			USING tensor(v[:i - 1] || (v[i] - h) || v[i + 1:], shape), g;
		numeric_gradient[i] := (up - down) / (2 * h);
	END LOOP;
	EXECUTE format('SELECT sqrt(sum((a - b) ^ 2) / sum(b ^ 2)) FROM unnest(tensor_to_float8(tensor_reshape(%s, ''{-1}'')), $3) AS u(a, b)', gradient)
		INTO difference USING x, g, numeric_gradient;
	RETURN difference < 1e-6;
END
$$;

-- Convolution by its input, its weight and its bias.
SELECT name, gradient_fits(r(xshape, 1),
                           format('conv%sd($1, r(%L, 2), NULL, %s)', nd, wshape, options),
                           format('conv%sd_backward_input($2, r(%L, 2), %L, %s)', nd, wshape, xshape, options)) AS input,
       gradient_fits(r(wshape, 2),
                     format('conv%sd(r(%L, 1), $1, NULL, %s)', nd, xshape, options),
                     format('conv%sd_backward_weight($2, r(%L, 1), %L, %s)', nd, xshape, wshape, options)) AS weight,
       gradient_fits(r(wshape[1:1], 3),
                     format('conv%sd(r(%L, 1), r(%L, 2), $1, %s)', nd, xshape, wshape, options),
                     'conv_backward_bias($2)') AS bias
FROM (VALUES
	('1-d', 1, '{2,2,9}'::int[], '{3,2,3}'::int[], $$stride => '{2}', padding => '{1}'$$),
	('1-d groups', 1, '{1,4,8}', '{6,2,2}', $$groups => 2, dilation => '{3}', padding => '{2,1}'$$),
	('2-d', 2, '{2,2,5,4}', '{3,2,3,2}', $$padding => '{1}'$$),
	('2-d options', 2, '{2,2,6,7}', '{2,2,2,3}', $$stride => '{2,3}', padding => '{1,0,2,1}', dilation => '{2,1}'$$),
	('2-d depthwise', 2, '{1,3,5,5}', '{6,1,3,3}', $$groups => 3, stride => '{2}', padding => '{1}'$$),
	('3-d', 3, '{1,2,3,4,3}', '{2,2,2,3,2}', $$padding => '{1,0,1}', stride => '{1,2,1}'$$),
	('3-d options', 3, '{1,4,3,3,4}', '{2,2,2,2,2}', $$groups => 2, dilation => '{1,2,1}', padding => '{0,1,0,1,0,1}'$$)
) AS c(name, nd, xshape, wshape, options);

-- Pooling.
SELECT name, gradient_fits(r(xshape, 4),
                           format('max_pool%sd($1, %s)', nd, options),
                           format('max_pool%1$sd_backward($2, $1, max_pool%1$sd($1, %2$s), %2$s)', nd, options)) AS max,
       gradient_fits(r(xshape, 4),
                     format('avg_pool%sd($1, %s)', nd, options),
                     format('avg_pool%sd_backward($2, %L, %s)', nd, xshape, options)) AS avg,
       gradient_fits(r(xshape, 4),
                     format('avg_pool%sd($1, %s, count_include_pad => false)', nd, options),
                     format('avg_pool%sd_backward($2, %L, %s, count_include_pad => false)', nd, xshape, options)) AS avg_excluding
FROM (VALUES
	('1-d', 1, '{2,2,8}'::int[], $$kernel_size => '{3}', stride => '{2}', padding => '{1}'$$),
	('2-d', 2, '{2,2,5,6}', $$kernel_size => '{2,3}'$$),
	('2-d ceil_mode', 2, '{1,2,6,5}', $$kernel_size => '{3,2}', stride => '{2,3}', padding => '{1,0,0,1}', ceil_mode => true$$),
	('3-d', 3, '{1,2,4,3,5}', $$kernel_size => '{2}', stride => '{1,2,2}', padding => '{1,0,1}'$$)
) AS c(name, nd, xshape, options);

-- Batch normalization per channel and per activation, by input, weight and bias.
SELECT name, gradient_fits(r(xshape, 5),
                           format('(batch_norm_train($1, r(%1$L, 6), r(%1$L, 7))).output', pshape),
                           format('(SELECT (batch_norm_backward($2, $1, r(%1$L, 6), t.save_mean, t.save_invstd)).grad_input FROM batch_norm_train($1, r(%1$L, 6)) AS t)', pshape)) AS input,
       gradient_fits(r(pshape, 6),
                     format('(batch_norm_train(r(%1$L, 5), $1, r(%2$L, 7))).output', xshape, pshape),
                     format('(SELECT (batch_norm_backward($2, r(%1$L, 5), $1, t.save_mean, t.save_invstd)).grad_weight FROM batch_norm_train(r(%1$L, 5), $1) AS t)', xshape)) AS weight,
       gradient_fits(r(pshape, 7),
                     format('(batch_norm_train(r(%1$L, 5), r(%2$L, 6), $1)).output', xshape, pshape),
                     format('(SELECT (batch_norm_backward($2, r(%1$L, 5), r(%2$L, 6), t.save_mean, t.save_invstd)).grad_bias FROM batch_norm_train(r(%1$L, 5), r(%2$L, 6)) AS t)', xshape, pshape)) AS bias
FROM (VALUES
	('rank 2', '{6,3}'::int[], '{3}'::int[]),
	('per channel', '{3,2,2,3}', '{2}'),
	('per activation', '{6,2,3}', '{2,3}'),
	('rank 5', '{2,2,2,2,3}', '{2}')
) AS c(name, xshape, pshape);

-- The adjoint: <conv(x), y> = <x, conv_transpose(y)>.
CREATE FUNCTION adjoint_fits(nd int, xshape int[], wshape int[], options text, output_padding text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	a float8;
	b float8;
BEGIN
	EXECUTE format('SELECT dot(c, y), dot(x, conv_transpose%1$sd(y, w, NULL, %4$s, output_padding => %5$L))
	                FROM (SELECT r(%2$L, 11) AS x, r(%3$L, 12) AS w) AS s,
	                     conv%1$sd(x, w, NULL, %4$s) AS c, r(tensor_shape(c), 13) AS y',
	               nd, xshape, wshape, options, output_padding) INTO a, b;
	RETURN abs(a - b) <= 1e-12 * (abs(a) + abs(b));
END
$$;
SELECT nd, adjoint_fits(nd, xshape, wshape, options, output_padding)
FROM (VALUES
	(1, '{2,4,11}'::int[], '{6,2,3}'::int[], $$stride => '{3}', padding => '{1}', dilation => '{2}', groups => 2$$, '{2}'),
	(1, '{2,4,9}', '{6,2,3}', $$stride => '{2}', padding => '{2,1}', groups => 2$$, '{1}'),
	(2, '{2,3,8,7}', '{4,3,3,2}', $$stride => '{2,1}', padding => '{1,0,1,1}', dilation => '{1,2}'$$, '{1,0}'),
	(3, '{1,4,5,4,5}', '{2,2,2,3,3}', $$padding => '{1,1,0}', stride => '{1,1,2}', groups => 2$$, '{0}')
) AS c(nd, xshape, wshape, options, output_padding);

DROP FUNCTION adjoint_fits, gradient_fits, dot, r;

-- What earlier calls left in the memory that a library works in does not matter.
CREATE VIEW short_rows AS SELECT conv2d_backward_weight(tensor_random('{1,64,2,1}', 1, 'bfloat16'), tensor_random('{1,128,6,1}', 2, 'bfloat16'),
	'{64,32,1,3}', stride => '{3}', padding => '{0,1,0,1}', groups => 4) AS dw;
CREATE TABLE before AS SELECT * FROM short_rows;
SELECT tensor_shape(conv2d_backward_weight(tensor_full('{1,64,2,40}', 3e38, 'bfloat16'), tensor_full('{1,128,6,120}', 3e38, 'bfloat16'),
	'{64,32,1,3}', stride => '{3}', padding => '{0,1,0,1}', groups => 4));
SELECT short_rows.dw = before.dw AS same, tensor_max_abs_diff(short_rows.dw, tensor_full('{64,32,1,3}', 0, 'bfloat16')) < 10 AS sane FROM short_rows, before;
DROP TABLE before;
DROP VIEW short_rows;
