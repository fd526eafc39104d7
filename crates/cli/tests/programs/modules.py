"""Runs a module of Python's own tests. Writes a line for each test, with the result and the name
of the test.

    modules.py RESULTS MODULE
"""

import os
import sys
import tempfile
import unittest

# On a machine with a VSOCK that has no peer, a test of VSOCK waits forever.
LEFT_OUT = "VSOCK"


class Result(unittest.TextTestResult):
    ends = {}

    def note(self, test, how):
        if self.ends.get(test.id(), "ok") == "ok":
            self.ends[test.id()] = how

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "ok")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "error")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.note(test, "expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "unexpected")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(test, "failed")


def leave_out(suite):
    """Removes tests from a suite."""
    for nth, test in enumerate(suite._tests):
        if isinstance(test, unittest.TestSuite):
            leave_out(test)
        elif LEFT_OUT in test.id():
            suite._tests[nth] = unittest.TestSuite()


def main():
    results, module = sys.argv[1:]
    from test import support

    support.use_resources = []
    support.verbose = True
    os.chdir(tempfile.mkdtemp(dir=os.getcwd()))
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    leave_out(suite)
    unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    with open(results, "w", encoding="utf-8") as file:
        for name, how in sorted(Result.ends.items()):
            print(how, name, file=file)


if __name__ == "__main__":
    main()
