package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestS6_TheHandlerEndsWithNoCodeThatResumesIO(t *testing.T) {
	for code := range 256 {
		require.NotContains(t, []int{3, 5, 7}, fencePeerExitCode(code))
	}
	for name, args := range map[string][]string{
		"an argument that it does not take": {"fence-peer", "minor-107"},
		"a flag that it does not have":      {"fence-peer", "--force"},
		"not called by the kernel":          {"fence-peer"},
		"a self-test without a node":        {"fence-peer", "--self-test", "--socket", "/nonexistent/fence.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DRBD_RESOURCE", "")
			require.Equal(t, 1, Main(args, &bytes.Buffer{}, &bytes.Buffer{}))
		})
	}
}
