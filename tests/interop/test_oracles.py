"""The programs that others are compared with are here, and run apart."""


def test_tensorflow_runs_in_a_process_of_its_own(tensorflow):
    assert tensorflow("print(int(tf.constant(1) + 1))") == "2\n"


def test_dali_runs_without_a_gpu(dali):
    pipeline = """
        import numpy as np

        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def constant():
            return fn.external_source(lambda: np.array([[1], [2]]), batch=True)

        pipe = constant()
        pipe.build()
        print(pipe.run()[0].as_array().tolist())
    """
    assert dali(pipeline) == "[[1], [2]]\n"
