from commitlog._kernel.appender cimport Engine


cdef class LogMethods:
    cdef Engine engine
    cdef object parts
