import importlib.util

if importlib.util.find_spec("numba") is None:
    collect_ignore_glob = ["test_*.py"]  # without the extra `fast` there is no engine to test
