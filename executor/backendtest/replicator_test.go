package backendtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
)

// A host may take its resource down just before a test has its disk fail.
func TestTheKernelGivesUpNoDiskThatItDoesNotHave(t *testing.T) {
	r := backendtest.NewFakeLink().Side(0)
	require.NotPanics(t, func() { r.FailDisk("hf-1") })
}
