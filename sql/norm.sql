CREATE VIEW batch AS
SELECT tensor(ARRAY[[[1, 2], [10, 20]], [[3, 4], [30, 40]]]::real[]) AS x;	-- (2, 2, 2)

-- Variance 4 and eps 0: (x - mean) / 2 * weight + bias.
SELECT tensor_to_real(batch_norm(x, tensor(ARRAY[1, 10]::real[]), tensor_full('{2}', 4), eps => 0)) FROM batch;
SELECT tensor_to_real(batch_norm(x, tensor(ARRAY[1, 10]::real[]), tensor_full('{2}', 4),
                                 tensor(ARRAY[2, 4]::real[]), tensor(ARRAY[100, 200]::real[]), 0)) FROM batch;
SELECT tensor_to_real(batch_norm(x, tensor(ARRAY[1, 10]::real[]), tensor_full('{2}', 4),
                                 bias => tensor(ARRAY[100, 200]::real[]), eps => 0)) FROM batch;
SELECT tensor_to_real(batch_norm(x, tensor_full('{2}', 0), tensor_full('{2}', 3), eps => 1)) FROM batch;

-- (1, C, 1) is per channel too; (C, L) and (1, C, L) are per activation.
SELECT tensor_to_real(batch_norm(x, tensor(ARRAY[1, 10]::real[], '{1,2,1}'), tensor_full('{2}', 4), eps => 0)) FROM batch;
SELECT tensor_to_real(batch_norm(x, tensor(ARRAY[1, 2, 10, 20]::real[], '{2,2}'), tensor_full('{1,2,2}', 4), eps => 0)) FROM batch;

-- Ranks 2 to 5.
SELECT tensor_to_real(batch_norm(tensor(ARRAY[[1, 2], [3, 4]]::real[]), tensor_full('{2}', 0), tensor_full('{2}', 4), eps => 0));
SELECT tensor_shape(batch_norm(tensor_full('{2,3,4,5}', 1), tensor_full('{3}', 0), tensor_full('{3}', 1))),
       tensor_shape(batch_norm(tensor_full('{2,3,4,5,6}', 1), tensor_full('{3,4,5,6}', 0), tensor_full('{3,4,5,6}', 1)));
SELECT tensor_shape(batch_norm(tensor_full('{0,3,4}', 1), tensor_full('{3}', 0), tensor_full('{3}', 1)));
SELECT batch_norm(NULL, tensor_full('{2}', 0), tensor_full('{2}', 1)) IS NULL, batch_norm(x, NULL, tensor_full('{2}', 1)) IS NULL FROM batch;

-- Training: the batch's statistics, and running ones that move a tenth of the way.
SELECT tensor_allclose(output, batch_norm(x, save_mean, tensor(ARRAY[1.25, 125]::real[])), 1e-5, 1e-6),
       tensor_to_real(save_mean) AS mean,
       tensor_allclose(save_invstd, tensor(ARRAY[0.894424, 0.0894427]::real[]), 1e-5),
       running_mean IS NULL, running_var IS NULL
FROM batch, batch_norm_train(x);
SELECT tensor_allclose(running_mean, tensor(ARRAY[0.25, 2.5]::real[]), 1e-6),
       tensor_allclose(running_var, tensor(ARRAY[1 * 0.9 + 0.1 * 5 / 3, 1 * 0.9 + 0.1 * 500 / 3]::real[]), 1e-6)
FROM batch, batch_norm_train(x, running_mean => tensor_full('{2}', 0), running_var => tensor_full('{2}', 1));
-- One value a channel: the variance is 0 and no NaN comes of it.
SELECT tensor_to_real(output), tensor_to_real(running_mean), tensor_to_real(running_var)
FROM batch_norm_train(tensor(ARRAY[[3, 5]]::real[]), NULL, tensor(ARRAY[1, 2]::real[]), tensor_full('{2}', 0), tensor_full('{2}', 4), 0.5);
-- Statistics come in the shape of their parameter.
SELECT tensor_shape(save_mean), tensor_shape(save_invstd), tensor_shape(r.running_mean), tensor_shape(r.running_var)
FROM batch, batch_norm_train(x, tensor_full('{1,2,1}', 1), NULL, tensor_full('{2}', 0), tensor_full('{2,1}', 1)) AS r;

-- Gradients: of a constant they vanish, that of the bias is the sum.
SELECT tensor_max_abs_diff(grad_input, tensor_full('{2,2,2}', 0)) < 1e-5, tensor_to_real(grad_bias),
       tensor_max_abs_diff(grad_weight, tensor_full('{2}', 0)) < 1e-5
FROM batch, batch_norm_train(x) AS t, batch_norm_backward(tensor_full('{2,2,2}', 1), x, NULL, t.save_mean, t.save_invstd);

-- Errors say both sides.
SELECT batch_norm(x, tensor_full('{3}', 0), tensor_full('{3}', 1)) FROM batch;
SELECT batch_norm(x, tensor_full('{2}', 0), tensor_full('{2,2}', 1)) FROM batch;
SELECT batch_norm(x, tensor_full('{2}', 0, 'float64'), tensor_full('{2}', 1)) FROM batch;
SELECT batch_norm(x, tensor_full('{2}', 0), tensor_full('{2}', 1), eps => -1) FROM batch;
SELECT batch_norm(tensor_full('{2}', 0), tensor_full('{2}', 0), tensor_full('{2}', 1));
SELECT batch_norm(tensor_full('{2,2}', 0, 'int32'), tensor_full('{2}', 0), tensor_full('{2}', 1));
SELECT batch_norm_train(x, running_mean => tensor_full('{2}', 0)) FROM batch;
SELECT batch_norm_backward(tensor_full('{2,2}', 0), x, NULL, tensor_full('{2}', 0), tensor_full('{2}', 1)) FROM batch;

SELECT live_tensors, device_bytes FROM cudnn_ops_memory();
DROP VIEW batch;
